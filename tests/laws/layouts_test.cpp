// Laws of every step: each shipped model on each shipped system under a spread of layouts.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "sim/base/error.h"
#include "sim/config/model_gaps.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// Every value of every knob occurs with most values of the others; models and systems rotate
/// through the list.
std::vector<Layout> layouts() {
  return {
      {.dp = 2},
      {.tp = 2, .sp = true, .tp_overlap = true},
      {.tp = 4, .dp = 2, .sp = true, .grad_overlap = true, .gather_overlap = true},
      {.tp = 2, .cp = 2, .dp = 2, .recompute = "core_attn"},
      {.dp = 4, .pp = 2, .microbatches = 3, .layers = 2, .grad_overlap = true},
      {.tp = 8, .sp = true, .tp_overlap = true, .recompute = "uniform"},
      {.tp = 2, .pp = 2, .vp = 2, .microbatches = 4, .sp = true, .tp_overlap = true},
      {.cp = 4, .dp = 2, .sharded = false, .grad_overlap = true},
      {.tp = 2, .dp = 2, .pp = 2, .vp = 2, .microbatches = 4, .sharded = false},
      {.tp = 4, .dp = 1, .pp = 4, .microbatches = 4, .sp = true, .recompute = "block"},
      {.tp = 8,
       .dp = 2,
       .sp = true,
       .tp_overlap = true,
       .grad_overlap = true,
       .gather_overlap = true},
      {.dp = 8, .pp = 2, .vp = 3, .microbatches = 2, .grad_overlap = true, .gather_overlap = true},
      {.tp = 2, .cp = 2, .dp = 1, .pp = 2, .microbatches = 2, .sp = true},
      {.dp = 2, .micro = 2, .layers = 2, .precision = "bf16_with_fp8_delayed_scaling_mixed"},
      {.tp = 4,
       .cp = 2,
       .sp = true,
       .tp_overlap = true,
       .recompute = "mlp",
       .precision = "bf16_with_fp8_current_scaling_mixed"},
      {.tp = 2, .dp = 2, .pp = 2, .recompute = "mlp"},
      {.tp = 2,
       .dp = 2,
       .pp = 2,
       .vp = 2,
       .microbatches = 2,
       .sp = true,
       .grad_overlap = true,
       .gather_overlap = true,
       .precision = "bf16_with_fp8_current_scaling_mixed"},
      {.dp = 16, .precision = "fp16_mixed"},
      {.tp = 2,
       .cp = 4,
       .dp = 4,
       .sp = true,
       .tp_overlap = true,
       .grad_overlap = true,
       .gather_overlap = true},
      {.tp = 4,
       .dp = 4,
       .pp = 4,
       .vp = 2,
       .microbatches = 4,
       .sp = true,
       .tp_overlap = true,
       .grad_overlap = true,
       .gather_overlap = true,
       .recompute = "core_attn+mlp+layernorm"},
      {.tp = 1, .cp = 2, .dp = 8, .pp = 2, .microbatches = 3, .layers = 2, .recompute = "uniform"},
  };
}

/// Longest path at full speed, in topological order: the least that any engine can take.
std::vector<double> longest_path(const TaskGraph& g) {
  std::vector<double> start(g.task_count(), 0);
  std::vector<uint32_t> waiting(g.predecessor_counts.begin(), g.predecessor_counts.end()), ready;
  for (uint32_t t = 0; t < g.task_count(); ++t)
    if (waiting[t] == 0) ready.push_back(t);
  const auto arrive = [&](uint32_t to, double time) {
    start[to] = std::max(start[to], time);
    if (--waiting[to] == 0) ready.push_back(to);
  };
  for (size_t i = 0; i < ready.size(); ++i) {
    const uint32_t t = ready[i];
    for (uint32_t e = g.finish_offsets[t]; e < g.finish_offsets[t + 1]; ++e)
      arrive(g.finish_targets[e], start[t] + g.durations_seconds[t]);
    if (!g.start_offsets.empty())
      for (uint32_t e = g.start_offsets[t]; e < g.start_offsets[t + 1]; ++e)
        arrive(g.start_targets[e], start[t] + g.start_lags_seconds[e]);
  }
  CHECK(ready.size() == g.task_count());
  return start;
}

