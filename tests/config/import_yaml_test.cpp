// Law: a YAML file becomes the document that the same content in JSON gives, scalars as PyYAML
// reads them; whatever is wrong with it is one Error that points.
#include "sim/config/import_yaml.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/import.h"
#include "sim/config/read.h"

using namespace stepsim;
using nlohmann::json;

namespace {

json yaml(const std::string& text) { return *parse_yaml(text, "x.yaml").root; }
json scalar(const std::string& text) { return yaml("a: " + text + "\n")["a"]; }

std::string yaml_refusal(const std::string& text) {
  try {
    parse_yaml(text, "x.yaml");
    return "accepted";
  } catch (const Error& error) {
    const std::string line = error.what();
    CHECK(line.find('\n') == std::string::npos);
    return line;
  }
}

bool yaml_refused(const std::string& text, const std::string& why) {
  const std::string line = yaml_refusal(text);
  INFO(line);
  CHECK(line.find(why) != std::string::npos);
  return line.find(why) != std::string::npos;
}

/// A resolved configuration in little.
const std::string run_config = R"(_target_: megatron.bridge.training.config.ConfigContainer
comm_overlap:
  _target_: megatron.bridge.training.comm_overlap.CommOverlapConfig
  data_parallel_size: 2
  overlap_grad_reduce: null
  tp_comm_overlap: true
  tp_comm_overlap_cfg:
    proj_fprop: {method: pipeline, num_sm: 24, num_splits: 4}
dataset: {seq_length: 4096}
ddp: {bucket_size: 134217728, overlap_grad_reduce: true, overlap_param_gather: true,
      use_distributed_optimizer: true}
env_vars: {CUDA_DEVICE_MAX_CONNECTIONS: 1}
mixed_precision: {_target_: x.MixedPrecisionConfig, bf16: true, fp16: false, fp4: null,
                  fp4_recipe: nvfp4, fp8: null, fp8_recipe: mxfp8, grad_reduce_in_fp32: false}
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  activation_func: {_call_: false, _target_: torch.nn.functional.silu}
  attention_backend: {_args_: [5], _call_: true, _name_: auto, _target_: x.AttnBackend}
  expert_tensor_parallel_size: 4
  gated_linear_unit: true
  normalization: RMSNorm
  num_moe_experts: null
  pipeline_dtype: {_call_: false, _target_: torch.bfloat16}
  sequence_parallel: true
  tensor_model_parallel_size: 4
  tp_comm_overlap: true
  transformer: {hidden_size: 4096, num_attention_heads: 32, num_layers: 8, sequence_parallel: false}
  vocab_size: 32000
optimizer: {optimizer: adam, use_distributed_optimizer: true}
train: {global_batch_size: 32, micro_batch_size: 1}
)";

}  // namespace

TEST_CASE("plain scalars resolve as PyYAML's") {
  for (const char* word : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
    CHECK(scalar(word) == json(true));
  for (const char* word : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
    CHECK(scalar(word) == json(false));
  for (const char* word : {"", "~", "null", "Null", "NULL"}) CHECK(scalar(word) == json(nullptr));
  // No others: mixed case, single letters, Python's None.
  for (const char* word : {"tRUE", "y", "n", "None", "nUll", "oN"})
    CHECK(scalar(word) == json(word));
  CHECK(scalar("12") == json(12));
  CHECK(scalar("-7") == json(-7));
  CHECK(scalar("+7") == json(7));
  CHECK(scalar("134_217_728") == json(134217728));
  CHECK(scalar("0x1F") == json(31));
  CHECK(scalar("-0x10") == json(-16));
  CHECK(scalar("0b101") == json(5));
  CHECK(scalar("010") == json(8));
  CHECK(scalar("08") == json("08"));
  CHECK(scalar("9223372036854775807") == json(INT64_MAX));
  CHECK(scalar("18446744073709551615") == json(UINT64_MAX));
  CHECK(scalar("18446744073709551616") == json(18446744073709551616.0));
  CHECK(scalar("1.5") == json(1.5));
  CHECK(scalar("5.") == json(5.0));
  CHECK(scalar(".5") == json(0.5));
  CHECK(scalar("1.0e-5") == json(1e-5));
  CHECK(scalar("1e-999") == json(0.0));
  // A string for PyYAML, which no one means.
  CHECK(scalar("1e-5") == json(1e-5));
  CHECK(scalar("3E4") == json(3e4));
  CHECK(scalar("1.5e5") == json(1.5e5));
  for (const char* word : {"1:30", "2024-01-01", "1.2.3", "_1", "1e", "e5", ".", "-", "0x", "12a",
                           "1-2", "++1", "0x-5"})
    CHECK(scalar(word[0] == '-' && word[1] == 0 ? "'-'" : word) == json(word));
  for (const char* quoted : {"'12'", "\"12\""}) CHECK(scalar(quoted) == json("12"));
  CHECK(scalar("'true'") == json("true"));
  CHECK(scalar("!!str 12") == json("12"));
  CHECK(scalar("!!float 3") == json(3));
  CHECK(scalar("|\n  12\n") == json("12\n"));
}

TEST_CASE("collections, keys, anchors and merges") {
  CHECK(yaml("a: {b: [1, two, {c: 3}]}\n") == json::parse(R"({"a": {"b": [1, "two", {"c": 3}]}})"));
  CHECK(yaml("1: x\ntrue: y\n") == json::parse(R"({"1": "x", "true": "y"})"));
  CHECK(yaml("a: &s {x: 1}\nb: *s\n") == json::parse(R"({"a": {"x": 1}, "b": {"x": 1}})"));
  CHECK(yaml("a: &s {x: 1, y: 2}\nb: {<<: *s, x: 3}\n")["b"] == json::parse(R"({"x": 3, "y": 2})"));
  CHECK(yaml("a: &s {x: 1}\nc: &t {x: 5, z: 6}\nb: {<<: [*s, *t]}\n")["b"] ==
        json::parse(R"({"x": 1, "z": 6})"));
  CHECK(yaml("--- # with a start\nname: x\n...\n") == json::parse(R"({"name": "x"})"));
}

TEST_CASE("the same content in JSON and in YAML is the same document") {
  const std::string text = R"({"cluster": {"system": "dgx-h100", "nodes": 4},
    "model": {"hf_config": "llama3-8b", "cp_comm_type": null}, "train": {"global_batch_size": 128}})";
  CHECK(yaml(text) == *parse_document(text, "x.json").root);
}

