// Law: a Megatron-LM command line becomes the sections that make the same step in Bridge's words;
// nothing is executed, nothing unknown is an error, everything misspelt is.
#include "sim/config/import_megatron.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/import_pattern.h"
#include "sim/config/read.h"

using namespace stepsim;
using nlohmann::json;

namespace {

json script(const std::string& text, const std::string& file = "x.sh") {
  return *parse_megatron(text, file).root;
}
/// A dense model's arguments, and then `more`.
json args(const std::string& more) {
  return script(
      "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
      "--max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size 64 --bf16 " +
          more,
      "x.args");
}

std::string megatron_refusal(const std::string& text, const std::string& file = "x.sh") {
  try {
    parse_megatron(text, file);
    return "accepted";
  } catch (const Error& error) {
    const std::string line = error.what();
    CHECK(line.find('\n') == std::string::npos);
    return line;
  }
}
bool holds(const std::string& line, const std::string& why) {
  INFO(line);
  CHECK(line.find(why) != std::string::npos);
  return line.find(why) != std::string::npos;
}
bool megatron_refused(const std::string& more, const std::string& why) {
  return holds(megatron_refusal("--micro-batch-size 2 --bf16 " + more, "x.args"), why);
}

}  // namespace

TEST_CASE("a command line inside a quoted word is read") {
  const json root = script(
      "OPTIONS=\"--num-layers 4 --bf16 \\\n --micro-batch-size 1\"\n"
      "srun -l sh -c \"python -u $DIR/pretrain_gpt.py ${OPTIONS}\"\n");
  CHECK(root["model"]["num_layers"] == 4);
  CHECK(script("A=(--bf16 --micro-batch-size 3)\nbash -c 'torchrun pretrain_gpt.py \"${A[@]}\"'")
            ["train"]["micro_batch_size"] == 3);
}

TEST_CASE("lines that only talk about the training script do not train") {
  const json root = script(
      "[ -f pretrain_gpt.py ] || { echo \"pretrain_gpt.py isn't there\"; exit 1; }\n"
      "python pretrain_gpt.py --bf16 --micro-batch-size 3\necho pretrain_gpt.py done\n");
  CHECK(root["train"]["micro_batch_size"] == 3);
}

TEST_CASE("elements of an array split where the shell splits them") {
  const json root = script(
      "A=( # may hold (brackets) and it's fine\n  \"--micro-batch-size 2\" --bf16 \\\n"
      "    # --fp16 \\\n  --swiglu)\npython pretrain_gpt.py ${A[@]}\n");
  CHECK(root["train"]["micro_batch_size"] == 2);
  CHECK(root["model"]["gated_linear_unit"] == true);
}

TEST_CASE("shell syntax errors name line and column") {
  CHECK(holds(megatron_refusal("A=1\nrun 'abc\n"), "x.sh:2:5: unterminated quote '"));
  CHECK(holds(megatron_refusal("run \"abc\n"), "x.sh:1:5: unterminated quote \""));
  CHECK(holds(megatron_refusal("A=(a b\n"), "x.sh:1:3: unterminated array"));
  CHECK(holds(megatron_refusal("run ${A\n"), "x.sh:1:6: unterminated '{'"));
  CHECK(holds(megatron_refusal("run $(date\n"), "x.sh:1:6: unterminated '('"));
  CHECK(holds(megatron_refusal("run \xff\n"), "x.sh:1:5: not UTF-8"));
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) doubling += "A=$A$A\n";
  CHECK(holds(megatron_refusal(doubling),
              "variables expand to more than 32 times the size of the file"));
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "${A:-";
  CHECK(holds(megatron_refusal("run " + deep + std::string(200, '}')),
              "nested deeper than 64 levels"));
}

