// Laws of experts: folding, sums, faster hardware, sizes of one, and what overlap may not change.
#include <doctest/doctest.h>

#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// How tokens reach experts.
struct Experts {
  int ep = 1, etp = 1;
  const char* dispatcher = "alltoall";  ///< or allgather, deepep, hybridep
  bool overlap = false, delay = false, shared_overlap = false;
};

std::ostream& operator<<(std::ostream& out, const Experts& e) {
  return out << "EP" << e.ep << " ETP" << e.etp << ' ' << e.dispatcher
             << (e.overlap ? " overlap" : "") << (e.delay ? " delay" : "")
             << (e.shared_overlap ? " shared-overlap" : "");
}

nlohmann::json experts_json(const std::string& model, const std::string& system, const Layout& l,
                            const Experts& e) {
  nlohmann::json s = scenario_json(model, system, l);
  const std::string name = e.dispatcher;
  const bool flex = name == "deepep" || name == "hybridep";
  s["model"]["expert_model_parallel_size"] = e.ep;
  s["model"]["expert_tensor_parallel_size"] = e.etp;
  s["model"]["moe_token_dispatcher_type"] = flex ? "flex" : name;
  if (flex) s["model"]["moe_flex_dispatcher_backend"] = name;
  s["model"]["moe_shared_expert_overlap"] = e.shared_overlap;
  s["model"]["mtp_num_layers"] = nullptr;
  s["model"]["moe_layer_freq"] = 1;
  if (e.overlap) s["comm_overlap"]["overlap_moe_expert_parallel_comm"] = true;
  if (e.delay) s["comm_overlap"]["delay_wgrad_compute"] = true;
  return s;
}

void check_ledger_adds_up(const Simulation& s) {
  const double step = s.report.step_seconds;
  CHECK(relative(s.report.ledger.sum(), step) < 1e-9);
  double path = 0;
  for (const PathPart& part : s.report.critical_path) path += part.seconds;
  CHECK(relative(path, step) < 1e-9);
}

const std::vector<std::pair<Layout, Experts>>& expert_layouts() {
  static const std::vector<std::pair<Layout, Experts>> list{
      {{.dp = 8}, {.ep = 8}},
      {{.dp = 8}, {.ep = 4, .dispatcher = "allgather"}},
      {{.dp = 16}, {.ep = 16, .dispatcher = "deepep"}},
      {{.dp = 16}, {.ep = 8, .dispatcher = "hybridep"}},
      {{.tp = 2, .dp = 4, .sp = true}, {.ep = 4}},
      {{.tp = 2, .dp = 4, .sp = true}, {.ep = 2, .etp = 2}},
      {{.tp = 2, .cp = 2, .dp = 2, .sp = true}, {.ep = 8}},
      {{.dp = 4, .pp = 2, .vp = 2, .microbatches = 4}, {.ep = 4, .overlap = true}},
      {{.dp = 4, .pp = 2, .vp = 2, .microbatches = 4},
       {.ep = 4, .dispatcher = "deepep", .overlap = true, .delay = true}},
      {{.dp = 8, .microbatches = 3}, {.ep = 8, .overlap = true, .delay = true}},
      {{.dp = 4, .pp = 2, .microbatches = 3}, {.ep = 4}},
      {{.dp = 8, .layers = 2, .grad_overlap = true, .gather_overlap = true}, {.ep = 4}},
  };
  return list;
}

}  // namespace

TEST_CASE("law: folded equals unfolded with experts, and the ledger adds up") {
  for (const char* model : {"qwen3-30b-a3b", "deepseek-v3"})
    for (const auto& row : expert_layouts()) {
      const Layout& layout = row.first;
      const Experts& experts = row.second;
      if (quick() && experts.ep == 16) continue;
      CAPTURE(model);
      CAPTURE(layout);
      CAPTURE(experts);
      const Scenario s = read(experts_json(model, "dgx-h100", layout, experts));
      const Simulation folded = step_of(s), whole = step_of(s, {.unfold = true});
      CHECK(relative(folded.report.step_seconds, whole.report.step_seconds) <= 1e-12);
      for (size_t c = 0; c < cause_count; ++c)
        CHECK(std::abs(folded.report.ledger.seconds[c] - whole.report.ledger.seconds[c]) <=
              1e-9 * whole.report.step_seconds);
      check_ledger_adds_up(folded);
      if (experts.ep * experts.etp > 1)
        CHECK(folded.report.communication.by_class[static_cast<size_t>(CommClass::ep)].has_value());
    }
}