void check_communication(const Communication& c, double step) {
  CHECK(c.hidden_seconds >= 0);
  CHECK(c.not_hidden_seconds() >= -1e-12 * step);
  CHECK(c.total_seconds <= step * (1 + 1e-9));
  CHECK(std::abs(c.hidden_seconds + c.not_hidden_seconds() - c.total_seconds) <= 1e-12 * step);
  if (const auto e = c.efficiency()) {
    CHECK(*e >= 0);
    CHECK(*e <= 1 + 1e-12);
  }
}

/// What holds of every simulated step.
void check_step(const Simulation& s) {
  const Report& r = s.report;
  const double step = r.step_seconds;
  REQUIRE(std::isfinite(step));
  REQUIRE(step > 0);

  // step >= busiest stream of every device; the step's last task ends it.
  std::vector<double> busy(s.lowered.devices.size() * stream_count, 0);
  for (uint32_t t = 0; t < s.lowered.graph.task_count(); ++t) {
    const StreamId stream = s.lowered.graph.streams[t];
    if (stream != no_stream) busy[index(stream)] += s.lowered.graph.durations_seconds[t];
  }
  CHECK(*std::max_element(busy.begin(), busy.end()) <= step * (1 + 1e-9));
  CHECK(s.timeline.makespan_seconds == step);

  // The critical path adds up to the step.
  double path = 0;
  for (const PathPart& part : r.critical_path) path += part.seconds;
  CHECK(relative(path, step) < 1e-9);

  // The ledger adds up to the step, on every device and over all of them; no cause is negative.
  int64_t ranks = 0;
  double bubble = 0;
  for (size_t d = 0; d < r.devices.size(); ++d) {
    const DeviceReport& device = r.devices[d];
    CHECK(relative(device.ledger.sum(), step) < 1e-9);
    for (double seconds : device.ledger.seconds) CHECK(seconds >= -1e-9 * step);
    // Compute and optimizer are what the device's compute stream did.
    const double compute = busy[index(stream_id(static_cast<uint32_t>(d), Stream::compute))];
    CHECK(std::abs(device.ledger[Cause::compute] + device.ledger[Cause::optimizer] - compute) <
          1e-9 * step);
    ranks += device.represents;
    bubble += static_cast<double>(device.represents) * device.ledger[Cause::bubble];
  }
  CHECK(ranks == r.gpus);
  CHECK(relative(r.ledger.sum(), step) < 1e-9);
  CHECK(std::abs(r.bubble_fraction - bubble / static_cast<double>(ranks) / step) < 1e-9);

  if (r.communication.overall) check_communication(*r.communication.overall, step);
  for (const auto& c : r.communication.by_class)
    if (c) check_communication(*c, step);
  if (r.mfu) {
    CHECK(*r.mfu > 0);
    CHECK(*r.mfu < 1);
    CHECK(*r.hfu >= *r.mfu);
    CHECK(*r.hfu < 1);
  }
}

/// A faster part of the machine.
struct Faster {
  const char* what;
  void (*apply)(Cluster&);
};
constexpr Faster faster[] = {
    {"NICs",
     [](Cluster& c) {
       c.nic_bandwidth *= 2;
       for (TopologyLink& l : c.links) l.bandwidth *= 2;
     }},
    {"NVLink", [](Cluster& c) { c.device.nvlink_bandwidth *= 2; }},
    {"GEMMs",
     [](Cluster& c) {
       for (GemmCurve& g : c.device.gemm) g.peak *= 2;
     }},
    {"attention",
     [](Cluster& c) {
       c.device.attention.bf16.forward *= 2;
       c.device.attention.bf16.backward *= 2;
     }},
    {"memory", [](Cluster& c) { c.device.memory_bandwidth *= 2; }},
    {"network latency",
     [](Cluster& c) {
       c.nic_latency *= 0.5;
       for (Tier& t : c.tiers) t.latency *= 0.5;
     }},
    {"launches", [](Cluster& c) { c.stack.launch *= 0.5; }},
};

struct Tally {
  int ran = 0, refused = 0, slower = 0, improved = 0;
};

