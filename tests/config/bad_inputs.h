// Inputs that must be refused: one edit each to a set of good files, and the line that says what is
// wrong. The same table runs in process (tests/config) and through the program (tests/cli).
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace stepsim::bad {

/// What is edited. `text`: the scenario's whole content; `command`: words after the file; `path`:
/// another file is run.
enum class Where { scenario, model, system, gpu, text, command, path };

/// One case. `edit` is "section.key = JSON", "- section.key" to leave it out, a whole text, words,
/// or a path.
struct Case {
  const char* what;
  Where where;
  const char* edit;
  const char* line;  ///< part of the one line that must be printed, `file#/pointer: message`
};

inline const nlohmann::json good_scenario = nlohmann::json::parse(R"({
  "cluster": {"system": "s.json", "nodes": 4},
  "model": {"hf_config": "m/config.json", "tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2,
            "sequence_parallel": true},
  "ddp": {"use_distributed_optimizer": true}, "comm_overlap": {"tp_comm_overlap": true},
  "mixed_precision": "bf16_mixed", "dataset": {"seq_length": 4096},
  "train": {"global_batch_size": 64, "micro_batch_size": 1}})");
inline const nlohmann::json good_model = nlohmann::json::parse(R"({
  "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
  "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256})");
inline const nlohmann::json good_system = nlohmann::json::parse(R"({
  "gpu": "g.json", "gpus_per_node": 8, "nvlink_domain": 8, "nics_per_node": 8, "nic_rate": "400 Gb/s",
  "fabric": "infiniband", "tiers": [{"name": "leaf", "radix": 32, "latency": "0.3 us"}],
  "stacks": [{"name": "any", "release": "", "launch": "7 us"}], "source": "made up"})");
inline const nlohmann::json good_gpu = nlohmann::json::parse(R"({
  "name": "g", "sms": 132, "tile": [128, 256],
  "gemm": {"bf16": {"peak": "989 TFLOP/s", "ceiling": 0.7, "half_k": 240}},
  "attention": {"forward": "600 TFLOP/s", "backward": "500 TFLOP/s", "half_sequence": 800},
  "memory": {"capacity": "80 GiB", "bandwidth": "3.35 TB/s", "efficiency": 0.9}, "kernel_gap": "1.5 us",
  "nvlink": {"bandwidth": "450 GB/s", "efficiency": 0.8, "latency": "2 us"}, "source": "made up"})");

