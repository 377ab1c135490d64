// Pools of processors (the SMs of a device): who holds some, and how fast the rest lets others run.
//
// A holder keeps its processors from the moment it gets them until it finishes: a communication
// kernel's blocks are never preempted. A runner (a compute kernel) runs on what nobody holds. With
// n = size - held free processors, at least 1, and `count` that give it full speed:
//   speed = 1                      n >= count
//         = n / count              many small blocks
//         = T(count) / T(n)        equal blocks: T(n) adds waves of n blocks and a last one of the
//                                  rest; b blocks work at the rate min(1, b / saturating)
// With saturating = count (arithmetic) that is ceil(blocks / count) / ceil(blocks / n);
// memory-bound kernels saturate sooner. A holder that arrives while a runner occupies the
// processors it needs (count > size - the runner's count) gets them where the runner's wave ends, W
// = ceil(blocks / count) waves being equal parts of its work, or 1 when the blocks are persistent;
// small blocks free processors at once. A runner that starts at the holder's instant counts only
// when the holder yields.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/task_graph.h"

namespace stepsim {

/// By pool: whether one queue holds of it what another may run on. All other pools can be ignored.
std::vector<uint8_t> contended_pools(const TaskGraph& graph);

/// Processors that a runner has its blocks on, when nobody holds any.
inline uint32_t occupied(const ProcessorClaim& runner) {
  return runner.blocks > 0 && runner.blocks < runner.count ? runner.blocks : runner.count;
}

/// Speed of a runner on `free` processors.
double runner_speed(const ProcessorClaim& runner, uint32_t free);

/// Seconds of work up to where the wave ends that a runner is in, of `done` and `total` seconds at
/// full speed; 0 when its processors are free at once or that wave ends now (to 1e-9 of a wave).
double wave_end_seconds(const ProcessorClaim& runner, double done, double total);

/// Holders and runners now.
class ProcessorPools {
 public:
  ProcessorPools(const TaskGraph& graph, std::vector<uint8_t> contended);

  /// A runner, by slot (fair_share.h), when it began, and who waits for its wave to end.
  struct Runner {
    uint32_t slot = 0;
    double since_seconds = 0;
    ProcessorClaim claim;
    double wave_end = 0;              ///< seconds of work; 0: nobody waits
    std::vector<uint32_t> waiting{};  ///< slots
  };

  bool contended(PoolId pool) const { return contended_[index(pool)] != 0; }
  std::span<Runner> runners(PoolId pool) { return pools_[index(pool)].runners; }
  Runner* runner(uint32_t slot, PoolId pool);  ///< null when it does not run
  uint32_t size(PoolId pool) const { return pools_[index(pool)].size; }
  uint32_t free(PoolId pool) const;

  void take(PoolId pool, uint32_t count);
  void give(PoolId pool, uint32_t count);
  void join(uint32_t slot, double now_seconds, const ProcessorClaim& claim);
  /// Who waited for the runner's wave.
  std::vector<uint32_t> leave(uint32_t slot, PoolId pool);
  /// Calls `visit` with each pool where something changed since the last call.
  template <class Visit>
  void for_each_changed(Visit visit) {
    for (PoolId pool : changed_) {
      pools_[index(pool)].changed = false;
      visit(pool);
    }
    changed_.clear();
  }

 private:
  struct Pool {
    uint32_t size = 0, held = 0;
    bool changed = false;
    std::vector<Runner> runners;
  };
  void touch(PoolId pool);

  std::vector<uint8_t> contended_;
  std::vector<Pool> pools_;
  std::vector<PoolId> changed_;
};

}  // namespace stepsim
