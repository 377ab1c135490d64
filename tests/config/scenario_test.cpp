// The scenario format: merging, overrides, sizes, given costs.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/config/small.h"

using namespace stepsim;

namespace {

Scenario read(const std::string& text, std::vector<std::string> words = {},
              const std::string& cluster = "") {
  return read_scenario_text(text, "x.json", words, cluster, find_data());
}

}  // namespace

TEST_CASE("defaults") {
  const Scenario s = small({});
  CHECK(s.parallel.world() == 32);
  CHECK(s.parallel.dp == 32);
  CHECK(s.batch.micro == 1);
  CHECK(s.batch.microbatches == 4);
  CHECK(s.schedule == ScheduleKind::one_f_one_b);
  CHECK(s.precision.parameters == Dtype::bf16);
  CHECK(s.precision.grad_reduce_in_fp32);
  CHECK_FALSE(s.data_parallel.distributed_optimizer);
  CHECK(s.gradient_accumulation_fusion);
  CHECK(s.recompute == Recompute::modules);
  CHECK_FALSE(s.recompute_modules.core_attn);
  CHECK(s.findings.empty());
  CHECK(s.not_modelled.empty());
  CHECK(s.name == "small");
}

// DP = W / (TP PP CP); M = GBS / (MBS DP).
TEST_CASE("sizes") {
  struct Row {
    std::vector<std::string> words;
    int dp;
    int64_t microbatches;
    ScheduleKind schedule;
  };
  using enum ScheduleKind;
  for (const Row& row :
       {Row{{"tp=4", "pp=2"}, 4, 32, one_f_one_b},
        {{"tp=4", "pp=2", "cp=2"}, 2, 64, one_f_one_b},
        {{"pp=4", "vp=4"}, 8, 16, interleaved},
        {{"pp=4", "vp=1"}, 8, 16, interleaved},
        {{"pp=4", "pipeline.schedule=gpipe"}, 8, 16, gpipe},
        {{"pp=4", "pipeline.schedule=1f1b", "train.micro_batch_size=4"}, 8, 4, one_f_one_b},
        {{"cluster.gpus=30", "model.tensor_model_parallel_size=1", "gbs=60"},
         30,
         2,
         one_f_one_b}}) {
    const Scenario s = small(row.words);
    CHECK(s.parallel.dp == row.dp);
    CHECK(s.batch.microbatches == row.microbatches);
    CHECK(s.schedule == row.schedule);
  }
}

TEST_CASE("layer splits that Megatron accepts") {
  // 32 layers; the flags count the embedding and the loss as a layer each.
  CHECK(refusal({"pp=4", "vp=8"}).empty());
  CHECK(refusal({"pp=4", "vp=8", "model.num_layers=30",
                 "model.account_for_embedding_in_pipeline_split=true",
                 "model.account_for_loss_in_pipeline_split=true"})
            .empty());
  CHECK(refusal({"pp=4", "model.num_layers=30"}).find("30 layers do not split evenly") !=
        std::string::npos);
  CHECK(refusal({"pp=4", "model.num_layers_in_first_pipeline_stage=5",
                 "model.num_layers_in_last_pipeline_stage=7"})
            .empty());                                                             // 5 10 10 7
  CHECK(refusal({"pp=4", "model.num_layers_in_first_pipeline_stage=5"}).empty());  // 5 9 9 9
  CHECK(refusal({"pp=4", "model.num_layers_in_first_pipeline_stage=6"})
            .find("26 remaining layers do not split evenly") != std::string::npos);
  CHECK(refusal({"pp=4", "vp=2", "model.num_layers_in_first_pipeline_stage=5"})
            .find("must be a multiple of VP 2") != std::string::npos);
}

