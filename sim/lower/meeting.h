// Where simulated devices meet: groups by sequence number, pairs by message.
#pragma once

#include <cstdint>

#include "sim/engine/claims.h"

namespace stepsim {

/// Groups that rendezvous by sequence number.
enum class Meeting : uint8_t {
  tp,
  cp,
  cp_inner,
  cp_outer,
  dp,
  embedding,
  ep,
  etp,
  etp_ep,
  edp,
  dp_inner,
  dp_outer,
  edp_inner,
  edp_outer,
  world,
  count
};

/// A message between pipeline ranks: the sender's and receiver's devices and its place at the
/// receiver.
struct MessageKey {
  uint32_t sender = 0, receiver = 0;
  bool forward = true;
  bool to_next = true;  ///< goes to the next rank in ring order, not to the previous one
  int chunk = 0;        ///< the receiver's
  int microbatch = 0;
};

/// One member of a collective: the same task twice when it is the only simulated one.
struct Entered {
  TaskId entry{}, moved{};
};

}  // namespace stepsim
