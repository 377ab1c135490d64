// What tasks claim of what they share: bandwidths, and the processors of a device.
#pragma once

#include <cstdint>

namespace stepsim {

enum class TaskId : uint32_t {};
enum class StreamId : uint32_t {};
enum class ResourceId : uint32_t {};
enum class PoolId : uint32_t {};
inline constexpr TaskId no_task{UINT32_MAX};
inline constexpr StreamId no_stream{UINT32_MAX};  ///< not in any in-order queue
inline constexpr uint64_t no_queue = UINT64_MAX;
constexpr uint32_t index(TaskId t) { return static_cast<uint32_t>(t); }
constexpr uint32_t index(StreamId s) { return static_cast<uint32_t>(s); }
constexpr uint32_t index(ResourceId r) { return static_cast<uint32_t>(r); }
constexpr uint32_t index(PoolId p) { return static_cast<uint32_t>(p); }

/// A share of a resource that a task holds while it runs.
struct Claim {
  ResourceId resource{};
  float rate = 0;  ///< units of the resource per second at full speed (bytes/s for links)
  uint32_t multiplicity = 1;  ///< how many identical flows of unrepresented ranks ride along
};

/// What a task does with a pool of processors, the SMs of one device; the laws are in processors.h.
struct ProcessorClaim {
  /// run: shares what nobody holds, by `blocks`. hold: keeps `count` to itself until it finishes.
  /// take, give: the two ends of a hold that one task begins and another ends.
  enum class Role : uint8_t { run, hold, take, give };
  PoolId pool{};
  Role role = Role::run;
  bool persistent = false;  ///< of a runner: its blocks stay to its end, so its wave is all of it
  bool yields = false;      ///< hold, take: behind a runner that starts at the same instant
  uint32_t count = 0;       ///< processors; of a runner: those that give it full speed
  uint32_t blocks = 0;      ///< of a runner: equal blocks of work; 0: many small ones
  uint32_t saturating = 0;  ///< of a runner with blocks: as many as give its full rate; 0: `count`
};

/// Claims that many tasks make alike: rows [first, last) of both tables.
struct ClaimSet {
  uint32_t first_claim = 0, last_claim = 0, first_processor = 0, last_processor = 0;
};
enum class ClaimSetId : uint32_t {};
constexpr uint32_t index(ClaimSetId s) { return static_cast<uint32_t>(s); }

/// Flow part of a task: `latency` first, at full speed, then the rest as its claims allow.
struct FlowRow {
  TaskId task{};
  ClaimSetId set{};
  double latency_seconds = 0;
};

}  // namespace stepsim