// PP <= N <= M, and M % N is 0 or at least PP (schedules.py).
TEST_CASE("microbatch groups of the interleaved schedule") {
  const std::string n = "model.microbatch_group_size_per_vp_stage=";
  CHECK(refusal({"pp=4", "vp=2", "gbs=128"}).empty());                                  // M 16, N 4
  CHECK(refusal({"pp=4", "vp=2", "gbs=144"}).find("it holds 2") != std::string::npos);  // M 18, N 4
  CHECK(refusal({"pp=4", "vp=2", "gbs=144", n + "7"}).empty());  // M 18 = 7 + 7 + 4
  CHECK(refusal({"pp=4", "vp=2", "gbs=136", n + "7"}).find("it holds 3") !=
        std::string::npos);  // M 17 = 7 + 7 + 3
  CHECK(refusal({"pp=4", "vp=2", n + "17"}).find("microbatches 16") != std::string::npos);
  CHECK(refusal({"pp=4", "vp=2", "gbs=16"}).find("microbatches 2") != std::string::npos);
}

TEST_CASE("Bridge's sections: known but not modelled is listed once, misspelt is refused") {
  const Scenario s = read(
      R"({"cluster": {"system": "dgx-h100", "nodes": 1}, "model": {"hf_config": "llama3-8b", "rotary_base": 500000, "new_field_of_tomorrow": 1},
    "ddp": {"check_for_nan_in_grad": true}, "train": {"global_batch_size": 8, "train_iters": 100}, "dataset": {"seq_length": 8192},
    "checkpoint": {"save": "x"}, "logger": {}, "env_vars": {"NCCL_GRAPH_REGISTER": 0, "CUDA_DEVICE_MAX_CONNECTIONS": "1"}, "_target_": "x"})");
  CHECK(s.not_modelled ==
        std::vector<std::string>{"checkpoint", "logger", "model.new_field_of_tomorrow",
                                 "model.rotary_base", "ddp.check_for_nan_in_grad",
                                 "train.train_iters", "env_vars.NCCL_GRAPH_REGISTER"});
  CHECK(s.launch_env.max_connections == 1);
}

TEST_CASE(
    "overrides: JSON, Python's words, text, Hydra's signs; the command line is where they are") {
  CHECK(small({"tp=4", "sp=True"}).parallel.sequence_parallel);
  CHECK_FALSE(small({"pp=4", "vp=2", "vp=None"}).parallel.vp.has_value());
  CHECK(small({"+model.recompute_granularity=selective"}).recompute_modules.core_attn);
  CHECK(small({"cluster.gpus=4", "~cluster.gpus"}).parallel.world() == 32);
  CHECK(small({"model.hf_config=llama3-70b"}).model.layers == 80);
  CHECK(refusal({"tp=3"}).starts_with("small.json#/cluster/nodes: gives 32 GPUs"));
  CHECK(refusal({"tp=3", "cluster.nodes=4"})
            .starts_with("<command line>#/cluster/nodes: gives 32 GPUs"));
  CHECK(refusal({"mixed_precision.recipe=[1"}).starts_with("<command line>:1:3: not JSON"));
}

TEST_CASE("--cluster NAME[:NODES]") {
  const std::string text =
      R"({"model": {"hf_config": "llama3-8b"}, "dataset": {"seq_length": 8192}, "train": {"global_batch_size": 128}})";
  CHECK(read(text, {}, "dgx-h100:2").parallel.world() == 16);
  CHECK(read(text, {"cluster.nodes=4"}, "dgx-a100").cluster.device.architecture == "ampere");
  CHECK_THROWS_WITH_AS(read(text, {}, "dgx-h100:two"),
                       "<command line>#/cluster/nodes: must be an integer from 1; got 'two'",
                       Error);
  CHECK_THROWS_AS(read(text, {}, "dgx-h100"), Error);  // still no nodes
  // Other nodes make a stale count of GPUs void.
  const std::string partly =
      R"({"cluster": {"system": "dgx-h100", "nodes": 1, "gpus": 4}, "model": {"hf_config": "llama3-8b"},
    "dataset": {"seq_length": 8192}, "train": {"global_batch_size": 128}})";
  CHECK(read(partly).parallel.world() == 4);
  CHECK(read(partly, {"cluster.nodes=2"}).parallel.world() == 16);
}

