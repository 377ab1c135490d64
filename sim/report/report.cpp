#include "sim/report/report.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepsim {
namespace {

/// The main GEMMs run in fp8 when it is on, else in the parameters' compute type.
Dtype main_dtype(const Precision& p) {
  return p.fp8 != Fp8Recipe::none ? Dtype::fp8 : p.parameters;
}

/// Throughput and utilisation; nothing of it without a model.
void rate(Report& report, const Scenario& scenario, const LoweredStep& step) {
  const double gpu_seconds = static_cast<double>(report.gpus) * report.step_seconds;
  if (scenario.costs || gpu_seconds <= 0) return;
  if (step.tokens > 0) report.tokens_per_second_per_gpu = step.tokens / gpu_seconds;
  report.peak_dtype = main_dtype(scenario.precision);
  report.peak = scenario.cluster.device.gemm[static_cast<size_t>(report.peak_dtype)].peak;
  const auto share = [&](double flops) -> std::optional<double> {
    if (report.peak.value <= 0 || flops <= 0) return std::nullopt;
    return flops / gpu_seconds / report.peak.value;
  };
  if (step.model_flops > 0) report.model_flops_per_second_per_gpu = step.model_flops / gpu_seconds;
  report.mfu = share(step.model_flops);
  report.hfu = share(step.hardware_flops);
}

std::optional<MemoryReport> peak_memory(const Scenario& scenario, const LoweredStep& step) {
  if (scenario.costs || step.memory.empty()) return std::nullopt;
  const auto total = [](const DeviceMemory& m) { return m.peak() + m.reserve; };
  const auto peak = std::max_element(
      step.memory.begin(), step.memory.end(),
      [&](const DeviceMemory& a, const DeviceMemory& b) { return total(a) < total(b); });
  const auto device = static_cast<size_t>(peak - step.memory.begin());
  return MemoryReport{.rank = step.devices[device].rank,
                      .sizes = *peak,
                      .capacity_bytes = scenario.cluster.device.memory_capacity.value};
}

FaultCost fault_cost(const LoweredStep& step, const Timeline& timeline, StepEnd end,
                     const SoundStep& sound, const std::vector<Ledger>& by_device) {
  const double rounding = 1e-9 * end.seconds;
  // Contention is not the device's own: who shares with whom moves with every fault.
  const auto own = [](const Ledger& l) { return l[Cause::compute] + l[Cause::optimizer]; };
  FaultCost cost{.sound_step_seconds = sound.step_seconds, .late = {}};
  const std::vector<double> critical = critical_seconds_by_device(step, timeline, end);
  for (size_t d = 0; d < step.devices.size(); ++d) {
    const SimulatedDevice& device = step.devices[d];
    const double late = own(by_device[d]) - own(sound.ledgers[d]);
    if (late > rounding) cost.late.push_back({device.rank, device.stage, late});
    if (critical[d] > cost.critical_seconds) {
      cost.critical_rank = device.rank;
      cost.critical_stage = device.stage;
      cost.critical_seconds = critical[d];
    }
  }
  // Equal ranks in rank order, though their sums differ in the last bits.
  const auto place = [&](const LateDevice& l) {
    return std::pair(-std::round(l.late_seconds / rounding), l.rank);
  };
  std::sort(cost.late.begin(), cost.late.end(),
            [&](const LateDevice& a, const LateDevice& b) { return place(a) < place(b); });
  return cost;
}

}  // namespace

Report make_report(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline,
                   const std::optional<SoundStep>& sound) {
  const StepEnd end = step_end(step, timeline);
  Report report;
  report.step_seconds = end.seconds;
  report.gpus = scenario.parallel.world();
  report.tasks = step.graph.task_count();
  report.buckets = step.buckets;
  rate(report, scenario, step);

  std::vector<Ledger> by_device = ledgers(step, timeline, end);
  if (sound) {
    report.faults = fault_cost(step, timeline, end, *sound, by_device);
    for (size_t d = 0; d < by_device.size(); ++d)
      by_device[d] = with_skew(by_device[d], sound->ledgers[d]);
  }
  report.ledger = mean_ledger(by_device, step.devices);
  report.bubble_fraction = end.seconds > 0 ? report.ledger[Cause::bubble] / end.seconds : 0;
  report.compute_contends =
      std::any_of(step.graph.flows.begin(), step.graph.flows.end(), [&](const FlowRow& flow) {
        return row(label_of(step.graph, flow.task).op).task_class == TaskClass::compute;
      });
  report.communication = communication(step, timeline, end);
  if (report.compute_contends && report.communication.overall)
    report.contention = contention(step, timeline, end);
  report.critical_path = critical_path(step, timeline, end);
  report.memory = peak_memory(scenario, step);

  const std::vector<Phases> by_phase = phases(step, timeline, end);
  for (size_t d = 0; d < step.devices.size(); ++d) {
    const SimulatedDevice& device = step.devices[d];
    std::optional<double> peak;
    if (report.memory && d < step.memory.size()) peak = step.memory[d].peak();
    report.devices.push_back(
        {device.rank, device.represents, device.stage, by_device[d], by_phase[d], peak});
  }
  if (scenario.costs) return report;
  report.interval = step_interval(scenario, step, timeline, report.ledger, report.step_seconds);
  report.straddling = straddling(Mesh(scenario.parallel), scenario.cluster.nvlink_domain);
  // Only tied embeddings have a group of their own.
  if (!scenario.model.tied_embeddings)
    std::erase_if(report.straddling,
                  [](const Straddling& s) { return s.kind == GroupKind::embedding; });
  if (!scenario.model.moe.present())
    std::erase_if(report.straddling, [](const Straddling& s) { return is_expert(s.kind); });
  return report;
}

}  // namespace stepsim