void check_layout(const nlohmann::json& json, Tally& tally) {
  Scenario scenario;
  try {
    scenario = read(json);
    const Simulation shared = step_of(scenario);
    check_step(shared);
    const std::vector<double> least = longest_path(shared.lowered.graph);
    for (uint32_t t = 0; t < shared.lowered.graph.task_count(); ++t)
      if (shared.timeline.start_seconds[t] < least[t] * (1 - 1e-9))
        FAIL_CHECK("a task starts before its longest path");
  } catch (const Error&) {
    ++tally.refused;  // does not divide, or the GPU lacks the type
    return;
  }
  ++tally.ran;
  const Simulation alone = step_of(scenario, apart);
  check_step(alone);
  // With sharing off the timeline is the longest path, to the bit.
  CHECK(longest_path(alone.lowered.graph) == alone.timeline.start_seconds);
  CHECK(alone.report.step_seconds <= seconds_of(scenario) * (1 + 1e-9));
  for (const Faster& f : faster) {
    CAPTURE(f.what);
    Scenario quicker = scenario;
    f.apply(quicker.cluster);
    const double step = seconds_of(quicker, apart);
    CHECK(step <= alone.report.step_seconds * (1 + 1e-12));
    tally.slower += step > alone.report.step_seconds * (1 + 1e-12);
    tally.improved += step < alone.report.step_seconds * (1 - 1e-9);
  }
}

}  // namespace

TEST_CASE("laws of a step hold for every model x system x a spread of layouts") {
  const std::vector<CatalogueRow> models = list_models(data()), systems = list_clusters(data());
  const std::vector<Layout> all = layouts();
  CHECK(models.size() >= 40);
  CHECK(systems.size() >= 12);
  const size_t each = static_cast<size_t>(pick(2, 1));
  Tally total;
  size_t next = 0;  // layouts take turns
  std::vector<int> ran_by_layout(all.size(), 0);
  for (size_t m = 0; m < models.size(); ++m)
    for (size_t s = 0; s < systems.size(); ++s) {
      if (!simulates(read_model(models[m].name, data()))) continue;
      if (quick() && (m + s) % 7 != 0) continue;
      Tally pair;
      for (size_t i = 0; i < each; ++i) {
        const size_t which = next++ % all.size();
        const Layout& l = all[which];
        CAPTURE(models[m].name);
        CAPTURE(systems[s].name);
        CAPTURE(l);
        const int before = pair.ran;
        check_layout(scenario_json(models[m].name, systems[s].name, l), pair);
        ran_by_layout[which] += pair.ran - before;
      }
      total.ran += pair.ran, total.refused += pair.refused, total.slower += pair.slower;
      total.improved += pair.improved;
    }
  MESSAGE(total.ran << " steps, " << total.refused << " layouts refused, " << total.improved
                    << " faster variants");
  CHECK(total.ran > total.refused);
  CHECK(total.improved > 2 * total.ran);
  CHECK(*std::min_element(ran_by_layout.begin(), ran_by_layout.end()) > 0);
}

// What a scenario is refused by must be an upper bound, and no wild one.
TEST_CASE("law: the estimate of tasks bounds what lowering makes, folded and unfolded") {
  int far = 0, compared = 0, apart = 0;
  const auto compare = [&](const Scenario& s) {
    for (bool unfold : {false, true}) {
      CAPTURE(unfold);
      const Report r = step_of(s, {.unfold = unfold, .sharing = true}).report;
      const double estimate = estimated_tasks(s, static_cast<int64_t>(r.devices.size()));
      CHECK(r.tasks <= estimate);
      far += estimate > 4.0 * r.tasks;
      apart += !unfold && static_cast<int>(r.devices.size()) > s.parallel.pp;
      ++compared;
    }
  };
  for (Layout l : layouts()) {
    if (l.world() > 64) continue;
    for (int microbatches : {l.microbatches, 8 * l.microbatches}) {
      l.microbatches = microbatches;
      CAPTURE(l);
      compare(read(scenario_json("llama3.2-1b", "dgx-h100", l)));
    }
  }
  // What makes more tasks than most: a bucket a tensor, biases, key-value heads that TP gathers,
  // norms of q and k, dropout, attention computed again around the ring and MLPs, a loss that is
  // not fused.
  const Layout alone{.layers = 16, .grad_overlap = true, .gather_overlap = true};
  for (Layout l :
       {alone, Layout{.tp = 2, .dp = 2, .layers = 8, .grad_overlap = true},
        Layout{.cp = 8, .dp = 2, .recompute = "core_attn"},
        Layout{.tp = 4,
        .cp = 2,
        .dp = 1,
        .pp = 2,
        .microbatches = 16,
        .sp = true,
        .recompute = "core_attn+mlp"},
        Layout{.tp = 8, .microbatches = 64, .sp = true, .tp_overlap = true, .recompute = "mlp"},
        Layout{.microbatches = 64, .layers = 16, .recompute = "mlp"},
        Layout{.tp = 4, .dp = 1, .microbatches = 64}, Layout{.tp = 4, .pp = 2, .microbatches = 64},
        Layout{.tp = 4, .pp = 4, .vp = 2, .microbatches = 32, .sp = true, .tp_overlap = true}})
    for (bool extras : {false, true}) {
      CAPTURE(l);
      CAPTURE(extras);
      nlohmann::json json = scenario_json("llama3.2-1b", "dgx-h100", l);
      json["ddp"]["bucket_size"] = 1;
      json["comm_overlap"]["bucket_size"] = 1;
      json["model"]["cross_entropy_loss_fusion"] = false;
      if (extras) {
        json["model"]["add_bias_linear"] = json["model"]["qk_layernorm"] = true;
        json["model"]["hidden_dropout"] = 0.1;
        json["model"]["num_query_groups"] = 2;
        json["model"]["normalization"] = "LayerNorm";
      }
      compare(read(json));
    }
  // Domains that cut groups unevenly: more devices than stages, folded too.
  for (Layout l : {Layout{.tp = 3, .dp = 4, .sp = true, .tp_overlap = true, .sequence = 4608},
                   Layout{.tp = 3, .cp = 2, .dp = 2, .pp = 2, .sequence = 4608},
                   Layout{.tp = 6, .dp = 3, .pp = 2, .vp = 2, .sequence = 4608}})
    for (int microbatches : {2, 24}) {
      l.microbatches = microbatches;
      CAPTURE(l);
      compare(read(scenario_json("pythia-160m", "dgx-h100", l)));
    }
  CHECK(compared > 60);
  CHECK(apart > 4);
  CHECK(far < compared / 3);
}