TEST_CASE("base: the differences lie on top, and errors name the file that is wrong") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("stepsim_base_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder / name) << text;
  };
  write(
      "a.json",
      R"({"cluster": {"system": "dgx-h100", "nodes": 4}, "model": {"hf_config": "llama3-8b", "tensor_model_parallel_size": 8},
    "mixed_precision": "bf16_with_fp8_current_scaling_mixed", "dataset": {"seq_length": 8192}, "train": {"global_batch_size": 128}})");
  write(
      "b.json",
      R"({"base": "a.json", "model": {"tensor_model_parallel_size": 4}, "mixed_precision": {"first_last_layers_bf16": false}})");
  write("c.json", R"({"base": "b.json", "model": {"pipeline_model_parallel_size": 5}})");
  const Scenario b = read_scenario((folder / "b.json").string(), {}, "", find_data());
  CHECK(b.parallel.tp == 4);
  CHECK(b.model.layers == 32);
  CHECK(b.precision.fp8 == Fp8Recipe::current);
  CHECK(b.precision.bf16_first_layers == 0);
  CHECK(b.resolved_json.find("base") == std::string::npos);
  std::string what;
  try {
    read_scenario((folder / "c.json").string(), {}, "", find_data());
  } catch (const Error& error) {
    what = error.what();
  }
  CHECK(what.starts_with((folder / "a.json").string() + "#/cluster/nodes: gives 32 GPUs"));
  std::filesystem::remove_all(folder);
}

// virtual stage = chunk * PP + rank
TEST_CASE("given costs need no model, cluster or data") {
  const std::string mesh =
      R"("model": {"pipeline_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": 2}, "train": {"global_batch_size": 8})";
  const Scenario scalar = read(
      R"({"costs": {"forward_seconds": 1, "backward_input_seconds": 1, "backward_weight_seconds": 0.5, "p2p_seconds": 0.1}, )" +
      mesh + "}");
  CHECK(scalar.costs->forward_seconds == std::vector<double>{1, 1, 1, 1});
  CHECK(scalar.costs->backward_seconds == std::vector<double>{1.5, 1.5, 1.5, 1.5});
  CHECK(scalar.costs->p2p_seconds == std::vector<double>(4, 0.1));
  CHECK(scalar.parallel.world() == 2);
  CHECK(scalar.batch.microbatches == 8);
  CHECK(read(R"({"costs": {"forward_seconds": [1, 2], "backward_seconds": [1, 2, 3, 4]}, )" + mesh +
             "}")
            .costs->forward_seconds == std::vector<double>{1, 2, 1, 2});
}

TEST_CASE("recompute and graphs") {
  const Scenario full = small({"model.recompute_granularity=full", "model.recompute_method=block",
                               "model.recompute_num_layers=3"});
  CHECK(full.recompute == Recompute::full_block);
  CHECK(full.recompute_layers == 3);
  CHECK(small({"model.cuda_graph_impl=full_iteration"}).full_iteration_graph);
  CHECK(small({"model.cuda_graph_impl=local", "model.cuda_graph_scope=[\"full_iteration\"]"})
            .full_iteration_graph);
  const Scenario layers = small({"model.cuda_graph_impl=transformer_engine"});
  CHECK((layers.graph_attention && layers.graph_mlp));
  CHECK_FALSE(layers.full_iteration_graph);
  CHECK_FALSE(small({"model.cuda_graph_impl=none"}).graph_mlp);
  const Scenario part =
      small({"model.cuda_graph_impl=transformer_engine", "model.cuda_graph_scope=[\"attn\"]"});
  CHECK(part.graph_attention);
  CHECK_FALSE(part.graph_mlp);
  CHECK(small({"model.cross_entropy_fusion_impl=te"}).cross_entropy == CrossEntropy::te);
}

