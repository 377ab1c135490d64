#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
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

/// Equal numbers for ranks with equal faults and equally loaded experts; empty when one number
/// would do.
std::vector<int> rank_marks(const Scenario& s) {
  const Parallelism& p = s.parallel;
  RoutingLoad load;
  if (p.experts && !s.costs && s.moe_routing.kind != MoeRouting::Kind::balanced)
    load = routing_load(s.moe_routing, s.model.moe.experts, p.ep, s.model.moe.top_k);
  std::map<std::array<double, 7>, int> known;
  std::vector<int> marks;
  if (s.faults.ranks.empty() && load.by_rank.empty()) return marks;
  for (int rank = 0; rank < p.world(); ++rank) {
    const RankFault f = s.faults.of(rank);
    const double tokens =
        load.by_rank.empty() ? 1 : load.by_rank[static_cast<size_t>(expert_rank(p, rank))];
    marks.push_back(
        known
            .try_emplace({f.slowdown, f.delay_per_forward.value, f.delay_per_backward.value,
                          f.delay_per_step.value, f.nvlink_factor, f.nic_factor, tokens},
                         static_cast<int>(known.size()))
            .first->second);
  }
  if (known.size() < 2) marks.clear();
  return marks;
}

/// What tells ranks apart on this cluster. Given costs come without hardware: only faults do.
Surroundings surroundings(const Scenario& scenario, const Fabric& fabric) {
  if (scenario.costs) return {.marks = rank_marks(scenario)};
  // Where two groups lie differently in a free-form graph cannot be told from their cost alone.
  if (!scenario.cluster.links.empty()) return {.in_order = true, .alike = false};
  return {.units = sharing_units(scenario.cluster),
          .key = [&](std::span<const int> ranks) { return placement_key(place(ranks, fabric)); },
          .same_pair = [&](int a, int b) { return fabric.route_class(a, b); },
          .marks = rank_marks(scenario),
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

/// A step and what became of it.
struct Run {
  LoweredStep step;
  std::variant<Timeline, Deadlock> outcome;
  double lower_seconds = 0;
};

/// When each device is free again: the end of its compute stream.
std::vector<double> device_ends(const LoweredStep& step, const Timeline& timeline) {
  std::vector<double> ends(step.devices.size(), 0);
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const StreamId stream = step.graph.streams[t];
    if (stream == no_stream || stream_of(stream) != Stream::compute) continue;
    double& last = ends[device_of(stream)];
    last = std::max(last, timeline.finish_seconds[t]);
  }
  return ends;
}

/// Where no barrier separates steps each device begins the next one when it has ended this one:
/// begins are moved until all devices take equally long, the period to which steps that run back to
/// back converge (in max-plus algebra the eigenvector and eigenvalue of a step).
Run run_step(const Scenario& s, const Mesh& mesh, const Folding& folding, const Fabric& fabric,
             const SimulateOptions& options, LoweredStep step) {
  std::variant<Timeline, Deadlock> outcome = run(step.graph, {.sharing = options.sharing});
  constexpr int most_rounds = 100;
  std::vector<double> begins(step.devices.size(), 0);
  for (int round = 0; round < most_rounds && !step.releases.empty(); ++round) {
    const Timeline* timeline = std::get_if<Timeline>(&outcome);
    if (timeline == nullptr) break;
    std::vector<double> ends = device_ends(step, *timeline);
    const double first = *std::min_element(ends.begin(), ends.end());
    double moved = 0;
    for (size_t d = 0; d < ends.size(); ++d) {
      ends[d] -= first;
      moved = std::max(moved, std::abs(ends[d] - begins[d]));
    }
    if (!(moved > 1e-12 * first)) break;
    begins = std::move(ends);
    step = lower(s, mesh, folding, fabric, begins);
    outcome = run(step.graph, {.sharing = options.sharing});
  }
  return {std::move(step), std::move(outcome), 0};
}

Run run_step(const Scenario& s, const Mesh& mesh, const Folding& folding, const Fabric& fabric,
             const SimulateOptions& options) {
  const Clock::time_point start = Clock::now();
  LoweredStep step = lower(s, mesh, folding, fabric);
  const double lower_seconds = since(start);
  Run run = run_step(s, mesh, folding, fabric, options, std::move(step));
  run.lower_seconds = lower_seconds;
  return run;
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
  const auto [lowered, outcome, seconds] = run_step(sound, mesh, folding, fabric, options);
  check_finite(sound, outcome);
  const Timeline& timeline = std::get<Timeline>(outcome);
  const StepEnd end = step_end(lowered, timeline);
  const std::vector<Ledger> by_device = ledgers(lowered, timeline, end);
  SoundStep result{.step_seconds = end.seconds, .ledgers = {}};
  for (const SimulatedDevice& d : step.devices)
    result.ledgers.push_back(by_device[static_cast<size_t>(folding.device(d.rank))]);
  return result;
}

/// The same step under each sample of how tokens spread over experts. What spreads alike takes
/// alike.
std::optional<StepDistribution> over_samples(const Scenario& s, const SimulateOptions& options) {
  if (s.costs || !s.parallel.experts || s.moe_routing.samples() < 2) return std::nullopt;
  const Moe& moe = s.model.moe;
  std::map<std::vector<double>, double> known;
  std::vector<double> steps;
  for (const RoutingLoad& load :
       routing_loads(s.moe_routing, moe.experts, s.parallel.ep, moe.top_k)) {
    const auto [found, added] = known.try_emplace(load.by_rank, 0);
    if (added) {
      Scenario one = s;
      one.moe_routing = {.kind = MoeRouting::Kind::rank_loads, .rank_loads = load.by_rank};
      found->second = std::get<Simulation>(simulate(one, options)).report.step_seconds;
    }
    steps.push_back(found->second);
  }
  return distribution_of(std::move(steps));
}

}  // namespace