TEST_CASE("what is wrong is one pointing line") {
  CHECK(yaml_refused("", "x.yaml:1:1: empty file"));
  CHECK(yaml_refused("# only a comment\n", "x.yaml:1:1: empty file"));
  CHECK(yaml_refused("a: 1\nb: [1, 2\nc: 3\n", "x.yaml:3:"));
  CHECK(yaml_refused("a:\n\t- 1\n", "x.yaml:2:"));
  CHECK(yaml_refused("a: *none\n", "x.yaml:1:4: not YAML"));
  CHECK(yaml_refused("a: {b: 1, b: 2}\n",
                     "x.yaml#/a/b: key 'b' appears twice in this mapping (line 1)"));
  CHECK(yaml_refused("a: 1\nc: 2\na: 3\n",
                     "x.yaml#/a: key 'a' appears twice in this mapping (line 3)"));
  CHECK(yaml_refused("a: 1\n---\nb: 2\n", "more than one YAML document"));
  CHECK(yaml_refused("- 1\n- 2\n", "must be a mapping of sections; got array"));
  CHECK(yaml_refused("just words\n", "must be a mapping of sections; got string"));
  CHECK(yaml_refused("a: .nan\n", "x.yaml:1:4: '.nan' is no finite number"));
  CHECK(yaml_refused("a: -.inf\n", "is no finite number"));
  CHECK(yaml_refused("a: 1e999\n", "is no finite number"));
  CHECK(yaml_refused("a: !!python/object:os.system x\n", "unknown tag"));
  CHECK(yaml_refused("a: !ours {b: 1}\n", "unknown tag"));
  CHECK(yaml_refused("? [a, b]\n: 1\n", "a key must be text"));
  CHECK(yaml_refused("a: {<<: 3}\n", "'<<' merges a mapping"));
  CHECK(yaml_refused("a: &x [*x]\n", "x.yaml:1:"));
  CHECK(yaml_refused("a: \xff\n", "x.yaml:1:4: not UTF-8"));
  CHECK(yaml_refused("a: \xed\xa0\x80\n", "x.yaml:1:4: not UTF-8"));
  CHECK(yaml_refused(std::string("a: 1\nb: \0 2\n", 11), "x.yaml:2:4: control character"));
  CHECK(yaml_refused("a: \x04\nb: 2\n", "control character"));
}

TEST_CASE("nesting is limited, and the limit is tight") {
  const auto nested = [](int levels) {
    std::string text;
    for (int i = 1; i < levels; ++i) text += "{a: ";
    return text + "{}" + std::string(static_cast<size_t>(levels - 1), '}');
  };
  CHECK(yaml_refusal(nested(max_nesting)) == "accepted");
  CHECK(yaml_refused(nested(max_nesting + 1), "nested deeper than 64 levels"));
  CHECK(yaml_refused("a: " + std::string(100000, '['), "nested deeper than 64 levels"));
}

TEST_CASE("aliases cannot multiply the text") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below;
    for (int k = 0; k < 9; ++k) bomb += ", " + below;
    bomb += "]\n";
  }
  CHECK(yaml_refused(bomb, "aliases expand to more than eight times the size of the text"));
  // A long text as well as many nodes.
  std::string quoted = "a: &a " + std::string(10000, 'x') + "\nb: [*a";
  for (int i = 0; i < 100; ++i) quoted += ", *a";
  CHECK(yaml_refused(quoted + "]\n", "aliases expand"));
  // What people write stays possible.
  std::string shared = "base: &b {method: bulk, num_sm: 4}\ncfg:\n";
  for (int i = 0; i < 20; ++i) shared += "  gemm" + std::to_string(i) + ": *b\n";
  CHECK(yaml_refusal(shared) == "accepted");
}