TEST_CASE("a graph's scope that has no effect is found, and its effective value listed") {
  const auto scope = [](const std::string& impl, const std::string& names) {
    return small({"model.cuda_graph_impl=" + impl, "model.cuda_graph_scope=" + names});
  };
  const Scenario none = scope("none", "[attn]");
  CHECK(findings(none) == std::vector<std::string>{"graph-scope-without-effect [\"attn\"]->[]"});
  CHECK(none.findings.front().kind == Finding::Kind::silent);
  const Scenario engine = scope("transformer_engine", "[attn, full_iteration]");
  CHECK(findings(engine) ==
        std::vector<std::string>{
            "graph-scope-without-effect [\"attn\",\"full_iteration\"]->[\"attn\"]"});
  CHECK(engine.graph_attention);
  CHECK_FALSE(engine.full_iteration_graph);
  const Scenario only = scope("transformer_engine", "full_iteration");
  CHECK_FALSE((only.graph_attention || only.graph_mlp || only.full_iteration_graph));
  const Scenario local = scope("local", "[attn, mlp]");
  CHECK(findings(local).empty());
  CHECK(local.effective.at("model.cuda_graph_scope") == R"(["attn","mlp"])");
  CHECK(small({}).effective.at("model.cuda_graph_scope") == "null");
  CHECK_THROWS_AS(scope("none", "[atn]"), Error);
}

TEST_CASE("words that change what the file says are remembered") {
  CHECK_FALSE(small({}).overridden);
  CHECK_FALSE(small({"gbs=128"}).overridden);  // as in the file
  CHECK(small({"gbs=256"}).overridden);
  const std::string text =
      R"({"cluster": {"system": "dgx-h100", "nodes": 4}, "model": {"hf_config": "llama3-8b"},
    "dataset": {"seq_length": 8192}, "train": {"global_batch_size": 128}})";
  const auto on = [&](const std::string& cluster) {
    return read_scenario_text(text, "x.json", {}, cluster, find_data()).overridden;
  };
  CHECK(on("dgx-b200"));
  CHECK(on("dgx-h100:8"));
  CHECK_FALSE(on("dgx-h100:4"));
}

// Law: the merged input is itself a scenario that reads to the same.
TEST_CASE("resolved_json reads back to itself") {
  const Scenario once = small({"tp=4", "sp=true", "mixed_precision=bf16_mixed"});
  const Scenario twice = read(once.resolved_json);
  CHECK(twice.resolved_json == once.resolved_json);
  CHECK(twice.effective == once.effective);
}

TEST_CASE("words of the command line: Hydra's lists, versions as text, no empty values") {
  CHECK(small({"model.recompute_granularity=selective", "model.recompute_modules=[core_attn]"})
            .recompute_modules.core_attn);
  CHECK(small({"software.nccl=2.20"}).software.nccl == "2.20");
  CHECK(small({"software.nccl=\"2.20\""}).software.nccl == "2.20");
  CHECK(small({"software.nccl=2.20", "software.nccl=null"}).software.nccl.empty());
  CHECK(small({"software.release=NeMo", "software.release=None"}).software.release.empty());
  CHECK(small({"software.release=true"}).software.release == "true");
  CHECK_THROWS_AS(small({"software.nccl=[2]"}), Error);
  CHECK_THROWS_AS(small({"model.seq_length="}), Error);
}

// A ten-line file must not make the program allocate what nobody can simulate: tight on both sides
// of the limit.
TEST_CASE("task limit") {
  const auto costs = [](int64_t batch) {
    return R"({"costs": {"forward_seconds": 1, "backward_seconds": 1}, "model": {"pipeline_model_parallel_size": 2}, "train": {"global_batch_size": )" +
           std::to_string(batch) + "}}";
  };
  // 2 stages x (2 passes and 2 transfers) a microbatch, and 100 a stage.
  CHECK_NOTHROW(read(costs(7'499'975)));
  CHECK_THROWS_AS(read(costs(7'499'976)), Error);
}
