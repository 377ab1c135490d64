#include "sim/study/pass_times.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <tuple>

#include "sim/lower/layer.h"
#include "sim/lower/memory.h"

namespace stepsim {
namespace {

using Pass = PassTimes::Pass;

/// Templates of the ranks that lie alike, measured once each.
class Measure {
 public:
  Measure(const Scenario& s, const LayerGroups& groups, double slowdown)
      : s_(s),
        make_(s, groups, slowdown),
        launch_(s.full_iteration_graph ? -1 : s.cluster.stack.launch.value) {}

  Pass of(const Template& t) const { return {longest_path(t, launch_), host_seconds(t, launch_)}; }
  const LayerTemplates& make() const { return make_; }

  Pass forward(int layer) {
    const LayerKind kind = layer_kind(s_, layer);
    const auto [found, added] = forwards_.try_emplace(kind);
    if (added) found->second = of(make_.layer_forward(kind, false));
    return found->second;
  }
  enum class Half { both, input, weight };
  Pass backward(int layer, bool again, Half half) {
    const LayerKind kind = layer_kind(s_, layer);
    const auto [found, added] = backwards_.try_emplace({kind, again, half});
    if (added)
      found->second = of(half == Half::both    ? make_.layer_backward(kind, again)
                         : half == Half::input ? make_.layer_backward_input(kind, again)
                                               : make_.layer_backward_weight(kind, again));
    return found->second;
  }
  Pass pair(int forward, int backward) {
    const LayerKind f = layer_kind(s_, forward), b = layer_kind(s_, backward);
    const auto [found, added] = pairs_.try_emplace({f, b});
    if (added) found->second = of(make_.layer_pair(f, false, b));
    return found->second;
  }

 private:
  const Scenario& s_;
  LayerTemplates make_;
  double launch_;
  std::map<LayerKind, Pass> forwards_;
  std::map<std::tuple<LayerKind, bool, Half>, Pass> backwards_;
  std::map<std::pair<LayerKind, LayerKind>, Pass> pairs_;
};

/// Passes of whole chunks (sim/lower/chunk.cpp). What only some microbatches do is left out.
class Chunks {
 public:
  Chunks(const Scenario& s, Measure& measure) : s_(s), m_(measure) {
    const LayerTemplates& make = m_.make();
    embed_ = m_.of(make.embedding_forward());
    if (!s.adapters.present()) embed_back_ = m_.of(make.embedding_backward());
    head_ = m_.of(make.head_forward());
    for (bool deferred : {false, true}) head_back_[deferred] = m_.of(make.head_backward(deferred));
    if (!s.adapters.present()) head_weight_ = m_.of(make.head_weight_gradient());
    if (s.model.mtp_layers == 0) return;
    const std::vector<LayerKind> kinds = prediction_kinds(s);
    prediction_ = m_.of(make.prediction_forward(kinds, false));
    prediction_back_ =
        m_.of(make.prediction_backward(kinds, s.recompute == Recompute::full_uniform));
  }

  Pass forward(const StageChunk& c) {
    Pass sum = ends_forward(c);
    for (int i = 0; i < c.layer_count; ++i) sum += m_.forward(c.first_layer + i);
    return sum;
  }
  Pass backward(const StageChunk& c, bool input_only) {
    Pass sum = ends_backward(c, input_only);
    for (int i = 0; i < c.layer_count; ++i) sum += layer_back(c, i, input_only);
    return sum;
  }
  Pass backward_weight(const StageChunk& c) {
    Pass sum;
    if (c.head && !s_.overlap.defer_embedding_wgrad) sum += head_weight_;
    for (int i = 0; i < c.layer_count; ++i)
      sum += m_.backward(c.first_layer + i, recomputed(s_, i), Measure::Half::weight);
    return sum;
  }
  /// Layer by layer, the forward's from the front and the backward's from the back.
  Pass pair(const StageChunk& f, const StageChunk& b) {
    Pass sum = ends_forward(f);
    sum += ends_backward(b, false);
    const int pairs = std::min(f.layer_count, b.layer_count);
    for (int i = 0; i < pairs; ++i)
      sum += m_.pair(f.first_layer + i, b.first_layer + b.layer_count - i - 1);
    for (int i = pairs; i < f.layer_count; ++i) sum += m_.forward(f.first_layer + i);
    for (int i = 0; i < b.layer_count - pairs; ++i) sum += layer_back(b, i, false);
    return sum;
  }

