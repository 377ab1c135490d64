// The in-order queues of a simulated device, and their numbers in the graph.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/engine/task_graph.h"

namespace stepsim {

/// In-order queues of one simulated device. StreamId = device * stream_count + Stream.
enum class Stream : uint8_t {
  compute,
  tp,
  cp,
  pp_send_next,
  pp_recv_prev,
  pp_send_prev,
  pp_recv_next,
  dp,
  ep,   ///< dispatch and combine of experts
  edp,  ///< reductions and gathers of expert parameters
  d2h,
  h2d,  ///< copies to and from the host
  host
};
inline constexpr uint32_t stream_count = 13;
std::string_view name(Stream s);
constexpr StreamId stream_id(uint32_t device, Stream s) {
  return StreamId{device * stream_count + static_cast<uint32_t>(s)};
}
constexpr uint32_t device_of(StreamId s) { return index(s) / stream_count; }
constexpr Stream stream_of(StreamId s) { return static_cast<Stream>(index(s) % stream_count); }

}  // namespace stepsim
