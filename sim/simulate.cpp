#include "sim/simulate.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "sim/base/error.h"
#include "sim/config/read.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "sim/network/collective.h"
#include "sim/network/fabric.h"
#include "sim/parallel/folding.h"
#include "sim/parallel/mesh.h"

namespace stepsim {

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Stall describe_stall(const LoweredStep& step, const Deadlock& deadlock) {
  Stall stall{.waits = {}, .reached_seconds = deadlock.reached_seconds};
  for (TaskId t : deadlock.cycle) {
    const StreamId stream = step.graph.streams[index(t)];
    const std::string what = describe(Label::unpack(step.graph.labels[index(t)]));
    if (stream == no_stream) {
      stall.waits.push_back(what);
    } else {
      const SimulatedDevice& d = step.devices[device_of(stream)];
      stall.waits.push_back(
          fmt::format("rank {} (stage {}) {}: {}", d.rank, d.stage, name(stream_of(stream)), what));
    }
  }
  return stall;
}

/// Equal numbers for ranks with equal faults; empty when one number would do.
std::vector<int> fault_marks(const Faults& faults) {
  std::map<std::array<double, 6>, int> known;
  std::vector<int> marks;
  for (const RankFault& f : faults.ranks)
    marks.push_back(
        known
            .try_emplace({f.slowdown, f.delay_per_forward.value, f.delay_per_backward.value,
                          f.delay_per_step.value, f.nvlink_factor, f.nic_factor},
                         static_cast<int>(known.size()))
            .first->second);
  if (known.size() < 2) marks.clear();
  return marks;
}

/// What tells ranks apart on this cluster. Given costs come without hardware: only faults do.
Surroundings surroundings(const Scenario& scenario, const Fabric& fabric) {
  if (scenario.costs) return {.marks = fault_marks(scenario.faults)};
  // Where two groups lie differently in a free-form graph cannot be told from their cost alone.
  if (!scenario.cluster.links.empty()) return {.in_order = true, .alike = false};
  return {.units = sharing_units(scenario.cluster),
          .key = [&](std::span<const int> ranks) { return placement_key(place(ranks, fabric)); },
          .same_pair = [&](int a, int b) { return fabric.route_class(a, b); },
          .marks = fault_marks(scenario.faults),
          .in_order = scenario.cluster.hosts.empty() && nics_divide_nodes(scenario.cluster)};
}

/// Ranks that lie differently are simulated one by one: how many there are is known only now.
void check_size(const Scenario& s, const Folding& folding) {
  const auto devices = static_cast<int64_t>(folding.ranks.size());
  if (devices <= s.parallel.pp) return;  // checked when the scenario was read
  const double tasks = estimated_tasks(s, devices);
  if (tasks > static_cast<double>(most_tasks))
    throw Error(
        s.file, "/cluster",
        fmt::format("{} of {} ranks {} differently and are simulated one by one: about "
                    "{:.2g} tasks; the limit is {:.2g}",
                    devices, s.parallel.world(), s.faults.ranks.empty() ? "lie" : "lie or run",
                    tasks, static_cast<double>(most_tasks)));
}

/// Sums of times that are each in range may be more than a number holds.
void check_finite(const Scenario& s, const std::variant<Timeline, Deadlock>& outcome) {
  const Timeline* timeline = std::get_if<Timeline>(&outcome);
  const Deadlock* deadlock = std::get_if<Deadlock>(&outcome);
  if (timeline != nullptr ? std::isfinite(timeline->makespan_seconds)
                          : !deadlock->cycle.empty() && std::isfinite(deadlock->reached_seconds))
    return;
  throw Error(s.file, "",
              "the step would take longer than a number can hold: some time, rate or fault in it "
              "is out of all proportion");
}

/// What faults are compared with: the same step without them, folded whatever the options say.
/// A step whose faulty twin finished finishes too.
SoundStep sound_step(const Scenario& scenario, const LoweredStep& step,
                     const SimulateOptions& options) {
  const Scenario sound = without_faults(scenario);
  const Mesh mesh(sound.parallel);
  const Fabric fabric(sound.cluster);
  const Folding folding = fold(mesh, sound.parallel, surroundings(sound, fabric), false);
  const LoweredStep lowered = lower(sound, mesh, folding, fabric);
  const auto outcome = run(lowered.graph, {.sharing = options.sharing});
  check_finite(sound, outcome);
  const Timeline& timeline = std::get<Timeline>(outcome);
  const StepEnd end = step_end(lowered, timeline);
  const std::vector<Ledger> by_device = ledgers(lowered, timeline, end);
  SoundStep result{.step_seconds = end.seconds, .ledgers = {}};
  for (const SimulatedDevice& d : step.devices)
    result.ledgers.push_back(by_device[static_cast<size_t>(folding.device(d.rank))]);
  return result;
}

}  // namespace

std::variant<Simulation, Stall> simulate(const Scenario& scenario, const SimulateOptions& options) {
  const Clock::time_point start = Clock::now();
  const Mesh mesh(scenario.parallel);
  const Fabric fabric(scenario.cluster);
  const Folding folding =
      fold(mesh, scenario.parallel, surroundings(scenario, fabric), options.unfold);
  check_size(scenario, folding);
  LoweredStep step = lower(scenario, mesh, folding, fabric);
  const double lower_seconds = since(start);

  const Clock::time_point run_start = Clock::now();
  std::variant<Timeline, Deadlock> outcome = run(step.graph, {.sharing = options.sharing});
  const double engine_seconds = since(run_start);
  check_finite(scenario, outcome);
  if (const Deadlock* deadlock = std::get_if<Deadlock>(&outcome))
    return describe_stall(step, *deadlock);

  Timeline& timeline = std::get<Timeline>(outcome);
  std::optional<SoundStep> sound;
  if (scenario.faults.any()) sound = sound_step(scenario, step, options);
  Report report = make_report(scenario, step, timeline, sound);
  return Simulation{std::move(step), std::move(timeline), std::move(report), lower_seconds,
                    engine_seconds};
}

}  // namespace stepsim