TEST_CASE("the words that count are those of the training line") {
  const json root = script(R"(#!/bin/bash
# runs on two nodes
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_IB_SL=1 NVTE_FLASH_ATTN=1 HOME_DIR=/x
GPUS_PER_NODE=8
NUM_NODES=2
TP=${TP:-2}
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES --master_addr $HOST)
MODEL_ARGS=(
    --num-layers 16   # deep
    --hidden-size 2048 --num-attention-heads=16
    --seq-length 4096 --max-position-embeddings 4096
)
echo --num-layers 99
torchrun "${DISTRIBUTED_ARGS[@]}" examples/pretrain_gpt.py "${MODEL_ARGS[@]}" \
    --tensor-model-parallel-size $TP --sequence-parallel \
    --micro-batch-size 1 --global-batch-size $((GPUS_PER_NODE * NUM_NODES * 4)) \
    --bf16 --lr 1e-4 --save ${CKPT}/a --lr 2e-4 2>&1 | tee log
)");
  CHECK(root["model"]["num_layers"] == 16);
  CHECK(root["model"]["num_attention_heads"] == 16);
  CHECK(root["model"]["tensor_model_parallel_size"] == 2);
  CHECK(root["train"]["global_batch_size"] == 64);
  CHECK(root["dataset"]["seq_length"] == 4096);
  CHECK(root["_launch"] == json::parse(R"({"gpus_per_node": 8, "nodes": 2, "gpus": 16})"));
  CHECK(
      root["env_vars"] ==
      json::parse(R"({"CUDA_DEVICE_MAX_CONNECTIONS": 1, "NCCL_IB_SL": 1, "NVTE_FLASH_ATTN": 1})"));
  CHECK(root["_not_modelled"] == json::parse(R"(["--lr", "--save"])"));
  CHECK(root["_dialect"] == "megatron-lm");
}

TEST_CASE("without a training line all arguments count, those in variables too") {
  CHECK(script("GPT_ARGS=\"--num-layers 4 --bf16\"\nOTHER=(--micro-batch-size 2 --swiglu)\n"
               "HOSTS=(a b)\nX=y\n")["model"]["num_layers"] == 4);
  CHECK(args("\n--tensor-model-parallel-size\n4\n# comment\n")["model"]
                                                              ["tensor_model_parallel_size"] == 4);
  // In an argument file brackets and bars are text.
  CHECK(args("--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*2|(t|)*2,tL")
            ["model"]["pipeline_model_parallel_layout"] == "Et*2|(t|)*2,tL");
  CHECK(holds(megatron_refusal("ls -l\n"), "holds no Megatron-LM arguments"));
  CHECK(holds(megatron_refusal(""), "holds no Megatron-LM arguments"));
}

TEST_CASE("launch sizes and the batch that follows from them") {
  const auto launch = [](const std::string& text) {
    return script(text + " pretrain_gpt.py --micro-batch-size 2 --bf16\n")["_launch"];
  };
  CHECK(launch("torchrun --nproc-per-node=4 --nnodes=3") ==
        json::parse(R"({"gpus_per_node": 4, "nodes": 3, "gpus": 12})"));
  CHECK(launch("torchrun --nproc_per_node 4") == json::parse(R"({"gpus_per_node": 4})"));
  CHECK(launch("torchrun --nproc_per_node gpu --nnodes 1:4") == json::object());
  CHECK(launch("GPUS_PER_NODE=8\nWORLD_SIZE=32\npython") ==
        json::parse(R"({"gpus_per_node": 8, "nodes": 4, "gpus": 32})"));
  CHECK(launch("WORLD_SIZE=$(($SLURM_NNODES*8))\npython") == json::object());
  // One microbatch a rank when no global batch is given.
  const json root = script(
      "torchrun --nproc-per-node=8 --nnodes=2 pretrain_gpt.py --bf16 --micro-batch-size 3 "
      "--tensor-model-parallel-size 4\n");
  CHECK(root["train"]["global_batch_size"] == 12);
}

TEST_CASE("what Megatron-LM assumes is written out") {
  const json root = args("");
  CHECK(root["model"] == json::parse(R"({
    "num_layers": 8, "hidden_size": 1024, "num_attention_heads": 16, "max_position_embeddings": 2048,
    "share_embeddings_and_output_weights": true, "add_bias_linear": true, "add_qkv_bias": true,
    "gated_linear_unit": false, "activation_func": "gelu", "normalization": "LayerNorm",
    "position_embedding_type": "learned_absolute", "apply_rope_fusion": false, "hidden_dropout": 0.1,
    "attention_dropout": 0.1, "should_pad_vocab": true, "overlap_p2p_comm": false,
    "batch_p2p_comm": true, "deallocate_pipeline_outputs": true, "cross_entropy_loss_fusion": false,
    "gradient_accumulation_fusion": true, "cuda_graph_impl": "none"})"));
  CHECK(root["ddp"] == json::parse(R"({
    "use_distributed_optimizer": false, "overlap_grad_reduce": false, "overlap_param_gather": false,
    "overlap_param_gather_with_optimizer_step": false, "align_grad_reduce": true,
    "align_param_gather": false, "average_in_collective": false, "bucket_size": null})"));
  CHECK(root["mixed_precision"] == json::parse(R"({
    "recipe": "bf16_mixed", "grad_reduce_in_fp32": true, "fp8_param_gather": false,
    "first_last_layers_bf16": false})"));
  CHECK(root["optimizer"] ==
        json::parse(R"({"optimizer": "adam", "use_distributed_optimizer": false})"));
  CHECK(root["train"] == json::parse(R"({"micro_batch_size": 2, "global_batch_size": 64})"));
  CHECK(!root.contains("comm_overlap"));
}

