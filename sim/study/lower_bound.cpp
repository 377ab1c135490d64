#include "sim/study/lower_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "sim/lower/memory.h"
#include "sim/network/collective.h"
#include "sim/network/fabric.h"
#include "sim/parallel/mesh.h"
#include "sim/parallel/schedule.h"
#include "sim/study/pass_times.h"
#include "sim/study/shard_times.h"

namespace stepsim {
namespace {

/// Passes of every stage in the order of their schedule, each as soon as its inputs are there.
class Flush {
 public:
  Flush(const Scenario& s, const std::vector<PassTimes>& times, const std::vector<double>& messages)
      : s_(s),
        times_(times),
        messages_(messages),
        shape_(schedule_shape(s, weight_memory(s))),
        pipeline_(s.parallel.pipeline()),
        programs_(schedule_row(s.schedule).programs(shape_)),
        slots_(static_cast<size_t>(s.batch.microbatches) *
               static_cast<size_t>(s.parallel.pp * s.parallel.chunks())),
        forward_(slots_, unknown),
        backward_(slots_, unknown) {}

  /// When each stage has run its last pass. `gathered`: by stage and chunk, when the first forward
  /// may start.
  std::vector<double> run(std::vector<double> free,
                          const std::vector<std::vector<double>>& gathered) {
    std::vector<size_t> next(programs_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < programs_.size(); ++stage)
        while (next[stage] < programs_[stage].size() &&
               advance(stage, next[stage], free[stage], gathered[stage]))
          moved = true;
    }
    return free;
  }

 private:
  static constexpr double unknown = -1;

  size_t slot(Place at, int microbatch) const {
    return (static_cast<size_t>(at.rank * s_.parallel.chunks() + at.chunk)) *
               static_cast<size_t>(s_.batch.microbatches) +
           static_cast<size_t>(microbatch);
  }
  /// When what `from` made is at `to`; nothing while it is not known.
  std::optional<double> arrival(const std::vector<double>& finish, std::optional<Place> from,
                                Place to, int microbatch) const {
    if (!from) return 0;
    const double end = finish[slot(*from, microbatch)];
    if (end == unknown) return std::nullopt;
    return from->rank == to.rank ? end : end + messages_[static_cast<size_t>(from->rank)];
  }
  bool merges(const Program& program, size_t i) const {
    if (i + 1 >= program.size()) return false;
    const Action &f = program[i], &b = program[i + 1];
    return (shape_.combined || f.overlapped) && f.kind == ActionKind::forward &&
           b.kind == ActionKind::backward && (f.microbatch != b.microbatch || f.chunk != b.chunk);
  }

  /// Runs the action at `i` if it can be; false when its inputs are not known yet.
  bool advance(size_t stage, size_t& i, double& free, const std::vector<double>& gathered) {
    const Program& program = programs_[stage];
    const Action& a = program[i];
    if (!computes(a.kind)) return ++i, true;
    const Place here{static_cast<int>(stage), a.chunk};
    const PassTimes& t = times_[stage];
    const bool forward = a.kind == ActionKind::forward;
    const auto ready = forward ? arrival(forward_, pipeline_.previous(here), here, a.microbatch)
                       : a.kind == ActionKind::backward_weight
                           ? std::optional<double>(0)
                           : arrival(backward_, pipeline_.next(here), here, a.microbatch);
    if (!ready) return false;
    double start = std::max(free, *ready);
    if (forward) start = std::max(start, gathered[a.chunk]);
    if (merges(program, i)) {
      // Both inputs are waited for before the first of the two layers' kernels.
      const Action& b = program[i + 1];
      const Place other{static_cast<int>(stage), b.chunk};
      const auto gradient = arrival(backward_, pipeline_.next(other), other, b.microbatch);
      if (!gradient) return false;
      free = std::max(start, *gradient) + t.merged(a.chunk, b.chunk);
      forward_[slot(here, a.microbatch)] = backward_[slot(other, b.microbatch)] = free;
      return i += 2, true;
    }
    free = start + t.of(a.kind, a.chunk);
    if (forward)
      forward_[slot(here, a.microbatch)] = free;
    else if (a.kind != ActionKind::backward_weight)
      backward_[slot(here, a.microbatch)] = free;
    return ++i, true;
  }

  const Scenario& s_;
  const std::vector<PassTimes>& times_;
  const std::vector<double>& messages_;  ///< by sending rank, the quicker way
  ScheduleShape shape_;
  PipelineShape pipeline_;
  std::vector<Program> programs_;
  size_t slots_;
  std::vector<double> forward_, backward_;  ///< finish of each, by place and microbatch
};

/// Activations of a microbatch between stages (sim/lower/step_groups.cpp).
std::vector<double> message_times(const Scenario& s, const Mesh& mesh, const Fabric& fabric) {
  const Parallelism& p = s.parallel;
  std::vector<double> times(static_cast<size_t>(p.pp), 0);
  if (p.pp < 2) return times;
  const double tp = p.sequence_parallel ? p.tp : 1;
  const Bytes message{2.0 * static_cast<double>(s.batch.sequence * s.batch.micro * s.model.hidden) /
                      (p.cp * tp)};
  const int stride = mesh.stage_stride();
  for (int stage = 0; stage < p.pp; ++stage) {
    double least = INFINITY;
    for (int offset : {1, p.pp - 1}) {
      const std::array<int, 2> pair{stage * stride, (stage + offset) % p.pp * stride};
      const CollectiveCost cost =
          collective_cost(Collective::send_recv, message, place(pair, fabric), s.cluster);
      least = std::min(least, cost.duration.value);
    }
    times[static_cast<size_t>(stage)] = least;
  }
  return times;
}

}  // namespace

Seconds lower_bound(const Scenario& s) {
  const Mesh mesh(s.parallel);
  const Fabric fabric(s.cluster);
  const std::vector<StageChunk> split =
      split_layers(s.parallel, s.model.layers, s.model.mtp_layers);
  const std::vector<PassTimes> times = pass_times(s, split, mesh, fabric);
  std::vector<ShardTimes> shards;
  std::vector<double> begin;
  std::vector<std::vector<double>> gathered;
  for (int stage = 0; stage < s.parallel.pp; ++stage) {
    shards.push_back(shard_times(s, split, stage, mesh, fabric));
    begin.push_back(shards.back().update);
    gathered.push_back(shards.back().gathered);
  }
  // Without a barrier steps overlap: what is left is that a device must do all of its work.
  if (s.post_validation) {
    for (std::vector<double>& g : gathered) std::fill(g.begin(), g.end(), 0);
    double most = 0;
    for (size_t stage = 0; stage < times.size(); ++stage)
      most = std::max(most, times[stage].total(static_cast<double>(s.batch.microbatches)));
    return {most};
  }
  const std::vector<double> messages = message_times(s, mesh, fabric);
  const std::vector<double> end = Flush(s, times, messages).run(begin, gathered);
  double most = 0;
  for (size_t stage = 0; stage < end.size(); ++stage) {
    const double issued =
        shards[stage].host + times[stage].host_total(static_cast<double>(s.batch.microbatches));
    most = std::max(most, std::max(end[stage], issued) + shards[stage].finish);
  }
  return {most};
}

}  // namespace stepsim
