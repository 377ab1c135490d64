// Whatever way a key is written, it is found; what is unknown is answered with what is near.
#include "sim/config/explain.h"

#include <doctest/doctest.h>

#include "sim/base/error.h"
#include "sim/config/overlap.h"

using namespace stepsim;

namespace {

/// "a b" of all keys that a name stands for, or the message of the Error.
std::string keys(const std::string& name) {
  try {
    std::string text;
    for (const KeyDescription& d : explain_key(name)) text += (text.empty() ? "" : " ") + d.key;
    return text;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a key in every spelling") {
  const std::string tp = "model.tensor_model_parallel_size";
  for (const char* name : {"model.tensor_model_parallel_size", "tensor_model_parallel_size",
                           "--tensor-model-parallel-size", "-tp", "tp", "TP",
                           "model.transformer."
                           "tensor_model_parallel_size",
                           "model.tensor_model_parallel_size=8"}) {
    CAPTURE(std::string(name));
    CHECK(keys(name) == tp);
  }
  CHECK(keys("-gb") == "train.global_batch_size");
  CHECK(keys("-sl") == "model.seq_length dataset.seq_length");
  CHECK(keys("CUDA_DEVICE_MAX_CONNECTIONS") == "env_vars.CUDA_DEVICE_MAX_CONNECTIONS");
  CHECK(keys("NVTE_FWD_LAYERNORM_SM_MARGIN") == "env_vars.NVTE_FWD_LAYERNORM_SM_MARGIN");
  CHECK(keys("--no-rope-fusion") == "model.apply_rope_fusion");
  CHECK(keys("--num-experts") == "model.num_moe_experts");
  CHECK(keys("--accumulate-allreduce-grads-in-fp32") ==
        "ddp.grad_reduce_in_fp32 mixed_precision.grad_reduce_in_fp32");
  CHECK(keys("qkv_fprop") == "comm_overlap.tp_comm_overlap_cfg.qkv_fprop");
  CHECK(keys("stacks.launch") == "system.stacks.launch");
  CHECK(keys("gpu.memory.capacity") == "gpu.memory.capacity");
}

TEST_CASE("an ambiguous name stands for all its keys") {
  CHECK(keys("bucket_size") == "ddp.bucket_size comm_overlap.bucket_size");
  CHECK(keys("overlap_grad_reduce") ==
        "ddp.overlap_grad_reduce comm_overlap.overlap_grad_reduce optimizer.overlap_grad_reduce");
  CHECK(keys("--overlap-grad-reduce") == keys("overlap_grad_reduce"));
}

TEST_CASE("an unknown key is an Error with the nearest names") {
  CHECK(keys("tensor_model_paralel_size").find("near it: model.tensor_model_parallel_size") !=
        std::string::npos);
  CHECK(keys("bucket").find("bucket_size") != std::string::npos);
  for (const char* name : {"", "-", "--", "=", ".", "zzzzzz", "model.", "\x01\xff"}) {
    const std::string line = keys(name);
    CAPTURE(line);
    CHECK(line.find("<command line>#/explain: unknown key") == 0);
    CHECK(line.find('\n') == std::string::npos);
  }
  CHECK(keys(std::string(100'000, 'x')).size() < 300);
}

TEST_CASE("a description says what is simulated") {
  const KeyDescription gate = explain_key("comm_overlap.tp_comm_overlap").front();
  CHECK(gate.modelled);
  CHECK(gate.gates.size() >= 3);
  CHECK(gate.gates[0].find("TP < 2") == 0);
  CHECK(gate.gates[1].find("sequence_parallel") != std::string::npos);
  CHECK(explain_key("comm_overlap.bucket_size").front().unit == "elements");
  CHECK(explain_key("model.test_mode").front().modelled == false);
  CHECK(explain_key("optimizer.optimizer").front().accepted == "null or \"adam\" or \"adamw\"");
  CHECK(explain_key("model.num_layers").front().accepted == "");
}

TEST_CASE("every preset says what it is for") {
  CHECK(preset_purpose("userbuffers_bf16_h100_h16384_tp8_cp2_mbs1_seqlen8192") ==
        "bf16 h100 hidden 16384 TP8 CP2 MBS1 seq 8192");
  for (const std::string& preset : preset_names()) {
    CAPTURE(preset);
    CHECK(preset_purpose(preset).find(" seq ") != std::string::npos);
    CHECK(preset.size() + 2 + preset_purpose(preset).size() <= 100);
  }
}