TEST_CASE("architecture") {
  const auto model = [](const std::string& more) { return args(more)["model"]; };
  CHECK(model("--swiglu")["activation_func"] == "silu");
  CHECK(model("--swiglu")["ffn_hidden_size"] == 2688);  // int(4*1024*2/3/64)*64
  CHECK(model("--swiglu --ffn-hidden-size 3000")["ffn_hidden_size"] == 3000);
  CHECK(model("--squared-relu")["activation_func"] == "squared_relu");
  CHECK(model("--quick-geglu")["gated_linear_unit"] == true);
  CHECK(model("--normalization RMSNorm")["normalization"] == "RMSNorm");
  CHECK(model("--disable-bias-linear")["add_qkv_bias"] == false);
  CHECK(model("--disable-bias-linear --add-qkv-bias")["add_qkv_bias"] == true);
  CHECK(model("--untie-embeddings-and-output-weights")["share_embeddings_and_output_weights"] ==
        false);
  CHECK(model("--group-query-attention --num-query-groups 4")["num_query_groups"] == 4);
  CHECK(model("--group-query-attention")["num_query_groups"] == 1);
  CHECK(!model("--num-query-groups 4").contains("num_query_groups"));
  CHECK(args("--num-query-groups 4")["_not_modelled"] == json::parse(R"(["--num-query-groups"])"));
  CHECK(model("--position-embedding-type rope")["apply_rope_fusion"] == true);
  CHECK(model("--position-embedding-type rope --no-rope-fusion")["apply_rope_fusion"] == false);
  CHECK(model("--use-rotary-position-embeddings")["position_embedding_type"] == "rope");
  CHECK(model("--hidden-dropout 0.0")["hidden_dropout"] == 0.0);
  CHECK(model("--qk-layernorm --kv-channels 96")["kv_channels"] == 96);
  CHECK(model("--vocab-size 1000")["vocab_size"] == 1000);
  CHECK(model("--vocab-size 1000 --tokenizer-type NullTokenizer")["vocab_size"] == 1001);
  CHECK(model("--tokenizer-type GPT2BPETokenizer")["vocab_size"] == 50257);
  CHECK(model("--padded-vocab-size 51200")["should_pad_vocab"] == false);
  CHECK(!model("").contains("num_moe_experts"));
  const json moe = model(
      "--num-experts 8 --tensor-model-parallel-size 2 --moe-layer-freq '([0]*2+[1]*6)' "
      "--moe-aux-loss-coeff 1e-2 --expert-model-parallel-size 4");
  CHECK(moe["num_moe_experts"] == 8);
  CHECK(moe["expert_tensor_parallel_size"] == 2);  // Megatron-Core's default
  CHECK(moe["moe_router_topk"] == 2);
  CHECK(moe["moe_token_dispatcher_type"] == "allgather");
  CHECK(moe["moe_ffn_hidden_size"] == 4096);
  CHECK(moe["moe_layer_freq"] == json::parse("[0,0,1,1,1,1,1,1]"));
  CHECK(*layer_pattern("[1]*2+[0,1]") == json::parse("[1,1,0,1]"));
  CHECK(*layer_pattern("3") == 3);
  CHECK(!layer_pattern("[1]*100000"));
  CHECK(!layer_pattern("__import__('os')"));
  const json latent = model("--multi-latent-attention --kv-lora-rank 512 --q-lora-rank 1536");
  CHECK(latent["kv_lora_rank"] == 512);
  CHECK(latent["qk_head_dim"] == 128);
  CHECK(latent["qk_pos_emb_head_dim"] == 64);
}