 private:
  Pass layer_back(const StageChunk& c, int i, bool input_only) {
    return m_.backward(c.first_layer + i, recomputed(s_, i),
                       input_only ? Measure::Half::input : Measure::Half::both);
  }
  Pass ends_forward(const StageChunk& c) const {
    Pass sum;
    if (c.embedding) sum += embed_;
    for (int depth = 0; depth < c.mtp; ++depth) sum += prediction_;
    if (c.head) sum += head_;
    return sum;
  }
  Pass ends_backward(const StageChunk& c, bool input_only) const {
    Pass sum;
    if (c.head) sum += head_back_[input_only || s_.overlap.defer_embedding_wgrad];
    for (int depth = 0; depth < c.mtp; ++depth) sum += prediction_back_;
    if (c.embedding) sum += embed_back_;
    return sum;
  }

  const Scenario& s_;
  Measure& m_;
  Pass embed_, embed_back_, head_, head_weight_, prediction_, prediction_back_;
  std::array<Pass, 2> head_back_;
};

LayerGroups groups_of(const Scenario& s, const Mesh& mesh, const Fabric& fabric, int rank) {
  const auto at = [&](GroupKind kind) {
    if (mesh.group_size(kind) < 2 || (is_expert(kind) && !s.parallel.experts))
      return GroupPlacement{};
    const std::vector<int> ranks = mesh.group(kind, rank);
    return slowest_member(place(ranks, fabric), ranks, s.faults, s.cluster);
  };
  LayerGroups groups{at(GroupKind::tp),      at(GroupKind::cp),     at(GroupKind::ep),
                     at(GroupKind::etp),     at(GroupKind::etp_ep), at(GroupKind::cp_inner),
                     at(GroupKind::cp_outer)};
  if (s.parallel.experts) {
    const RoutingLoad load =
        routing_load(s.moe_routing, s.model.moe.experts, s.parallel.ep, s.model.moe.top_k);
    if (!load.by_rank.empty())
      groups.expert_load = load.by_rank[static_cast<size_t>(expert_rank(s.parallel, rank))];
  }
  return groups;
}

/// Stages whose groups lie alike have the same templates.
std::vector<double> key_of(const LayerGroups& g, double slowdown) {
  std::vector<double> key{slowdown, g.expert_load};
  for (const GroupPlacement* p :
       {&g.tp, &g.cp, &g.ep, &g.etp, &g.etp_ep, &g.cp_inner, &g.cp_outer}) {
    const std::vector<double> one = placement_key(*p);
    key.push_back(static_cast<double>(one.size()));
    key.insert(key.end(), one.begin(), one.end());
  }
  return key;
}

struct Measured {
  LayerGroups groups;
  Measure measure;
  Chunks chunks;
  Measured(const Scenario& s, const LayerGroups& g, double slowdown)
      : groups(g), measure(s, groups, slowdown), chunks(s, measure) {}
};

}  // namespace

double longest_path(const Template& t, double launch_seconds) {
  std::vector<double> finish(t.ops.size(), 0);
  std::array<double, stream_count> tail{};
  auto segment = t.segments.begin();
  double host = 0, last = 0;
  bool waited = false;
  for (size_t i = 0; i < t.ops.size(); ++i) {
    const TemplateOp& op = t.ops[i];
    // The host runs ahead until it must wait for the device.
    for (; launch_seconds >= 0 && segment != t.segments.end() &&
           segment->first_op <= static_cast<int32_t>(i);
         ++segment) {
      if (segment != t.segments.begin() && waited) host += (segment - 1)->host_seconds;
      if (segment->waits_for == TemplateOp::none) continue;
      host = std::max(host, finish[static_cast<size_t>(segment->waits_for)]) + launch_seconds;
      waited = true;
    }
    double start = tail[static_cast<size_t>(op.stream)];
    for (int32_t a : op.after)
      if (a >= 0) start = std::max(start, finish[static_cast<size_t>(a)]);
    if (waited && op.launch_edge) start = std::max(start, host + op.launch_lag_seconds);
    finish[i] = tail[static_cast<size_t>(op.stream)] = start + op.duration_seconds;
    if (op.stream == Stream::compute) last = finish[i];
  }
  return last;
}

double host_seconds(const Template& t, double launch_seconds) {
  if (launch_seconds < 0) return 0;
  double sum = 0;
  for (const LaunchSegment& segment : t.segments)
    sum += segment.host_seconds + (segment.waits_for == TemplateOp::none ? 0 : launch_seconds);
  return sum;
}

double PassTimes::of(ActionKind kind, size_t chunk) const {
  switch (kind) {
    case ActionKind::forward:
      return forward[chunk].device;
    case ActionKind::backward_input:
      return backward_input[chunk].device;
    case ActionKind::backward_weight:
      return backward_weight[chunk].device;
    default:
      return backward[chunk].device;
  }
}

double PassTimes::total(double microbatches) const {
  if (halves || !pairs.empty()) return 0;
  double sum = 0;
  for (size_t c = 0; c < forward.size(); ++c) sum += forward[c].device + backward[c].device;
  return sum * microbatches;
}

double PassTimes::host_total(double microbatches) const {
  if (halves || !pairs.empty()) return 0;
  double sum = 0;
  for (size_t c = 0; c < forward.size(); ++c) sum += forward[c].host + backward[c].host;
  return sum * microbatches;
}

std::vector<PassTimes> pass_times(const Scenario& s, const std::vector<StageChunk>& split,
                                  const Mesh& mesh, const Fabric& fabric) {
  const bool halves = schedule_name(s.schedule).splits || s.schedule == ScheduleKind::order;
  const bool merges = schedule_shape(s).combined || s.schedule == ScheduleKind::dualpipe ||
                      s.schedule == ScheduleKind::dualpipe_v;
  std::map<std::vector<double>, std::unique_ptr<Measured>> known;
  std::vector<PassTimes> result;
  for (int stage = 0; stage < s.parallel.pp; ++stage) {
    const int rank = stage * mesh.stage_stride();
    const LayerGroups groups = groups_of(s, mesh, fabric, rank);
    const double slowdown = s.faults.of(rank).slowdown;
    std::unique_ptr<Measured>& here = known[key_of(groups, slowdown)];
    if (!here) here = std::make_unique<Measured>(s, groups, slowdown);
    PassTimes times;
    times.halves = halves;
    const auto chunk = [&](int c) -> const StageChunk& {
      return split[static_cast<size_t>(c * s.parallel.pp + stage)];
    };
    for (int c = 0; c < s.parallel.chunks(); ++c) {
      times.forward.push_back(here->chunks.forward(chunk(c)));
      times.backward.push_back(here->chunks.backward(chunk(c), false));
      if (halves) {
        times.backward_input.push_back(here->chunks.backward(chunk(c), true));
        times.backward_weight.push_back(here->chunks.backward_weight(chunk(c)));
      }
      if (!merges) continue;
      times.pairs.emplace_back();
      for (int b = 0; b < s.parallel.chunks(); ++b)
        times.pairs.back().push_back(here->chunks.pair(chunk(c), chunk(b)));
    }
    result.push_back(std::move(times));
  }
  return result;
}

}  // namespace stepsim
