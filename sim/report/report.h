// Everything that is said about one simulated step, as plain values. Every figure is a pass over
// the Timeline. A figure that does not apply (no model, no such communication) is absent, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/parallel/mesh.h"
#include "sim/report/contention.h"
#include "sim/report/critical_path.h"
#include "sim/report/interval.h"
#include "sim/report/ledger.h"
#include "sim/report/overlap.h"
#include "sim/report/phases.h"
#include "sim/report/step_distribution.h"

namespace stepsim {

/// One simulated device and the ranks that it stands for.
struct DeviceReport {
  int rank = 0;
  int64_t represents = 1;
  int stage = 0;
  Ledger ledger;  ///< seconds; adds up to the step
  Phases phases;
  std::optional<double> peak_bytes;
};

/// The rank that peaks.
struct MemoryReport {
  int rank = 0;
  DeviceMemory sizes;
  double capacity_bytes = 0;
  double peak_bytes() const { return sizes.peak(); }
  bool fits() const { return sizes.peak() + sizes.reserve <= capacity_bytes; }
};

/// A device whose kernels (injected delays included) take longer than without the faults.
struct LateDevice {
  int rank = 0, stage = 0;
  double late_seconds = 0;
};

/// What injected faults and jitter cost: this step against the same one without them.
struct FaultCost {
  double sound_step_seconds = 0;
  std::vector<LateDevice> late;  ///< latest first
  /// Whose kernels and host work take most of the critical path, and how long.
  int critical_rank = 0, critical_stage = 0;
  double critical_seconds = 0;
};

/// One step. Absent throughput, utilisation and memory: the scenario gives costs in place of a
/// model.
struct Report {
  double step_seconds = 0;
  std::optional<StepInterval> interval;  ///< absent where costs are given
  std::optional<double> tokens_per_second_per_gpu;
  std::optional<double> model_flops_per_second_per_gpu;
  std::optional<double> mfu, hfu;
  Dtype peak_dtype = Dtype::bf16;  ///< of the main GEMMs; MFU is over its dense vendor peak
  FlopsPerSecond peak;

  double bubble_fraction = 0;  ///< of device time, weighted by ranks
  CommunicationTable communication;
  std::optional<Contention> contention;  ///< absent where no kernel shares anything
  Ledger ledger;                         ///< seconds, mean over all ranks
  bool compute_contends =
      false;  ///< some kernel claims a shared resource; else contention does not apply
  std::vector<DeviceReport> devices;
  std::optional<MemoryReport> memory;
  std::vector<PathPart> critical_path;
  std::optional<FaultCost> faults;                  ///< absent without injected faults
  std::optional<StepDistribution> routing_samples;  ///< absent where tokens spread in one way
  std::vector<Straddling> straddling;
  std::vector<BucketRow> buckets;
  int64_t gpus = 0;
  uint32_t tasks = 0;
};

/// `sound`: the same step without its injected faults; set when the scenario has any.
Report make_report(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline,
                   const std::optional<SoundStep>& sound = std::nullopt);

}  // namespace stepsim