TEST_CASE("pipeline") {
  const auto model = [](const std::string& more) {
    return args("--pipeline-model-parallel-size 4 " + more)["model"];
  };
  const char* vp = "virtual_pipeline_model_parallel_size";
  CHECK(model("--num-layers-per-virtual-pipeline-stage 1")[vp] == 2);
  CHECK(model("--num-virtual-stages-per-pipeline-rank 2")[vp] == 2);
  CHECK(model("--num-virtual-stages-per-pipeline-rank 2")["overlap_p2p_comm"] == true);
  CHECK(model("--num-virtual-stages-per-pipeline-rank 2")["batch_p2p_comm"] == false);
  CHECK(args("--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2")
            ["ddp"]["align_param_gather"] == true);
  const json plain =
      model("--num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication");
  CHECK(plain["overlap_p2p_comm"] == false);
  CHECK(plain["batch_p2p_comm"] == true);
  CHECK(!model("--num-layers-per-virtual-pipeline-stage 2").contains(vp));  // one chunk is none
  CHECK(model("--num-layers 7 --account-for-loss-in-pipeline-split "
              "--num-layers-per-virtual-pipeline-stage 1")[vp] == 2);
  CHECK(model("--decoder-first-pipeline-num-layers 2")["num_layers_in_first_pipeline_stage"] == 2);
  CHECK(model("--microbatch-group-size-per-virtual-pipeline-stage 8")
            ["microbatch_group_size_per_vp_stage"] == 8);
  const std::string half = "--pipeline-model-parallel-size 2 --num-layers 8 ";
  CHECK(megatron_refused(
      half + "--num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication",
      "#/--no-overlap-p2p-communication: needs --pipeline-model-parallel-size above 2"));
  CHECK(megatron_refused(half + "--num-layers-per-virtual-pipeline-stage 3",
                         "#/--num-layers-per-virtual-pipeline-stage: must divide"));
}

TEST_CASE("precision, data parallelism, overlap, recomputation, kernels") {
  const auto of = [](const std::string& more, const char* section) { return args(more)[section]; };
  const char *mixed = "mixed_precision", *model = "model", *ddp = "ddp";
  CHECK(of("--grad-reduce-in-bf16", mixed)["grad_reduce_in_fp32"] == false);
  CHECK(of("--main-grads-dtype bf16", mixed)["grad_reduce_in_fp32"] == false);
  const std::string half = "--micro-batch-size 1 --fp16 ";
  CHECK(script(half)[mixed]["recipe"] == "fp16_mixed");
  CHECK(script(half)[mixed]["grad_reduce_in_fp32"] == false);
  CHECK(script(half + "--accumulate-allreduce-grads-in-fp32")[mixed]["grad_reduce_in_fp32"] ==
        true);
  CHECK(of("--fp8-format hybrid", mixed)["fp8_recipe"] == "delayed");
  CHECK(of("--fp8-format e4m3 --fp8-recipe tensorwise", mixed)["fp8"] == "e4m3");
  CHECK(!of("--fp8-recipe tensorwise", mixed).contains("fp8_recipe"));  // nothing is fp8
  CHECK(of("--first-last-layers-bf16 --num-layers-at-end-in-bf16 2",
           mixed)["num_layers_at_end_in_bf16"] == 2);
  CHECK(of("--use-distributed-optimizer", "optimizer")["use_distributed_optimizer"] == true);
  const json sharded =
      of("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
         "--ddp-bucket-size 40000000 --ddp-average-in-collective --no-align-grad-reduce",
         ddp);
  CHECK(sharded["overlap_param_gather"] == true);
  CHECK(sharded["bucket_size"] == 40000000);
  CHECK(sharded["average_in_collective"] == true);
  CHECK(sharded["align_grad_reduce"] == false);
  const std::string tp = "--tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap ";
  CHECK(of(tp, model)["tp_comm_overlap"] == true);
  CHECK(of(tp + "--disable-tp-comm-overlap-rs", model)["tp_comm_overlap_rs"] == false);
  CHECK(of(tp + "--disable-tp-comm-bulk-wgrad", model)["tp_comm_bulk_wgrad"] == false);
  CHECK(of("--defer-embedding-wgrad-compute --wgrad-deferral-limit 4",
           model)["wgrad_deferral_limit"] == 4);
  CHECK(of("--delay-wgrad-compute", model)["delay_wgrad_compute"] == true);
  CHECK(of("--recompute-activations", model)["recompute_granularity"] == "selective");
  CHECK(of("--recompute-granularity full --recompute-method block --recompute-num-layers 2",
           model)["recompute_method"] == "block");
  CHECK(of("--recompute-modules core_attn mlp", model)["recompute_modules"] ==
        json::parse(R"(["core_attn", "mlp"])"));
  CHECK(of("--cp-comm-type a2a", model)["cp_comm_type"] == "a2a");
  CHECK(of("--cp-comm-type p2p a2a", model)["cp_comm_type"] == json::parse(R"(["p2p", "a2a"])"));
  CHECK(of("--enable-cuda-graph", model)["cuda_graph_impl"] == "local");
  CHECK(of("--external-cuda-graph", model)["cuda_graph_impl"] == "transformer_engine");
  CHECK(of("--cuda-graph-impl local --cuda-graph-scope full_iteration",
           model)["cuda_graph_scope"] == json::parse(R"(["full_iteration"])"));
  CHECK(of("--cross-entropy-loss-fusion --cross-entropy-fusion-impl te",
           model)["cross_entropy_fusion_impl"] == "te");
  CHECK(of("--no-gradient-accumulation-fusion", model)["gradient_accumulation_fusion"] == false);
}

