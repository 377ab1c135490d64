// Plans: no simulation undercuts the lower bound, and what is pruned could not have won.
#include "sim/study/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/config/starting_point.h"
#include "sim/simulate.h"
#include "sim/study/lower_bound.h"
#include "sim/study/plan_report.h"

using namespace stepsim;

namespace {

using Words = std::vector<std::string>;

/// A thin model of four layers: a step takes milliseconds to simulate.
std::string small_base(const char* model, const char* cluster, int gpus, int batch) {
  nlohmann::json base =
      nlohmann::json::parse(base_of_model(model, cluster, gpus, 4096, batch, find_data()));
  base["model"]["num_layers"] = 4;
  return base.dump();
}

double step_of(const Scenario& s) {
  const auto outcome = simulate(s);
  REQUIRE(std::holds_alternative<Simulation>(outcome));
  return std::get<Simulation>(outcome).report.step_seconds;
}

/// Bound over step; never above 1.
double tightness(const std::string& base, const Words& words) {
  const Scenario s = read_scenario_text(base, "base", words, "", find_data());
  const double bound = lower_bound(s).value, step = step_of(s);
  std::string text;
  for (const std::string& w : words) text += w + " ";
  CHECK_MESSAGE(bound <= step, text, "bound ", bound, " step ", step);
  return bound / step;
}

PlanRequest small_request() {
  PlanRequest request;
  request.file = "base";
  request.data = find_data();
  request.base = small_base("llama3.2-1b", "dgx-h100", 4, 8);
  request.words = {"model.recompute_granularity=null"};
  request.axes = {parse_axis("train.micro_batch_size=1,2", "--vary"),
                  parse_axis("model.context_parallel_size=1,2", "--vary"),
                  parse_axis("ddp.use_distributed_optimizer=true", "--vary")};
  request.top = 3;
  return request;
}

}  // namespace

TEST_CASE("one device that shares nothing is within 2 % of its bound: gaps, the first launches") {
  const std::string base = small_base("llama3.2-1b", "dgx-h100", 1, 4);
  CHECK(tightness(base, {}) > 0.98);
  CHECK(tightness(base, {"model.recompute_granularity=full", "model.recompute_method=uniform",
                         "model.recompute_num_layers=1"}) > 0.98);
}

TEST_CASE("no simulation undercuts the bound: meshes, overlap, schedules") {
  const std::string base = small_base("llama3.2-1b", "dgx-h100", 8, 32);
  const std::string tp = "model.tensor_model_parallel_size=", cp = "model.context_parallel_size=",
                    pp = "model.pipeline_model_parallel_size=", sp = "model.sequence_parallel=true",
                    vp = "model.virtual_pipeline_model_parallel_size=";
  const std::vector<Words> cases{
      {tp + "2", sp},
      {tp + "2", sp, cp + "2", pp + "2"},
      {tp + "4", sp, "comm_overlap.tp_comm_overlap=false"},
      {pp + "4"},
      {pp + "2", vp + "2"},
      {pp + "2", vp + "2", "comm_overlap.overlap_param_gather_with_optimizer_step=true"},
      {pp + "2", "comm_overlap.overlap_grad_reduce=false",
       "comm_overlap.overlap_param_gather=false"},
      {"ddp.use_distributed_optimizer=false", "comm_overlap.overlap_param_gather=false", cp + "4"},
      {pp + "4", "pipeline.schedule=gpipe"},
      {pp + "4", "pipeline.schedule=zb_h1"},
      {pp + "2", "pipeline.schedule=zb_v"},
      {pp + "4", "pipeline.schedule=dualpipe"},
      {pp + "2", "pipeline.schedule=dualpipe_v"},
      {pp + "4", "pipeline.schedule=zb_1p", "pipeline.optimizer_post_validation=true"},
      {"model.cuda_graph_impl=local", "model.cuda_graph_scope=[full_iteration]", pp + "2"},
      {"train.micro_batch_size=2", "mixed_precision=bf16_with_fp8_current_scaling_mixed"},
  };
  for (const Words& words : cases) tightness(base, words);
  // Where kernels are long and little is shared it is near.
  CHECK(tightness(base, {pp + "4", "train.micro_batch_size=2"}) > 0.9);
}