TEST_CASE("law: a faster anything never slows a step with experts, nothing shared") {
  using Change = void (*)(Cluster&);
  const std::vector<Change> changes{[](Cluster& c) { c.nic_bandwidth *= 2; },
                                    [](Cluster& c) { c.device.nvlink_bandwidth *= 2; },
                                    [](Cluster& c) {
                                      for (GemmCurve& g : c.device.gemm) g.peak *= 2;
                                    },
                                    [](Cluster& c) { c.device.memory_bandwidth *= 2; },
                                    [](Cluster& c) { c.stack.launch *= 0.5; }};
  for (const auto& row : expert_layouts()) {
    const Layout& layout = row.first;
    const Experts& experts = row.second;
    CAPTURE(layout);
    CAPTURE(experts);
    const Scenario s = read(experts_json("qwen3-30b-a3b", "dgx-h100", layout, experts));
    const double before = seconds_of(s, apart);
    for (const Change change : changes) {
      Scenario faster = s;
      change(faster.cluster);
      CHECK(seconds_of(faster, apart) <= before * (1 + 1e-12));
    }
  }
}

TEST_CASE("law: one rank of experts moves nothing, whatever the dispatcher") {
  const Layout layout{.dp = 2};
  for (const char* dispatcher : {"alltoall", "allgather"}) {
    const Simulation s = step_of(
        read(experts_json("qwen3-30b-a3b", "dgx-h100", layout, {.dispatcher = dispatcher})));
    CHECK_FALSE(s.report.communication.by_class[static_cast<size_t>(CommClass::ep)].has_value());
    CHECK(s.report.ledger[Cause::exposed_ep] == 0);
  }
}

// The work is the same whatever hides behind it: compute, and the bytes that move.
TEST_CASE("law: overlapping dispatch and combine changes neither kernels nor transfers") {
  const Layout layout{.dp = 8, .microbatches = 4, .layers = 3};
  const auto run = [&](bool overlap, bool delay) {
    Scenario merged = read(experts_json("qwen3-30b-a3b", "dgx-h100", layout,
                                        {.ep = 8, .overlap = overlap, .delay = delay}));
    // One host launches for both microbatches: where it is the limit nothing is won.
    merged.cluster.stack.dispatch = {};
    return step_of(merged, apart);
  };
  const Simulation plain = run(false, false), over = run(true, false), delayed = run(true, true);
  for (const Simulation* s : {&over, &delayed}) {
    CHECK(relative(s->report.ledger[Cause::compute], plain.report.ledger[Cause::compute]) < 1e-9);
    CHECK(s->report.step_seconds < plain.report.step_seconds);
    std::array<int, 2> transfers{};
    const Simulation* both[] = {s, &plain};
    for (size_t i = 0; i < 2; ++i)
      for (const uint64_t label : both[i]->lowered.graph.labels)
        transfers[i] += row(Label::unpack(label).op).comm == CommClass::ep;
    CHECK(transfers[0] == transfers[1]);
  }
}

// Megatron-Core combined_1f1b.py: one more microbatch is alive.
TEST_CASE("overlapping dispatch and combine keeps one more microbatch alive") {
  const Layout layout{.dp = 8, .microbatches = 4, .layers = 3};
  const auto activations = [&](bool overlap) {
    const Simulation s = step_of(
        read(experts_json("qwen3-30b-a3b", "dgx-h100", layout, {.ep = 8, .overlap = overlap})));
    return s.report.memory->sizes.activations;
  };
  CHECK(activations(true) / activations(false) > 1.5);
  CHECK(activations(true) / activations(false) < 2.5);
}

// One microbatch has nobody to be merged with.
TEST_CASE("law: EP overlap of a single microbatch is the step without it") {
  const Layout layout{.dp = 8, .microbatches = 1, .layers = 2};
  const auto seconds = [&](bool overlap) {
    return seconds_of(
        read(experts_json("qwen3-30b-a3b", "dgx-h100", layout, {.ep = 8, .overlap = overlap})));
  };
  CHECK(seconds(true) == seconds(false));
}