inline const std::vector<Case> cases{
    // Missing keys.
    {"no cluster", Where::scenario, "- cluster", "x.json#/cluster: is missing"},
    {"no nodes", Where::scenario, "- cluster.nodes", "x.json#/cluster/nodes: is missing"},
    {"no model", Where::scenario, "- model.hf_config", "x.json#/model/hf_config: is missing"},
    {"no batch", Where::scenario, "- train.global_batch_size",
     "x.json#/train/global_batch_size: is missing"},
    {"no sequence", Where::scenario, "- dataset.seq_length",
     "x.json#/dataset/seq_length: is missing"},
    {"model without layers", Where::model, "- num_hidden_layers",
     "m/config.json#/num_hidden_layers: is missing"},
    {"model without family", Where::model, "- model_type", "m/config.json#/model_type: is missing"},
    {"system without GPU", Where::system, "- gpu", "s.json#/gpu: is missing"},
    {"GPU without memory", Where::gpu, "- memory", "g.json#/memory/capacity: is missing"},
    {"GPU without GEMMs", Where::gpu, "gemm = {}",
     "g.json#/gemm: needs at least one of bf16 and fp16"},
    // Misspelt keys and names.
    {"section", Where::scenario, "modle = {}", "x.json#/modle: unknown key; did you mean 'model'?"},
    {"our key", Where::scenario, "cluster.node = 4",
     "x.json#/cluster/node: unknown key; did you mean 'nodes'?"},
    {"Bridge key", Where::scenario, "model.tensor_model_paralel_size = 4",
     "x.json#/model/tensor_model_paralel_size: unknown key; did you mean "
     "'tensor_model_parallel_size'?"},
    {"swapped letters", Where::scenario, "ddp.bucket_szie = 1", "did you mean 'bucket_size'?"},
    {"overlap key", Where::scenario, "comm_overlap.overlap_p2p_com = true",
     "did you mean 'overlap_p2p_comm'?"},
    {"batch key", Where::scenario, "train.global_batchsize = 8",
     "did you mean 'global_batch_size'?"},
    {"system key", Where::system, "nic_rates = \"1 GB/s\"",
     "s.json#/nic_rates: unknown key; did you mean 'nic_rate'?"},
    {"GPU key", Where::gpu, "nvlink.bandwith = \"1 GB/s\"",
     "g.json#/nvlink/bandwith: unknown key; did you mean 'bandwidth'?"},
    {"unknown model", Where::scenario, "model.hf_config = \"lama3-70b\"",
     "x.json#/model/hf_config: unknown model 'lama3-70b'; did you mean 'llama3-70b'?"},
    {"unknown system", Where::scenario, "cluster.system = \"dgx-h10\"",
     "x.json#/cluster/system: unknown system 'dgx-h10'; did you mean 'dgx-h100'?"},
    {"unknown GPU", Where::system, "gpu = \"h10\"", "s.json#/gpu: unknown GPU 'h10'; did you mean"},
    {"unknown model file", Where::scenario, "model.hf_config = \"none/config.json\"",
     "x.json#/model/hf_config: no such file: 'none/config.json'"},
    {"unknown family", Where::model, "model_type = \"lama\"",
     "m/config.json#/model_type: unknown decoder family 'lama'; did you mean 'llama'?"},
    {"unknown recipe", Where::scenario, "mixed_precision = \"bf16_mixd\"",
     "x.json#/mixed_precision: unknown recipe 'bf16_mixd'; did you mean 'bf16_mixed'?"},
    {"unknown preset", Where::scenario,
     "comm_overlap.tp_comm_overlap_cfg = \"userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen819\"",
     "did you mean 'userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192'?"},
    {"unknown schedule", Where::scenario, "pipeline.schedule = \"1f2b\"",
     "x.json#/pipeline/schedule: unknown name '1f2b'; did you mean '1f1b'?"},
    {"unknown fabric", Where::system, "fabric = \"infinband\"",
     "s.json#/fabric: unknown name 'infinband'; did you mean 'infiniband'?"},
    // Wrong types.
    {"text for a number", Where::scenario, "model.tensor_model_parallel_size = \"4\"",
     "x.json#/model/tensor_model_parallel_size: must be an integer from 1"},
    {"fraction for a count", Where::scenario, "train.micro_batch_size = 1.5",
     "x.json#/train/micro_batch_size: must be an integer"},
    {"flag for a count", Where::scenario, "ddp.bucket_size = true",
     "x.json#/ddp/bucket_size: must be an integer"},
    {"number for a flag", Where::scenario, "model.sequence_parallel = 1",
     "x.json#/model/sequence_parallel: must be true or false; got 1"},
    {"list for a section", Where::scenario, "model = []",
     "x.json#/model: must be an object; got an array"},
    {"number for a name", Where::scenario, "cluster.system = 3",
     "x.json#/cluster/system: must be a string; got 3"},
    {"hidden size as text", Where::model, "hidden_size = \"4096\"",
     "m/config.json#/hidden_size: must be an integer"},
    {"stacks not a list", Where::system, "stacks = {}",
     "s.json#/stacks: must be a list of objects"},
    {"top level list", Where::text, "[1, 2]", "x.json#: must be an object"},
    {"version as a list", Where::command, "software.release=[1]",
     "<command line>#/software/release: must be text; got [1]"},
    {"version as an object", Where::command, "software.nccl={\"a\": 1}",
     "<command line>#/software/nccl: must be text; got {\"a\": 1}"},
    {"graph scope", Where::scenario,
     "model.cuda_graph_impl = \"local\"; model.cuda_graph_scope = [\"atn\"]",
     "x.json#/model/cuda_graph_scope: unknown name 'atn'; did you mean 'attn'?"},
    // Units.
    {"unit missing", Where::system, "nic_rate = 400",
     "s.json#/nic_rate: needs a unit (units: MB/s"},
    {"unit missing in text", Where::system, "nic_rate = \"400\"", "s.json#/nic_rate: needs a unit"},
    {"unit unknown", Where::system, "nic_rate = \"400 Gx/s\"",
     "s.json#/nic_rate: has unknown unit 'Gx/s'"},
    {"unit of another kind", Where::gpu, "memory.capacity = \"80 us\"",
     "g.json#/memory/capacity: has unknown unit 'us'"},
    {"order of overlapped messages", Where::scenario, "pipeline.p2p_order = \"fixed\"",
     "x.json#/pipeline/p2p_order: 'fixed' waits for each send and receive before the next: it "
     "needs "
     "comm_overlap.overlap_p2p_comm false and comm_overlap.batch_p2p_comm false"},
    {"unknown order", Where::scenario, "pipeline.p2p_order = \"even-odd\"",
     "x.json#/pipeline/p2p_order: unknown name 'even-odd'; did you mean 'even_odd'?"},
    // Faults.
    {"faults not a list", Where::scenario, "cluster.faults = {}",
     "x.json#/cluster/faults: must be a list of objects"},
    {"fault without a place", Where::scenario, R"(cluster.faults = [{"compute_factor": 0.5}])",
     "x.json#/cluster/faults/0: names no place; expected gpu, rank, nic or link"},
    {"fault at a misspelt place", Where::scenario,
     R"(cluster.faults = [{"gpus": 1, "compute_factor": 0.5}])",
     "x.json#/cluster/faults/0/gpus: unknown key; did you mean 'gpu'?"},
    {"fault at two places", Where::scenario,
     R"(cluster.faults = [{"gpu": 1, "rank": 1, "compute_factor": 0.5}])",
     "x.json#/cluster/faults/0/rank: a fault is of one gpu, rank, nic or link"},
    {"misspelt fault", Where::scenario, R"(cluster.faults = [{"gpu": 1, "compute_facter": 0.5}])",
     "x.json#/cluster/faults/0/compute_facter: unknown key; did you mean 'compute_factor'?"},
    {"fault of nothing", Where::scenario, R"(cluster.faults = [{"gpu": 1}])",
     "x.json#/cluster/faults/0/gpu: is not said to have any fault"},
    {"fault of no rank", Where::scenario,
     R"(cluster.faults = [{"rank": 32, "compute_factor": 0.5}])",
     "x.json#/cluster/faults/0/rank: must be an integer from 0 to 31; got 32"},
    {"fault below its range", Where::scenario,
     R"(cluster.faults = [{"gpu": 1, "compute_factor": 0}])",
     "x.json#/cluster/faults/0/compute_factor: must be from 0.01 to 10"},
    {"delay without a unit", Where::scenario,
     R"(cluster.faults = [{"gpu": 1, "delay_per_step": 0.2}])",
     "x.json#/cluster/faults/0/delay_per_step: needs a unit (units: s, ms, us, ns)"},
    {"faults that multiply to a step of no end", Where::scenario,
     R"(cluster.faults = [{"gpu": 1, "compute_factor": 0.01}, {"rank": 1, "compute_factor": 0.5}])",
     "x.json#/cluster/faults/1/compute_factor: faults multiply: the kernels of rank 1 would take "
     "200 times as long; must be from 0.01 to 100 together"},
    {"faults that multiply to no NVLink", Where::scenario,
     R"(cluster.faults = [{"gpu": 1, "nvlink_factor": 0.03}, {"gpu": 2, "nvlink_factor": 0.03},
                          {"gpu": 1, "nvlink_factor": 0.03}])",
     "x.json#/cluster/faults/2/nvlink_factor: faults multiply: a share of 0.0009 would be left"},
    {"faults that multiply to no NIC", Where::scenario,
     R"(cluster.faults = [{"nic": "node0.nic1", "bandwidth_factor": 0.03},
                          {"gpu": 1, "nic_factor": 0.03}, {"gpu": 9, "nic_factor": 0.5}])",
     "x.json#/cluster/faults/1/nic_factor: faults multiply: a share of 0.0009 would be left"},
    {"NVLink gone", Where::scenario, R"(cluster.faults = [{"gpu": 1, "nvlink_factor": 0}])",
     "x.json#/cluster/faults/0/nvlink_factor: 0 takes the GPU off this network"},
    {"unknown NIC", Where::scenario,
     R"(cluster.faults = [{"nic": "node4.nic0", "bandwidth_factor": 0.5}])",
     "x.json#/cluster/faults/0/nic: unknown NIC 'node4.nic0'; expected node0.nic0 to node3.nic7"},
    {"NIC without a factor", Where::scenario, R"(cluster.faults = [{"nic": "node0.nic0"}])",
     "x.json#/cluster/faults/0/bandwidth_factor: is missing"},
    {"link of a regular system", Where::scenario,
     R"(cluster.faults = [{"link": ["leaf0", "spine1"], "bandwidth_factor": 0.5}])",
     "x.json#/cluster/faults/0/link: system 's' is no free-form graph"},
    {"unknown vertex", Where::scenario,
     R"(cluster = {"system": "ring-of-8", "nodes": 1, "faults": [{"link": ["gpu0", "gpu9"], "bandwidth_factor": 0}]})",
     "x.json#/cluster/faults/0/link: unknown vertex 'gpu9'; did you mean 'gpu0'?"},
    {"slowdown of some ranks", Where::scenario, "cluster.slowdown = [1, 1.2]",
     "x.json#/cluster/slowdown: must list one factor from 0.1 to 100 for each of 32 ranks; got 2"},
    {"jitter without sigma", Where::scenario, R"(cluster.jitter = {"seed": 1})",
     "x.json#/cluster/jitter/sigma: is missing"},
    {"too much jitter", Where::scenario, R"(cluster.jitter = {"sigma": 0.5})",
     "x.json#/cluster/jitter/sigma: must be from 0.0 to 0.15; got 0.5"},
    {"misspelt jitter", Where::scenario, R"(cluster.jitter = {"sigma": 0.1, "sed": 2})",
     "x.json#/cluster/jitter/sed: unknown key; did you mean 'seed'?"},
    // Zero, negative, NaN, huge.
    {"zero TP", Where::scenario, "model.tensor_model_parallel_size = 0",
     "must be an integer from 1"},
    {"negative nodes", Where::scenario, "cluster.nodes = -4",
     "x.json#/cluster/nodes: must be an integer from 1"},
    {"zero batch", Where::scenario, "train.global_batch_size = 0", "must be an integer from 1"},
    {"zero layers", Where::model, "num_hidden_layers = 0",
     "m/config.json#/num_hidden_layers: must be an integer from 1"},
    {"negative rate", Where::gpu, "memory.bandwidth = \"-1 TB/s\"",
     "g.json#/memory/bandwidth: must be greater than zero"},
    {"zero rate", Where::gpu, "gemm.bf16.peak = \"0 TFLOP/s\"",
     "g.json#/gemm/bf16/peak: must be greater than zero"},
    {"NaN rate", Where::gpu, "memory.bandwidth = \"nan TB/s\"",
     "g.json#/memory/bandwidth: is out of range"},
    {"a rate that is none", Where::system, "nic_rate = \"1e-300 GB/s\"",
     "s.json#/nic_rate: must be from 0.001 MB/s to 1e6 TB/s; got \"1e-300 GB/s\""},
    {"a rate beyond all", Where::gpu, "nvlink.bandwidth = \"1e300 GB/s\"",
     "g.json#/nvlink/bandwidth: must be from 0.001 MB/s"},
    {"a latency of years", Where::system, "nic_latency = \"1e9 s\"",
     "s.json#/nic_latency: must be from 0 to 100 s; got \"1e9 s\""},
    {"a switch of years", Where::system,
     "tiers = [{\"name\": \"leaf\", \"radix\": 32, \"latency\": \"1e300 s\"}]",
     "s.json#/tiers/0/latency: must be from 0 to 100 s"},
    {"NVLink of years", Where::gpu, "nvlink.latency = \"1e7 s\"",
     "g.json#/nvlink/latency: must be from 0 to 100 s"},
    {"memory beyond all", Where::gpu, "memory.capacity = \"1e300 GiB\"",
     "g.json#/memory/capacity: must be from 1 B to 1e6 TB"},
    {"compute beyond all", Where::gpu, "gemm.bf16.peak = \"1e300 TFLOP/s\"",
     "g.json#/gemm/bf16/peak: must be from 0.001 GFLOP/s"},
    {"efficiency above one", Where::gpu, "memory.efficiency = 1.2",
     "g.json#/memory/efficiency: must be from"},
    {"NaN in JSON", Where::text, "{\"train\": {\"global_batch_size\": NaN}}",
     "x.json:1:33: not JSON"},
    {"number beyond double", Where::text, "{\"train\": {\"global_batch_size\": 1e999}}",
     "x.json:1:3"},
    {"huge hidden size", Where::model, "hidden_size = 99999999999999",
     "m/config.json#/hidden_size: must be an integer from 1 to"},
    {"number beyond 64 bits", Where::scenario, "train.global_batch_size = 18446744073709551615",
     "must be an integer from 1"},
    {"huge cluster", Where::scenario, "cluster.nodes = 99999999999",
     "x.json#/cluster/nodes: must be an integer"},
    {"10^12 tasks", Where::scenario, "train.global_batch_size = 1000000000",
     "tasks (250000000 microbatches on 2 stages); the limit is 60000000"},
    // Sizes that do not go together.
    {"heads not divisible", Where::scenario,
     "model.tensor_model_parallel_size = 16; model.num_attention_heads = 24; model.kv_channels = "
     "128",
     "x.json#/model/tensor_model_parallel_size: must divide 24 attention heads; got 16"},
    {"world not divisible", Where::scenario, "model.context_parallel_size = 3",
     "x.json#/cluster/nodes: gives 32 GPUs, which is not a multiple of TP x PP x CP = 4 x 2 x 3 = "
     "24"},
    {"batch not divisible", Where::scenario, "train.global_batch_size = 63",
     "x.json#/train/global_batch_size: must be a multiple of micro_batch_size x DP = 1 x 4 = 4; "
     "got 63"},
    {"layers not divisible", Where::scenario, "model.num_layers = 33",
     "x.json#/model/pipeline_model_parallel_size: 33 layers do not split evenly"},
    {"VP not divisible", Where::scenario, "model.virtual_pipeline_model_parallel_size = 5",
     "x.json#/model/virtual_pipeline_model_parallel_size: must divide 16 layers per stage"},
    {"VP without PP", Where::scenario,
     "model.pipeline_model_parallel_size = 1; model.virtual_pipeline_model_parallel_size = 2",
     "needs pipeline_model_parallel_size > 1"},
    {"sequence not divisible by 2 CP", Where::scenario,
     "model.context_parallel_size = 4; dataset.seq_length = 4100; train.global_batch_size = 64",
     "x.json#/dataset/seq_length: must be a multiple of 2 x CP = 8"},
    {"sequence not divisible by TP", Where::scenario, "dataset.seq_length = 4097",
     "x.json#/dataset/seq_length: sequence / CP = 4097 must be a multiple of TP 4"},
    {"microbatch group", Where::scenario,
     "model.virtual_pipeline_model_parallel_size = 2; model.microbatch_group_size_per_vp_stage = 1",
     "PP <= microbatch group <= microbatches"},
    {"more GPUs than nodes hold", Where::scenario, "cluster.gpus = 64",
     "x.json#/cluster/gpus: must be at most nodes x GPUs per node = 4 x 8 = 32; got 64"},
    {"key/value heads", Where::model, "num_key_value_heads = 5",
     "m/config.json#/num_key_value_heads: must divide 32 attention heads; got 5"},
    {"two sequence lengths", Where::scenario, "model.seq_length = 2048",
     "x.json#/model/seq_length: must equal dataset.seq_length 4096; got 2048"},
    // What Megatron-Core and Bridge raise.
    {"p2p overlap without VP", Where::scenario, "comm_overlap.overlap_p2p_comm = true",
     "x.json#/comm_overlap/overlap_p2p_comm: needs virtual_pipeline_model_parallel_size"},
    {"both kinds of p2p", Where::scenario,
     "model.virtual_pipeline_model_parallel_size = 2; comm_overlap.batch_p2p_comm = true",
     "cannot be combined with batch_p2p_comm"},
    {"embedding deferral without limit", Where::scenario,
     "comm_overlap.defer_embedding_wgrad_compute = true",
     "x.json#/comm_overlap/wgrad_deferral_limit: must be 0"},
    {"bf16 ends with delayed scaling", Where::scenario,
     "mixed_precision = {\"recipe\": \"bf16_with_fp8_delayed_scaling_mixed\", "
     "\"first_last_layers_bf16\": true}",
     "x.json#/mixed_precision/first_last_layers_bf16: cannot be combined"},
    {"fp8 on a GPU without", Where::scenario,
     "mixed_precision = \"bf16_with_fp8_current_scaling_mixed\"",
     "x.json#/mixed_precision: recipe"},
    {"full recompute without a method", Where::scenario, "model.recompute_granularity = \"full\"",
     "x.json#/model/recompute_method: is missing"},
    // What this release does not simulate.
    {"experts", Where::model, "num_local_experts = 8",
     "m/config.json#/num_local_experts: a mixture-of-experts model"},
    {"latent attention", Where::model, "kv_lora_rank = 512",
     "m/config.json#/kv_lora_rank: multi-latent attention"},
    {"expert parallelism", Where::scenario, "model.expert_model_parallel_size = 8",
     "x.json#/model/expert_model_parallel_size: asks for expert parallelism"},
    {"FSDP", Where::scenario, "ddp.use_megatron_fsdp = true",
     "x.json#/ddp/use_megatron_fsdp: asks for fully sharded data parallelism"},
    {"MXFP8", Where::scenario, "mixed_precision = \"bf16_with_mxfp8_mixed\"",
     "x.json#/mixed_precision: 'bf16_with_mxfp8_mixed' is not simulated in this release"},
    {"recompute module", Where::scenario,
     "model.recompute_granularity = \"selective\"; model.recompute_modules = [\"moe\"]",
     "x.json#/model/recompute_modules: 'moe' is not simulated in this release; valid: core_attn, "
     "layernorm, mlp"},
    {"later schedule", Where::scenario, "pipeline.schedule = \"zb_h1\"",
     "x.json#/pipeline/schedule: 'zb_h1' is not simulated in this release"},
    // Given costs.
    {"cost per stage", Where::scenario,
     "costs = {\"forward_seconds\": [1, 2, 3], \"backward_seconds\": 2}",
     "x.json#/costs/forward_seconds: must hold PP = 2 times; got 3"},
    {"no backward", Where::scenario, "costs = {\"forward_seconds\": 1}",
     "x.json#/costs/backward_seconds: is missing"},
    {"negative cost", Where::scenario, "costs = {\"forward_seconds\": -1, \"backward_seconds\": 2}",
     "x.json#/costs/forward_seconds: must be from 0"},
    // Text that is not a scenario.
    {"truncated", Where::text, "{\"model\": {\"num_layers\": 3", "x.json:1:27: not JSON"},
    {"empty", Where::text, "", "x.json:1:1: empty file"},
    {"not JSON", Where::text, "model: llama3-70b\n", "x.json:1:1: not JSON"},
    {"error on line 3", Where::text, "{\n  \"model\": {},\n  oops\n}", "x.json:3:3: not JSON"},
    {"trailing text", Where::text, "{} {}", "x.json:1:4: not JSON"},
    {"binary", Where::text, "\x01\x02\xff", "x.json:1:1: not JSON"},
    {"invalid UTF-8", Where::text, "{\"name\": \"\xff\"}", "x.json:1:11: not JSON"},
    {"deep nesting", Where::text, "@deep", "nested deeper than 64 levels"},
    {"duplicate key", Where::text,
     "{\"train\": {\"global_batch_size\": 1, \"global_batch_size\": 2}}",
     "x.json#/train/global_batch_size: key 'global_batch_size' appears twice"},
    {"base cycle", Where::scenario, "base = \"x.json\"", "x.json#/base: a cycle of bases"},
    {"base missing", Where::scenario, "base = \"none.json\"", "x.json#/base: no such file"},
    // Files that are none.
    {"a directory", Where::path, "m", "m#: is a directory"},
    {"no such file", Where::path, "none.json", "none.json#: no such file"},
    {"an unreadable file", Where::path, "/proc/self/mem", "/proc/self/mem#: cannot be read"},
    // The command line.
    {"misspelt override", Where::command, "model.tensor_model_paralel_size=8",
     "<command line>#/model/tensor_model_paralel_size: unknown key; did you mean "
     "'tensor_model_parallel_size'?"},
    {"misspelt section", Where::command, "modle.num_layers=8",
     "<command line>#/modle: unknown key; did you mean 'model'?"},
    {"bad value", Where::command, "model.tensor_model_parallel_size=seven",
     "<command line>#/model/tensor_model_parallel_size: must be an integer from 1 to 1048576; got "
     "\"seven\""},
    {"does not divide", Where::command, "model.tensor_model_parallel_size=7",
     "is not a multiple of TP x PP x CP = 7 x 2 x 1 = 14"},
    {"no value", Where::command, "model.num_layers", "<command line>#: expected section.key=value"},
    {"not a section", Where::command, "train.micro_batch_size.x=1",
     "<command line>#/train/micro_batch_size/x: train/micro_batch_size is not a section"},
};