TEST_CASE("Bridge's notation for Python objects becomes plain values") {
  const json root = yaml(R"(
a: {_call_: false, _target_: torch.bfloat16}
b: {_args_: [flash], _call_: true, _name_: flash, _target_: x.AttnBackend}
c: {_args_: [1], _call_: true, _name_: full_iteration, _target_: x.CudaGraphScope}
d: {_partial_: true, _target_: torch.nn.init.normal_, _args_: [], std: 0.02}
e: {_call_: false, _target_: x.y.step}
f: {_target_: x.Config, size: 3}
g: [{_call_: false, _target_: torch.float16}]
)");
  CHECK(root == json::parse(R"({"a": "torch.bfloat16", "b": "flash", "c": "full_iteration",
    "d": "torch.nn.init.normal_", "e": "x.y.step", "f": {"_target_": "x.Config", "size": 3},
    "g": ["torch.float16"]})"));
}

TEST_CASE("a resolved run_config keeps its overlap section aside") {
  const json root = yaml(run_config);
  CHECK(!root.contains("comm_overlap"));
  CHECK(root["_comm_overlap_requested"]["data_parallel_size"] == 2);
  CHECK(!root["_comm_overlap_requested"].contains("tp_comm_overlap_cfg"));
  CHECK(root["model"]["tp_comm_overlap_cfg"]["proj_fprop"]["num_sm"] == 24);
  CHECK(root["model"]["hidden_size"] == 4096);
  CHECK(root["model"]["sequence_parallel"] == true);  // what model says itself wins
  CHECK(!root["model"].contains("transformer"));
  CHECK(root["model"]["activation_func"] == "silu");
  CHECK(root["model"]["pipeline_dtype"] == "torch.bfloat16");
  CHECK(root["model"]["attention_backend"] == "auto");
  CHECK(!root["mixed_precision"].contains("fp4_recipe"));
  CHECK(!root["mixed_precision"].contains("fp8_recipe"));
  CHECK(!root["mixed_precision"].contains("recipe"));
  CHECK(root["optimizer"]["optimizer"] == "adam");
  // The cfg of a model that has its own is left alone.
  std::string own = run_config;
  own.replace(own.find("  vocab_size"), 2,
              "  tp_comm_overlap_cfg: {fc2_fprop: {method: pipeline}}\n  ");
  CHECK(yaml(own)["model"]["tp_comm_overlap_cfg"].contains("fc2_fprop"));
  CHECK(!yaml(own)["model"]["tp_comm_overlap_cfg"].contains("proj_fprop"));
}

TEST_CASE("a recipe-style file keeps its sections as they are") {
  const json root = yaml(
      "comm_overlap: {tp_comm_overlap: true}\nmixed_precision: bf16_mixed\n"
      "model: {tensor_model_parallel_size: 2, transformer: {num_layers: 4}}\n");
  CHECK(root["comm_overlap"]["tp_comm_overlap"] == true);
  CHECK(root["mixed_precision"] == "bf16_mixed");
  CHECK(root["model"] == json::parse(R"({"tensor_model_parallel_size": 2, "num_layers": 4})"));
}

TEST_CASE("a run_config reads as a scenario that lacks only its cluster") {
  const Document document = parse_yaml(run_config, "run_config.yaml");
  const Scenario scenario =
      read_scenario_text(document.root->dump(), document.file, {}, "dgx-h100:1", find_data());
  CHECK(scenario.model.hidden == 4096);
  CHECK(scenario.model.layers == 8);
  CHECK(scenario.overlap.tp_comm_overlap);
  CHECK(scenario.overlap.tp[static_cast<size_t>(TpGemm::proj_fprop)].num_sm == 24);
  CHECK(scenario.overlap.overlap_grad_reduce);
  CHECK(scenario.data_parallel.bucket_size == 134217728);
  CHECK(!scenario.precision.grad_reduce_in_fp32);
  for (const Finding& finding : scenario.findings) CHECK(finding.kind != Finding::Kind::silent);
}

TEST_CASE("a file is read by its ending, or by what it looks like") {
  CHECK((*parse_any("a: 1\n", "x.yml").root)["a"] == 1);
  CHECK((*parse_any("{\"a\": 1}", "x.json").root)["a"] == 1);
  CHECK_THROWS_AS(parse_any("a: 1\n", "x.json"), Error);
  CHECK((*parse_any("{\"a\": 1}", "x").root)["a"] == 1);
  CHECK((*parse_any("model:\n  num_layers: 2\n", "x").root)["model"]["num_layers"] == 2);
  CHECK((*parse_any("--bf16 --micro-batch-size 2\n", "x.txt").root)["_dialect"] == "megatron-lm");
  CHECK((*parse_any("--bf16 --micro-batch-size 2\n", "x.args").root)["train"]["micro_batch_size"] ==
        2);
  CHECK_THROWS_AS(load_any("no/such/file.yaml"), Error);
}