// EP4 x ETP3 over 24 GPUs: some groups lie in one node, others in two.
TEST_CASE("law: folded equals unfolded where only the groups of EP x ETP differ") {
  nlohmann::json s = experts_json("qwen3-30b-a3b", "dgx-h100", {.dp = 24}, {.ep = 4, .etp = 3});
  s["model"]["num_moe_experts"] = 32;
  const Scenario scenario = read(s);
  CHECK(relative(seconds_of(scenario), seconds_of(scenario, {.unfold = true})) <= 1e-12);
}

// A padded expert works on its capacity, whatever the routing.
TEST_CASE("law: padding to capacity hides skew") {
  nlohmann::json s = experts_json("qwen3-30b-a3b", "dgx-h100", {.dp = 8}, {.ep = 8});
  s["model"]["moe_expert_capacity_factor"] = 1.0;
  s["model"]["moe_pad_expert_input_to_capacity"] = true;
  const double even = seconds_of(read(s));
  s["costs"]["moe_routing"] = {{"hot_ranks", {{"count", 1}, {"share", 0.5}}}};
  CHECK(relative(seconds_of(read(s)), even) <= 1e-9);
}

// Megatron-Core's combined schedule merges a forward with a whole backward
// (pipeline_parallel/combined_1f1b.py); zero-bubble schedules run its halves apart.
TEST_CASE("law: EP overlap beside a zero-bubble schedule is the step without it, and said") {
  const Layout layout{.dp = 4, .pp = 2, .microbatches = 4, .layers = 2};
  for (const char* schedule : {"zb_h1", "zb_h2", "zb_1p", "zb_2p", "zb_v"}) {
    const auto with = [&](bool overlap, bool delay) {
      nlohmann::json json = experts_json("qwen3-30b-a3b", "dgx-h100", layout,
                                         {.ep = 4, .overlap = overlap, .delay = delay});
      json["pipeline"]["schedule"] = schedule;
      return read(json);
    };
    CAPTURE(schedule);
    const Scenario s = with(true, true);
    CHECK(step_of(s).timeline.finish_seconds ==
          step_of(with(false, false)).timeline.finish_seconds);
    for (const char* key : {"overlap_moe_expert_parallel_comm", "delay_wgrad_compute"}) {
      CHECK(s.effective.at(std::string("model.") + key) == "false");
      const auto said = std::find_if(s.findings.begin(), s.findings.end(), [&](const Finding& f) {
        return f.key == std::string("comm_overlap.") + key;
      });
      REQUIRE(said != s.findings.end());
      CHECK(said->kind == Finding::Kind::silent);
      CHECK(said->effective == "false");
    }
  }
}

// Megatron-Core model_chunk_schedule_plan.py: the stream of the all-to-alls may outrank the compute
// stream. Then their kernels do not stand behind one that becomes ready at the same instant.
TEST_CASE(
    "law: high_priority_a2a_comm_stream decides who gets SMs first, and only with EP overlap") {
  const Layout layout{.dp = 8, .microbatches = 4, .layers = 2};
  const auto run = [&](bool overlap, bool priority) {
    nlohmann::json json =
        experts_json("qwen3-30b-a3b", "dgx-h100", layout, {.ep = 8, .overlap = overlap});
    json["env_vars"]["CUDA_DEVICE_MAX_CONNECTIONS"] = 32;
    if (priority) json["model"]["high_priority_a2a_comm_stream"] = true;
    const Scenario s = read(json);
    const bool dropped = std::any_of(s.findings.begin(), s.findings.end(), [](const Finding& f) {
      return f.id == "a2a-priority-needs-ep-overlap";
    });
    CHECK(dropped == (priority && !overlap));
    return step_of(s);
  };
  const auto standing_behind = [](const Simulation& s) {
    const TaskGraph& graph = s.lowered.graph;
    std::pair<int, int> count;  // of all-to-alls, and of them those that yield
    for (const FlowRow& flow : graph.flows) {
      if (row(Label::unpack(graph.labels[index(flow.task)]).op).comm != CommClass::ep) continue;
      for (const ProcessorClaim& claim : graph.processor_claims_of(flow)) {
        ++count.first;
        count.second += claim.yields;
      }
    }
    return count;
  };
  const Simulation plain = run(true, false), first = run(true, true);
  const auto [all, yielding] = standing_behind(plain);
  CHECK(all > 0);
  CHECK(yielding == all);
  CHECK(standing_behind(first).second == 0);
  CHECK(run(false, true).timeline.finish_seconds == run(false, false).timeline.finish_seconds);
}