// Reading knows the stages only; how many ranks lie differently shows when they are folded.
TEST_CASE("too many ranks that lie differently are refused before anything is built") {
  Scenario s =
      read(scenario_json("pythia-160m", "dgx-h100", {.tp = 3, .dp = 16, .sequence = 4608}));
  s.batch.microbatches = 400'000;
  CHECK(estimated_tasks(s, s.parallel.pp) < static_cast<double>(most_tasks));
  CHECK_THROWS_AS(simulate(s), Error);
}

TEST_CASE("laws of a step hold for every shipped scenario") {
  for (const CatalogueRow& row : list_scenarios(data())) {
    Scenario s = read_scenario("scenarios/" + row.name + ".json", {}, "", data());
    if (!s.costs) {
      // As many microbatches as the schedule needs, not as many as the run had.
      const int64_t few = std::max<int64_t>(s.parallel.pp, s.parallel.microbatch_group) +
                          (quick() ? 0 : 2 * s.parallel.pp);
      s.batch.microbatches = std::min(s.batch.microbatches, few);
      s.batch.global = s.batch.microbatches * s.batch.micro * s.parallel.dp;
    }
    CAPTURE(row.name);
    check_step(step_of(s));
  }
}

// The group's ranks share one NVLink domain: nothing crosses the network.
TEST_CASE("law: tensor parallelism inside a domain does not change when the fabric does") {
  int ran = 0;
  for (const char* model : {"llama3-8b", "gpt3-5b", "llama3-70b"})
    for (const CatalogueRow& row : list_clusters(data()))
      for (int tp : {1, 2, 4, 8})
        for (bool overlap : {false, true}) {
          const Layout l{.tp = tp, .layers = 2, .sp = tp > 1, .tp_overlap = overlap};
          CAPTURE(model);
          CAPTURE(row.name);
          CAPTURE(l);
          Scenario s = read(scenario_json(model, row.name, l));
          if (s.cluster.nvlink_domain < tp || !s.cluster.links.empty()) continue;
          const double step = seconds_of(s);
          s.cluster.nic_bandwidth *= 0.125;
          s.cluster.nic_latency *= 20;
          for (Tier& t : s.cluster.tiers) t.latency *= 10, t.oversubscription *= 4;
          CHECK(seconds_of(s) == step);
          ++ran;
        }
  CHECK(ran >= 3 * 8 * 6);
  // Tightness: across nodes it does.
  Scenario far = read(scenario_json("llama3-8b", "dgx-h100", {.tp = 1, .dp = 16}));
  const double step = seconds_of(far);
  far.cluster.nic_bandwidth *= 0.125;
  CHECK(seconds_of(far) > step * 1.01);
}
