// The command `check`, as users type it.
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

using namespace stepsim::test;

namespace {

// Quick check of Megatron-Bridge's guide "parallelism strategy selection", on 4 GPUs.
const std::string quick_words =
    "--recipe llama32_1b_pretrain_config model.tensor_model_parallel_size=2 "
    "model.pipeline_model_parallel_size=2 model.sequence_parallel=True train.train_iters=3 "
    "train.global_batch_size=8 train.micro_batch_size=1 --cluster dgx-h100 cluster.gpus=4";

}  // namespace

TEST_CASE("the guide's quick check prints its layout, and the same words simulate") {
  CHECK(output("check " + quick_words).find("TP=2 PP=2 DP=1") != std::string::npos);
  CHECK(output("run " + quick_words).find("TP2 PP2 CP1 DP1") != std::string::npos);
}

TEST_CASE("short flags are Bridge's dotted keys") {
  const std::string base = "check --recipe llama3_8b --cluster dgx-h100:1 --json - ";
  CHECK(output(base + "-tp 4 -cp=1 -gb 16") ==
        output(base + "model.tensor_model_parallel_size=4 model.context_parallel_size=1 "
                      "train.global_batch_size=16"));
}

TEST_CASE("what Megatron would refuse: exit 2, and the findings are written nevertheless") {
  const std::string file = "/tmp/stepsim-check.json";
  CHECK(exit_code("check --recipe llama3_70b --cluster dgx-h100:4 -tp 3 --json " + file) == 2);
  const nlohmann::json json = nlohmann::json::parse(read_text(file));
  CHECK(json.at("valid") == false);
  CHECK(json.at("findings").size() > 2);
  CHECK(exit_code("run --recipe llama3_70b --cluster dgx-h100:4 -tp 3") == 2);
}

TEST_CASE("a check fits 100 columns") {
  for (const char* words :
       {"check --recipe deepseek_v3 --cluster dgx-h100:128",
        "check scenarios/llama3-70b-64xh100-bf16.json", "check scenarios/1f1b-4x8.json"}) {
    CAPTURE(std::string(words));
    check_fits_100_columns(output(words));
  }
}