std::variant<Simulation, Stall> simulate(const Scenario& scenario, const SimulateOptions& options) {
  const Clock::time_point start = Clock::now();
  const Mesh mesh(scenario.parallel);
  const Fabric fabric(scenario.cluster);
  const Folding folding =
      fold(mesh, scenario.parallel, surroundings(scenario, fabric), options.unfold);
  check_size(scenario, folding);
  const double fold_seconds = since(start);

  const Clock::time_point run_start = Clock::now();
  auto [step, outcome, lower_seconds] = run_step(scenario, mesh, folding, fabric, options);
  const double engine_seconds = since(run_start) - lower_seconds;
  check_finite(scenario, outcome);
  if (const Deadlock* deadlock = std::get_if<Deadlock>(&outcome))
    return describe_stall(step, *deadlock);

  Timeline& timeline = std::get<Timeline>(outcome);
  std::optional<SoundStep> sound;
  if (scenario.faults.any()) sound = sound_step(scenario, step, options);
  Report report = make_report(scenario, step, timeline, sound);
  report.routing_samples = over_samples(scenario, options);
  return Simulation{std::move(step), std::move(timeline), std::move(report),
                    fold_seconds + lower_seconds, engine_seconds};
}

std::optional<std::optional<double>> StepMemo::find(const Digest& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  if (found == known_.end()) return std::nullopt;
  return std::optional<std::optional<double>>(std::in_place, found->second);
}

void StepMemo::add(const Digest& key, std::optional<double> seconds) {
  const std::lock_guard lock(mutex_);
  known_.try_emplace(key, seconds);
}

size_t StepMemo::size() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

std::optional<double> step_seconds(const Scenario& scenario, StepMemo& memo) {
  const Mesh mesh(scenario.parallel);
  const Fabric fabric(scenario.cluster);
  const Folding folding = fold(mesh, scenario.parallel, surroundings(scenario, fabric), false);
  check_size(scenario, folding);
  LoweredStep lowered = lower(scenario, mesh, folding, fabric);
  Digest key = digest(lowered.graph);
  // Not in the graph, and decide where its step ends.
  key[0] += lowered.barrier ? 1 : 0;
  key[1] += lowered.releases.size();
  if (const auto known = memo.find(key)) return *known;
  const Run run = run_step(scenario, mesh, folding, fabric, {}, std::move(lowered));
  check_finite(scenario, run.outcome);
  std::optional<double> seconds;
  if (const Timeline* timeline = std::get_if<Timeline>(&run.outcome))
    seconds = step_end(run.step, *timeline).seconds;
  memo.add(key, seconds);
  return seconds;
}

}  // namespace stepsim