/// Applies "a.b = JSON; - c.d" to a copy of `good`.
inline nlohmann::json edited(nlohmann::json good, const std::string& edits) {
  for (size_t start = 0; start < edits.size();) {
    const size_t end = std::min(edits.find("; ", start), edits.size());
    const std::string edit = edits.substr(start, end - start);
    start = end + 2;
    const bool removes = edit.starts_with("- ");
    const size_t equals = edit.find(" = ");
    std::string path = removes ? edit.substr(2) : edit.substr(0, equals);
    std::replace(path.begin(), path.end(), '.', '/');
    const nlohmann::json::json_pointer pointer("/" + path);
    if (!removes) {
      good[pointer] = nlohmann::json::parse(edit.substr(equals + 3));
    } else {
      REQUIRE(good.contains(pointer));
      (pointer.parent_pointer().empty() ? good : good[pointer.parent_pointer()])
          .erase(pointer.back());
    }
  }
  return good;
}

/// A folder with the good files, one of them spoilt. Removed at the end.
class Folder {
 public:
  explicit Folder(const Case& bad) {
    static int count = 0;
    folder_ = std::filesystem::temp_directory_path() /
              ("stepsim_bad_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(folder_ / "m");
    const auto text = [&](Where where, const nlohmann::json& good) {
      return (bad.where == where ? edited(good, bad.edit) : good).dump();
    };
    write("m/config.json", text(Where::model, good_model));
    write("s.json", text(Where::system, good_system));
    write("g.json", text(Where::gpu, good_gpu));
    std::string scenario = text(Where::scenario, good_scenario);
    if (bad.where == Where::text) scenario = bad.edit;
    if (scenario == "@deep") scenario = "{\"name\": " + std::string(100000, '[');
    write("x.json", scenario);
    run_ = bad.where == Where::path ? folder_ / bad.edit : folder_ / "x.json";
    if (bad.where == Where::command) words_.emplace_back(bad.edit);
  }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(folder_); }

  std::string run() const { return run_.string(); }
  const std::vector<std::string>& words() const { return words_; }
  const std::filesystem::path& path() const { return folder_; }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::filesystem::path folder_, run_;
  std::vector<std::string> words_;
};

}  // namespace stepsim::bad
