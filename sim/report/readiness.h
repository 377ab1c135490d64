// How late transfers start and how long they take beyond their time alone, and through what.
//
//   data ready      every finish-to-start dependency but the queue's own order has finished
//   queue ready     what was issued before it on its stream has finished; a piece of the same
//                   operation (a step of a ring) counts as data, a bucket before it does not
//   launch          the rest up to its start: launch lags and launch queues
//   SMs             up to where the wave ends that occupies the SMs which it needs
//   sharing         what a transfer takes beyond that and its own time
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/lower/lowered.h"
#include "sim/report/step_end.h"

namespace stepsim {

/// By task: when its dependencies had finished. 0: it has none.
struct Readiness {
  std::vector<double> data_seconds, queue_seconds;
};
Readiness readiness(const LoweredStep& step, const Timeline& timeline);

/// What a transfer takes beyond its time alone.
struct Excess {
  double sm_seconds = 0, memory_seconds = 0, link_seconds = 0;
};

/// Tells excess apart; what it needs to know of other tasks is gathered when first asked.
class TransferExcess {
 public:
  TransferExcess(const LoweredStep& step, const Timeline& timeline)
      : step_(step), timeline_(timeline) {}

  Excess of(TaskId transfer);

 private:
  /// A flow of one resource.
  struct Use {
    double start = 0, finish = 0, rate = 0;
  };
  /// The flows of one resource in order of their start.
  struct Resource {
    std::vector<Use> uses;
    double longest_seconds = 0;
    bool memory = false;  ///< kernels use it too
  };
  void gather();
  const FlowRow* flow_of(TaskId task) const;
  double sm_wait(TaskId transfer, const FlowRow& flow) const;
  double load(const Resource& resource, double low, double high) const;

  const LoweredStep& step_;
  const Timeline& timeline_;
  std::vector<Resource> resources_;
  std::vector<std::vector<TaskId>> kernels_;  ///< by device, in order
};

}  // namespace stepsim
