// How experts run: dispatcher, SMs, domains, capacity and padding after their gates.
#include "sim/config/moe_runtime.h"

#include <doctest/doctest.h>

#include "sim/config/read.h"

using namespace stepsim;

namespace {

using Dispatcher = Dispatcher;

/// 32 GPUs with EP 8, and `words`.
MoeRuntime runtime(std::vector<std::string> words, const std::string& system = "dgx-h100") {
  const std::string text = R"({"cluster": {"system": ")" + system + R"(", "nodes": 8, "gpus": 32},
      "model": {"hf_config": "deepseek-v2-lite", "expert_model_parallel_size": 8},
      "dataset": {"seq_length": 4096}, "train": {"global_batch_size": 128}})";
  return read_scenario_text(text, "x.json", words, "", find_data(), Strictness::collect)
      .moe_runtime;
}

}  // namespace

TEST_CASE("flex is its back-end; a back-end that the GPU lacks is alltoall") {
  const std::string flex = "model.moe_token_dispatcher_type=flex",
                    hybrid = "model.moe_flex_dispatcher_backend=hybridep";
  CHECK(runtime({}).dispatcher == Dispatcher::allgather);
  CHECK(runtime({"model.moe_token_dispatcher_type=alltoall"}).dispatcher == Dispatcher::alltoall);
  CHECK(runtime({flex}).dispatcher == Dispatcher::deepep);
  CHECK(runtime({flex, hybrid}).dispatcher == Dispatcher::hybridep);
  CHECK(runtime({flex}, "gb200-nvl72").dispatcher == Dispatcher::alltoall);
  CHECK(runtime({flex, hybrid}, "gb200-nvl72").dispatcher == Dispatcher::hybridep);
  // The fallback is Bridge's: Megatron-LM runs what it was asked for.
  for (const char* word : {"_dialect=megatron-lm", "software.release=Megatron-LM 0.14"})
    CHECK(runtime({flex, word}, "gb200-nvl72").dispatcher == Dispatcher::deepep);
  CHECK_FALSE(
      runtime({flex, "model.moe_shared_expert_overlap=true"}, "gb200-nvl72").shared_overlap);
  CHECK(runtime({flex, "model.moe_shared_expert_overlap=true"}).shared_overlap);
}

// transformer_config.py: moe_deepep_num_sms 20, moe_hybridep_num_sms 16.
TEST_CASE("SMs that dispatch holds") {
  const std::string flex = "model.moe_token_dispatcher_type=flex",
                    hybrid = "model.moe_flex_dispatcher_backend=hybridep";
  CHECK(runtime({"model.moe_deepep_num_sms=24"}).num_sms == 0);
  CHECK(runtime({flex}).num_sms == 20);
  CHECK(runtime({flex, "model.moe_deepep_num_sms=24"}).num_sms == 24);
  CHECK(runtime({flex, hybrid}).num_sms == 16);
  CHECK(runtime({flex, hybrid}).preprocess_sms == 108);
  CHECK(runtime({flex}).preprocess_sms == 0);
  CHECK(runtime({flex, hybrid, "model.moe_flex_dispatcher_num_sms=8"}).num_sms == 8);
  CHECK(runtime(
            {flex, hybrid, "model.moe_flex_dispatcher_num_sms=8", "model.moe_hybridep_num_sms=32"})
            .num_sms == 32);
}

TEST_CASE("HybridEP's domain: what NVLink joins of the expert group, or what the variable says") {
  const std::string flex = "model.moe_token_dispatcher_type=flex",
                    hybrid = "model.moe_flex_dispatcher_backend=hybridep";
  CHECK(runtime({flex}).ranks_per_domain == 0);
  CHECK(runtime({flex, hybrid}).ranks_per_domain == 8);
  CHECK(runtime({flex, hybrid, "model.expert_model_parallel_size=32"}).ranks_per_domain == 8);
  CHECK(runtime({flex, hybrid, "model.expert_model_parallel_size=32"}, "gb200-nvl72")
            .ranks_per_domain == 32);
  CHECK(runtime({flex, hybrid, "env_vars.NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN=4"})
            .ranks_per_domain == 4);
}

TEST_CASE("capacity: none, of an expert, of a rank; what makes shapes static") {
  CHECK_FALSE(runtime({}).capacity_factor);
  CHECK_FALSE(runtime({"model.moe_expert_capacity_factor=-1"}).capacity_factor);
  const MoeRuntime padded = runtime(
      {"model.moe_expert_capacity_factor=1.25", "model.moe_pad_expert_input_to_capacity=true"});
  CHECK(padded.capacity_factor == 1.25);
  CHECK(padded.static_shapes());
  CHECK_FALSE(runtime({"model.moe_expert_capacity_factor=1.25"}).static_shapes());
  // Only HybridEP keeps room by rank.
  const std::string room = "model.moe_expert_rank_capacity_factor=1.5",
                    flex = "model.moe_token_dispatcher_type=flex";
  CHECK_FALSE(runtime({flex}).static_shapes());
  CHECK(runtime({flex, room, "model.moe_flex_dispatcher_backend=hybridep",
                 "model.use_transformer_engine_op_fuser=true"})
            .static_shapes());
}

// fp8_utils.py, get_fp8_align_size: 32 with MXFP8, else 16; the fused grouped path 256.
TEST_CASE("experts are padded to what a quantised GEMM needs") {
  const auto multiple = [](const std::string& recipe, bool fused) {
    return runtime({"mixed_precision=" + recipe, "model.use_transformer_engine_op_fuser=" +
                                                     std::string(fused ? "true" : "false")},
                   "gb200-nvl72")
        .pad_multiple;
  };
  CHECK(multiple("bf16_mixed", true) == 1);
  CHECK(multiple("bf16_with_fp8_current_scaling_mixed", false) == 16);
  CHECK(multiple("bf16_with_mxfp8_mixed", false) == 32);
  CHECK(multiple("bf16_with_mxfp8_mixed", true) == 256);
}

TEST_CASE("the combined schedule and its delayed weight gradients, after their gates") {
  const std::string all_to_all = "model.moe_token_dispatcher_type=alltoall",
                    overlap = "comm_overlap.overlap_moe_expert_parallel_comm=true",
                    delay = "comm_overlap.delay_wgrad_compute=true";
  CHECK(runtime({all_to_all, overlap}).overlap_ep);
  CHECK_FALSE(runtime({all_to_all, overlap}).delay_wgrad);
  CHECK(runtime({all_to_all, overlap, delay}).delay_wgrad);
  CHECK_FALSE(runtime({all_to_all, delay}).delay_wgrad);
}