TEST_CASE("no simulation undercuts the bound: experts") {
  const std::string base = small_base("moonlight-16b-a3b", "dgx-h100", 8, 16);
  const std::string ep = "model.expert_model_parallel_size=",
                    type = "model.moe_token_dispatcher_type=";
  const std::vector<Words> cases{
      {ep + "8"},
      {ep + "4", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"},
      {ep + "8", type + "flex", "model.moe_flex_dispatcher_backend=deepep"},
      {ep + "4", "model.pipeline_model_parallel_size=2",
       "model.virtual_pipeline_model_parallel_size=2", type + "alltoall",
       "comm_overlap.overlap_moe_expert_parallel_comm=true",
       "comm_overlap.delay_wgrad_compute=true"},
  };
  for (const Words& words : cases) CHECK(tightness(base, words) > 0.5);
}

TEST_CASE("layouts of two GPUs, by hand") {
  PlanRequest request = small_request();
  request.base = small_base("llama3.2-1b", "dgx-h100", 2, 2);
  request.words.push_back("comm_overlap.tp_comm_overlap=true");
  request.axes = {parse_axis("train.micro_batch_size=1", "--vary"),
                  parse_axis("ddp.use_distributed_optimizer=true", "--vary")};
  const LayoutPlan result = plan(request, 2, {.threads = 1});
  // DP2; CP2; TP2; PP2 with VP 1 and 2 of four layers (two microbatches).
  CHECK(result.layouts + result.refused == 5);
  CHECK(result.refused == 0);
}

TEST_CASE("brute force over the same space finds the same, with fewer simulations") {
  PlanRequest request = small_request();
  const LayoutPlan pruned = plan(request, 4, {.threads = 2});
  request.brute_force = true;
  const LayoutPlan all = plan(request, 4, {.threads = 1});
  CHECK(all.simulated == all.feasible());
  CHECK(all.layouts == pruned.layouts);
  CHECK(pruned.simulated < all.simulated);
  REQUIRE(pruned.ranked == 3);
  for (size_t i = 0; i < pruned.ranked; ++i) {
    CHECK(pruned.rows[i].figures.step_seconds == all.rows[i].figures.step_seconds);
    CHECK(pruned.rows[i].layout == all.rows[i].layout);
  }
  for (const PlanRow& row : all.rows) CHECK(row.bound_seconds <= row.figures.step_seconds);
  // Nothing simulated beats the frontier in both by more than its grain, a 20th of the memory.
  const double grain = *all.rows[0].figures.capacity_bytes / 20;
  for (const PlanRow& row : all.rows)
    CHECK(std::any_of(pruned.frontier.begin(), pruned.frontier.end(), [&](size_t i) {
      const Figures& f = pruned.rows[i].figures;
      return f.step_seconds <= row.figures.step_seconds &&
             *f.needed_bytes <= *row.figures.needed_bytes + 2 * grain;
    }));
}

TEST_CASE("the result does not depend on threads; its winner reads back") {
  PlanRequest request = small_request();
  request.against = request.base;
  const RunQuestion question{.tokens = 1e12,
                             .price_per_gpu_hour = 2,
                             .budget = {},
                             .most_days = {},
                             .failures = {},
                             .checkpoints = {},
                             .watts_per_gpu = {}};
  const LayoutPlan one = plan(request, 4, {.threads = 1}), three = plan(request, 4, {.threads = 3});
  CHECK(plans_json({one}, question) == plans_json({three}, question));
  CHECK(plan_text(one, question) == plan_text(three, question));
  REQUIRE(one.standing);
  CHECK(one.standing->faster <= one.standing->maybe_faster);
  const auto json = nlohmann::json::parse(plans_json({one}, question));
  for (const char* key : {"space", "simulated", "pruned", "infeasible", "rows", "frontier"})
    CHECK_MESSAGE(json.contains(key), key);
  const PlanRow& best = one.rows[0];
  CHECK(step_of(read_scenario_text(best.scenario, "saved", {}, "", request.data)) ==
        best.figures.step_seconds);
  Words words;
  std::istringstream lines(as_overrides(best.scenario));
  for (std::string line; std::getline(lines, line);) words.push_back(line);
  CHECK(step_of(read_scenario_text(request.base, "base", words, "", request.data)) ==
        best.figures.step_seconds);
}

TEST_CASE("a sample is a part of the space, the same each time; a sample of all is the space") {
  PlanRequest request = small_request();
  request.top = 1;
  request.frontier = false;
  const LayoutPlan all = plan(request, 4, {.threads = 2});
  const size_t combinations = all.layouts + all.refused + all.alike;
  request.sample = combinations;
  CHECK(plan(request, 4, {.threads = 2}).drawn_of == 0);
  request.sample = 8;
  request.against = all.rows[0].scenario;
  const LayoutPlan some = plan(request, 4, {.threads = 1}), again = plan(request, 4, {});
  CHECK(some.drawn_of == combinations);
  CHECK(some.layouts + some.refused + some.alike == 8);
  CHECK(some.rows[0].layout == again.rows[0].layout);
  // Nothing drawn beats the fastest of all.
  REQUIRE(some.standing);
  CHECK(some.standing->maybe_faster == 0);
  CHECK(some.rows[0].figures.step_seconds >= all.rows[0].figures.step_seconds);
}

TEST_CASE("what a scenario gets by leaving it out is no second layout") {
  PlanRequest request = small_request();
  request.top = 1;
  request.frontier = false;
  request.axes.push_back(parse_axis("model.tensor_model_parallel_size=1", "--vary"));
  const LayoutPlan once = plan(request, 4, {.threads = 2});
  // Off is what Megatron does unasked.
  request.axes.push_back(parse_axis("model.defer_embedding_wgrad_compute=null,false", "--vary"));
  const LayoutPlan twice = plan(request, 4, {.threads = 2});
  CHECK(twice.layouts == once.layouts);
  CHECK(twice.alike == once.layouts + once.alike);
}

TEST_CASE("the guides' tables: ranges by size, and CP with the largest or with long sequences") {
  const DataPaths data = find_data();
  const auto start = starting_point(read_model("llama3-8b", data), 8192);
  REQUIRE(start);
  CHECK(start->tp_low == 2);
  CHECK(start->tp_high == 4);
  CHECK(start->pp_high == 1);
  CHECK(start->cp == 1);
  CHECK(starting_point(read_model("llama3-8b", data), 16384)->cp == 2);
  CHECK(starting_point(read_model("llama3.1-405b", data), 4096)->cp == 2);
  const auto experts = starting_point(read_model("moonlight-16b-a3b", data), 4096);
  REQUIRE(experts);
  CHECK(experts->tp_low == 2);
  CHECK(experts->ep == 8);
}