TEST_CASE("wrong arguments are one Error at the flag") {
  CHECK(
      megatron_refused("--num-layers abc", "x.args#/--num-layers: must be an integer; got 'abc'"));
  CHECK(megatron_refused("--num-layers=1.5", "#/--num-layers: must be an integer; got '1.5'"));
  CHECK(megatron_refused("--num-layers", "#/--num-layers: needs a value"));
  CHECK(megatron_refused("--num-layers 1 2", "#/--num-layers: takes one value; got '1' and '2'"));
  CHECK(megatron_refused("--num-layers $N",
                         "#/--num-layers: its value is $N, which this file does not set"));
  CHECK(megatron_refused("--num-layers $1", "#/--num-layers: its value is $1"));
  CHECK(megatron_refused("--hidden-dropout much", "#/--hidden-dropout: must be a number"));
  CHECK(megatron_refused("--swiglu yes", "#/--swiglu: takes no value; got 'yes'"));
  CHECK(megatron_refused("--normalization RmsNorm",
                         "unknown name 'RmsNorm'; did you mean 'RMSNorm'?"));
  CHECK(megatron_refused("--tensor-model-paralel-size 2",
                         "did you mean '--tensor-model-parallel-size'?"));
  CHECK(
      megatron_refused("--sequence-paralell", "#/--sequence-paralell: unknown flag; did you mean"));
  CHECK(megatron_refused("--num_layers 2", "did you mean '--num-layers'?"));
  CHECK(megatron_refused("\"--num-layers 2\"", "flag and value are one word"));
  CHECK(megatron_refused("--overlap-param-gather --overlap-grad-reduce",
                         "needs --use-distributed-optimizer"));
  CHECK(megatron_refused("--overlap-param-gather --use-distributed-optimizer",
                         "needs --overlap-grad-reduce"));
  CHECK(megatron_refused("--tp-comm-overlap",
                         "#/--tp-comm-overlap: needs --tensor-model-parallel-size"));
  CHECK(megatron_refused("--swiglu --squared-relu", "cannot be combined with --swiglu"));
  CHECK(megatron_refused("--fp16", "#/--fp16: cannot be combined with --bf16"));
  CHECK(megatron_refused("--seq-length 4096 --max-position-embeddings 2048",
                         "must be at least --seq-length"));
  CHECK(megatron_refused("--num-experts 8 --moe-layer-freq all",
                         "#/--moe-layer-freq: must be an integer or"));
  CHECK(holds(megatron_refusal("--bf16", "x.args"), "x.args#/--micro-batch-size: is missing"));
  CHECK(holds(megatron_refusal("--micro-batch-size 1", "x.args"), "x.args#/--bf16: is missing"));
  std::string many;
  for (int i = 0; i < 2001; ++i) many += " --other-" + std::to_string(i);
  CHECK(megatron_refused(many, "is one unknown flag too many; the limit is 2000"));
  CHECK(megatron_refused(std::string(max_script_bytes, ' '),
                         "limit of 1024 KiB for a launch script"));
  // Other programs' flags are listed, each once, and their values do not matter.
  CHECK(
      args("--wandb-project a b c --wandb-project d --x-y=3 --exit-interval $N")["_not_modelled"] ==
      json::parse(R"(["--wandb-project", "--x-y", "--exit-interval"])"));
}

TEST_CASE("an argument file reads as a scenario that lacks only its cluster") {
  const Document document = parse_megatron(
      "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
      "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --bf16 "
      "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 "
      "--tensor-model-parallel-size 2 --sequence-parallel --tokenizer-type GPT2BPETokenizer "
      "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather\n",
      "x.args");
  const Scenario scenario =
      read_scenario_text(document.root->dump(), "x.json", {}, "dgx-h100:2", find_data());
  CHECK(scenario.parallel.vp == 2);
  CHECK(scenario.parallel.dp == 2);
  CHECK(scenario.overlap.overlap_p2p);
  CHECK(scenario.overlap.align_param_gather);
  CHECK(scenario.overlap.overlap_grad_reduce);
  CHECK(scenario.data_parallel.bucket_size == 40'000'000);  // Megatron-Core's own
  CHECK(scenario.cross_entropy == CrossEntropy::unfused);
  CHECK(scenario.model.linear_bias);
  CHECK(scenario.model.hidden_dropout);
  CHECK(scenario.model.tied_embeddings);
  for (const Finding& finding : scenario.findings) CHECK(finding.kind != Finding::Kind::silent);
}
