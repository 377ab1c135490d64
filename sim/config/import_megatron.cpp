#include "sim/config/import_megatron.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "sim/base/error.h"
#include "sim/config/import_launch.h"
#include "sim/config/import_megatron_args.h"
#include "sim/config/import_pattern.h"
#include "sim/config/import_shell.h"
#include "sim/config/import_text.h"

namespace stepsim {
namespace {

using nlohmann::json;

/// The arguments of one command line and the sections they become. What arguments.py derives or
/// defaults in validate_args() is derived here, section by section.
class Conversion {
 public:
  Conversion(json arguments, const std::string& file, json& root)
      : arguments_(std::move(arguments)), file_(file), root_(root) {}

  void run() {
    write_arguments(arguments_, root_);
    require("--micro-batch-size", "Megatron-LM has no default for it");
    batch();
    mesh();
    architecture();
    activation();
    vocabulary();
    if (count("--num-experts").value_or(0) > 0) experts();
    if (on("--multi-latent-attention")) latent_attention();
    precision();
    data_parallel();
    kernels();
  }

 private:
  bool on(const char* flag) const {
    const auto found = arguments_.find(flag);
    return found != arguments_.end() && found->get<bool>();
  }
  /// A switch whose flag turns it off.
  bool unless(const char* flag) const { return !arguments_.contains(flag); }
  std::optional<std::string> text(const char* flag) const {
    const auto found = arguments_.find(flag);
    if (found == arguments_.end()) return std::nullopt;
    return found->get<std::string>();
  }
  /// A size that arithmetic is done with here.
  std::optional<int64_t> count(const char* flag, int64_t low = 0) const {
    const auto found = arguments_.find(flag);
    if (found == arguments_.end()) return std::nullopt;
    const bool fits =
        found->is_number_unsigned() ? found->get<uint64_t>() <= INT32_MAX : found->is_number();
    const int64_t value = fits ? found->get<int64_t>() : 0;
    if (!fits || value < low || value > INT32_MAX)
      fail(flag, "must be an integer from " + std::to_string(low) + " to " +
                     std::to_string(INT32_MAX) + "; got " + printable(found->dump(), 40));
    return value;
  }
  [[noreturn]] void fail(const std::string& flag, const std::string& message) const {
    throw Error(file_, "/" + flag, message);
  }
  void require(const char* flag, const std::string& why) const {
    if (!arguments_.contains(flag)) fail(flag, "is missing; " + why);
  }
  json& model(const char* key) { return root_["model"][key]; }

  void batch() {
    const auto length = count("--seq-length", 1), older = count("--encoder-seq-length", 1);
    if (!length && !older) return;
    const int64_t sequence = length ? *length : *older;
    root_["dataset"]["seq_length"] = sequence;
    const char* positions = "--max-position-embeddings";
    if (const auto most = count(positions, 1); most && *most < sequence)
      fail(positions, "must be at least --seq-length " + std::to_string(sequence) + "; got " +
                          std::to_string(*most));
  }

  void mesh() {
    const int64_t pp = count("--pipeline-model-parallel-size", 1).value_or(1);
    if (!arguments_.contains("--num-layers"))
      if (const auto older = count("--encoder-num-layers", 1)) model("num_layers") = *older;
    std::optional<int64_t> vp = count("--num-virtual-stages-per-pipeline-rank", 1);
    const char* per_chunk_flag = "--num-layers-per-virtual-pipeline-stage";
    const auto per_chunk = count(per_chunk_flag, 1);
    if (vp && per_chunk)
      fail(per_chunk_flag, "cannot be combined with --num-virtual-stages-per-pipeline-rank");
    if (per_chunk) {
      for (const char* uneven :
           {"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"})
        if (arguments_.contains(uneven))
          fail(per_chunk_flag, "cannot be combined with " + std::string(uneven) +
                                   "; give --num-virtual-stages-per-pipeline-rank");
      const auto written = count("--num-layers", 1);
      const auto layers_given = written ? written : count("--encoder-num-layers", 1);
      if (!layers_given) fail(per_chunk_flag, "needs --num-layers");
      const int64_t layers = *layers_given +
                             (on("--account-for-embedding-in-pipeline-split") ? 1 : 0) +
                             (on("--account-for-loss-in-pipeline-split") ? 1 : 0);
      if (layers % pp != 0 || layers / pp % *per_chunk != 0)
        fail(per_chunk_flag,
             "must divide the layers of a pipeline stage: " + std::to_string(layers) +
                 " layers on " + std::to_string(pp) + " stages; got " + std::to_string(*per_chunk));
      vp = layers / pp / *per_chunk;
    }
    // One chunk is no interleaving for Megatron-LM; with a layout the reader derives the chunks.
    if (vp && *vp > 1) model("virtual_pipeline_model_parallel_size") = *vp;
    const bool interleaved =
        (vp && *vp > 1) || arguments_.contains("--pipeline-model-parallel-layout");
    const bool overlapped = interleaved && unless("--no-overlap-p2p-communication");
    if (vp && *vp > 1 && !overlapped && pp <= 2)
      fail("--no-overlap-p2p-communication",
           "needs --pipeline-model-parallel-size above 2 with virtual stages; got " +
               std::to_string(pp));
    model("overlap_p2p_comm") = overlapped;
    model("batch_p2p_comm") = !overlapped;
    model("deallocate_pipeline_outputs") = true;
    root_["ddp"]["align_param_gather"] = interleaved && unless("--no-align-param-gather");
    if (const auto kinds = arguments_.find("--cp-comm-type"); kinds != arguments_.end())
      model("cp_comm_type") = kinds->size() == 1 ? kinds->front() : *kinds;
    // Without tensor parallelism Megatron-LM clears sequence parallelism first.
    if (on("--tp-comm-overlap") &&
        (count("--tensor-model-parallel-size", 1).value_or(1) == 1 || !on("--sequence-parallel")))
      fail("--tp-comm-overlap",
           "needs --tensor-model-parallel-size above 1 and --sequence-parallel");
  }

  void architecture() {
    model("share_embeddings_and_output_weights") = !on("--untie-embeddings-and-output-weights");
    const bool bias = unless("--disable-bias-linear");
    model("add_bias_linear") = bias;
    model("add_qkv_bias") = bias || on("--add-qkv-bias");
    if (on("--group-query-attention"))
      model("num_query_groups") = count("--num-query-groups", 1).value_or(1);
    json& section = root_["model"];
    section.emplace("normalization", "LayerNorm");
    section.emplace("hidden_dropout", 0.1);
    section.emplace("attention_dropout", 0.1);
    const std::string position =
        on("--use-rotary-position-embeddings")
            ? "rope"
            : text("--position-embedding-type").value_or("learned_absolute");
    section["position_embedding_type"] = position;
    section["apply_rope_fusion"] = position == "rope" && unless("--no-rope-fusion");
    if (count("--cpu-offloading-num-layers").value_or(0) > 0) {
      section["cpu_offloading"] = true;
      section["cpu_offloading_num_layers"] = arguments_["--cpu-offloading-num-layers"];
    }
    if (count("--mtp-num-layers") == 0) section.erase("mtp_num_layers");
  }

  void activation() {
    const bool swiglu = on("--swiglu"), quick = on("--quick-geglu"), squared = on("--squared-relu");
    if (squared && (swiglu || quick))
      fail("--squared-relu",
           std::string("cannot be combined with ") + (swiglu ? "--swiglu" : "--quick-geglu"));
    if (swiglu && quick) fail("--quick-geglu", "cannot be combined with --swiglu");
    model("gated_linear_unit") = swiglu || quick;
    model("activation_func") = swiglu    ? "silu"
                               : quick   ? "quick_gelu"
                               : squared ? "squared_relu"
                                         : "gelu";
    const auto hidden = count("--hidden-size", 1);
    // Two thirds of 4 x hidden in multiples of 64 keep a gated MLP's parameters where they were.
    if (hidden && swiglu && !arguments_.contains("--ffn-hidden-size"))
      model("ffn_hidden_size") = 8 * *hidden / 3 / 64 * 64;
  }

  void vocabulary() {
    const std::string tokenizer = text("--tokenizer-type").value_or("");
    if (const auto padded = count("--padded-vocab-size", 1)) {
      model("vocab_size") = *padded;
      model("should_pad_vocab") = false;
      return;
    }
    model("should_pad_vocab") = true;
    if (const auto size = count("--vocab-size", 1)) {
      // _NullTokenizer adds the end of document (megatron/training/tokenizer/tokenizer.py).
      model("vocab_size") = *size + (tokenizer == "NullTokenizer" ? 1 : 0);
      return;
    }
    // Entries of the vocabulary that the tokenizer's name stands for: gpt2-vocab.json
    // (huggingface.co/openai-community/gpt2), tokenizer.model of huggingface.co/meta-llama.
    if (tokenizer == "GPT2BPETokenizer") model("vocab_size") = 50257;
    if (tokenizer == "Llama2Tokenizer") model("vocab_size") = 32000;
  }

  void experts() {
    json& section = root_["model"];
    section["num_moe_experts"] = arguments_["--num-experts"];
    const auto or_default = [&](const char* key, const char* flag, const json& otherwise) {
      section[key] = arguments_.contains(flag) ? arguments_[flag] : otherwise;
    };
    // Bridge's default is 1, Megatron-Core's the tensor-parallel size.
    or_default("expert_tensor_parallel_size", "--expert-tensor-parallel-size",
               count("--tensor-model-parallel-size", 1).value_or(1));
    or_default("moe_router_topk", "--moe-router-topk", 2);
    or_default("moe_token_dispatcher_type", "--moe-token-dispatcher-type", "allgather");
    const auto hidden = count("--hidden-size", 1);
    or_default("moe_ffn_hidden_size", "--moe-ffn-hidden-size",
               section.contains("ffn_hidden_size") ? section["ffn_hidden_size"]
               : hidden                            ? json(4 * *hidden)
                                                   : json(nullptr));
    if (const auto pattern = text("--moe-layer-freq")) {
      const std::optional<json> layers = layer_pattern(*pattern);
      if (!layers)
        fail("--moe-layer-freq", "must be an integer or a list such as ([0]*3+[1]*58); got '" +
                                     printable(*pattern, 60) + "'");
      section["moe_layer_freq"] = *layers;
    }
  }

  void latent_attention() {
    for (const auto& [key, flag, otherwise] : {std::tuple{"kv_lora_rank", "--kv-lora-rank", 32},
                                               {"qk_head_dim", "--qk-head-dim", 128},
                                               {"qk_pos_emb_head_dim", "--qk-pos-emb-head-dim", 64},
                                               {"v_head_dim", "--v-head-dim", 128}})
      model(key) = count(flag, 1).value_or(otherwise);
  }

  void precision() {
    const bool half = on("--fp16"), brain = on("--bf16");
    if (half && brain) fail("--fp16", "cannot be combined with --bf16");
    if (!half && !brain)
      fail("--bf16",
           "is missing; without it and --fp16 Megatron-LM trains in fp32, which is not "
           "simulated");
    json& section = root_["mixed_precision"];
    section["recipe"] = brain ? "bf16_mixed" : "fp16_mixed";
    // bf16 gradients are accumulated and reduced in fp32 unless told otherwise.
    const bool asked = on("--accumulate-allreduce-grads-in-fp32");
    const bool main_fp32 = text("--main-grads-dtype").value_or("fp32") == "fp32";
    section["grad_reduce_in_fp32"] =
        brain ? !on("--grad-reduce-in-bf16") && (asked || main_fp32) : asked;
    section["fp8_param_gather"] = on("--fp8-param-gather");
    section["first_last_layers_bf16"] = on("--first-last-layers-bf16");
    if (section.contains("fp8")) section["fp8_recipe"] = text("--fp8-recipe").value_or("delayed");
    if (section.contains("fp4")) section["fp4_recipe"] = text("--fp4-recipe").value_or("nvfp4");
  }

  void data_parallel() {
    json &ddp = root_["ddp"], &optimizer = root_["optimizer"];
    const bool sharded = on("--use-distributed-optimizer");
    const bool fsdp = on("--use-megatron-fsdp") || on("--use-custom-fsdp");
    const bool gather = on("--overlap-param-gather");
    if (gather && !sharded && !fsdp)
      fail("--overlap-param-gather", "needs --use-distributed-optimizer");
    if (gather && !on("--overlap-grad-reduce"))
      fail("--overlap-param-gather", "needs --overlap-grad-reduce");
    const char* with_step = "--overlap-param-gather-with-optimizer-step";
    if (on(with_step) && !gather) fail(with_step, "needs --overlap-param-gather");
    if (on(with_step) && !root_["model"].contains("virtual_pipeline_model_parallel_size") &&
        !arguments_.contains("--pipeline-model-parallel-layout"))
      fail(with_step, "needs virtual pipeline stages");
    if (on("--fp8-param-gather") && !sharded && !fsdp && !on("--use-torch-fsdp2"))
      fail("--fp8-param-gather", "needs --use-distributed-optimizer");
    ddp["use_distributed_optimizer"] = sharded;
    ddp["overlap_param_gather"] = gather;
    ddp["overlap_param_gather_with_optimizer_step"] = on(with_step);
    ddp.emplace("overlap_grad_reduce", false);
    ddp.emplace("align_grad_reduce", true);
    ddp.emplace("average_in_collective", false);
    ddp.emplace("bucket_size", nullptr);
    optimizer["optimizer"] = text("--optimizer").value_or("adam");
    optimizer["use_distributed_optimizer"] = sharded;
  }

  void kernels() {
    json& section = root_["model"];
    // Off unless asked for; Bridge's GPT provider has it on.
    section["cross_entropy_loss_fusion"] = on("--cross-entropy-loss-fusion");
    section.emplace("gradient_accumulation_fusion", true);
    const bool local = on("--enable-cuda-graph"), external = on("--external-cuda-graph");
    if (local && external)
      fail("--external-cuda-graph", "cannot be combined with --enable-cuda-graph");
    section["cuda_graph_impl"] = text("--cuda-graph-impl")
                                     .value_or(local      ? "local"
                                               : external ? "transformer_engine"
                                                          : "none");
    if (on("--recompute-activations")) section["recompute_granularity"] = "selective";
    if (on("--moe-layer-recompute") && !section.contains("recompute_granularity")) {
      section["recompute_granularity"] = "selective";
      section["recompute_modules"] = json::array({"moe"});
    }
  }

  json arguments_;
  const std::string& file_;
  json& root_;
};

/// Words of a file in which no line trains: what its variables hold, then all its command lines.
std::vector<ShellWord> all_words(const ShellScript& script, const std::string& file, bool plain) {
  // A bare "--" ends the values of the flag in front of it.
  const ShellWord end{"--", ""};
  std::vector<ShellWord> words;
  const auto add = [&](const std::vector<ShellWord>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  for (const auto& [name, value] : script.variables) {
    if (value.size() == 1 && value.front().text.find("--") != std::string::npos)
      for (const ShellCommand& line : read_shell(value.front().text, file, true, "").commands)
        add(line.words);
    if (value.size() > 1) add(value);
    words.push_back(end);
  }
  for (const ShellCommand& command : script.commands) {
    add(command.words);
    if (!plain) words.push_back(end);
  }
  return words;
}

/// Without --global-batch-size Megatron-LM runs one microbatch a rank, which needs the world.
void default_batch(json& root) {
  json& train = root["train"];
  if (train.contains("global_batch_size") || !root["_launch"].contains("gpus")) return;
  const auto size = [&](const char* key) {
    const json& model = root["model"];
    const auto found = model.find(key);
    const bool valid = found != model.end() && found->is_number_integer();
    const int64_t value = valid ? found->get<int64_t>() : 1;
    return value >= 1 && value <= (1 << 20) ? value : 1;
  };
  const int64_t ranks = size("tensor_model_parallel_size") * size("pipeline_model_parallel_size") *
                        size("context_parallel_size");
  const int64_t gpus = root["_launch"]["gpus"].get<int64_t>();
  const int64_t micro = train["micro_batch_size"].get<int64_t>();
  if (gpus % ranks == 0 && micro >= 1 && micro <= (1 << 20))
    train["global_batch_size"] = gpus / ranks * micro;
}

}  // namespace

Document parse_megatron(const std::string& text, const std::string& file) {
  if (text.size() > max_script_bytes)
    throw Error(file, "",
                "is larger than the limit of " + std::to_string(max_script_bytes >> 10) +
                    " KiB for a launch script");
  check_text(text, file);
  const bool plain = file.ends_with(".args");
  const ShellScript script = read_shell(text, file, plain, "pretrain_");
  const TrainingCommand training = training_command(script);
  std::vector<ShellWord> launcher, words;
  if (training.command != nullptr) {
    const auto middle =
        training.command->words.begin() + static_cast<std::ptrdiff_t>(training.arguments);
    launcher.assign(training.command->words.begin(), middle);
    words.assign(middle, training.command->words.end());
  } else {
    words = launcher = all_words(script, file, plain);
  }
  json not_modelled;
  json arguments = read_arguments(words, file, not_modelled);
  // Megatron-LM reads the number of groups only with the switch.
  if (arguments.contains("--num-query-groups") && !arguments.contains("--group-query-attention"))
    not_modelled.push_back("--num-query-groups");
  if (arguments.empty())
    throw Error(file, "",
                "holds no Megatron-LM arguments; expected words such as --num-layers 32, or a line "
                "that runs pretrain_*.py");
  Document document{.file = file, .root = std::make_shared<json>(json::object()), .origins = {}};
  json& root = *document.root;
  Conversion(std::move(arguments), file, root).run();
  if (json values = environment(script, training); !values.empty())
    root["env_vars"] = std::move(values);
  root["_launch"] = launch_sizes(script, launcher);
  default_batch(root);
  root["_dialect"] = "megatron-lm";
  root["_not_modelled"] = std::move(not_modelled);
  return document;
}

bool looks_like_megatron(const std::string& text) {
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = std::string_view(text).substr(start, end - start);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const size_t script = line.find("pretrain_");
    if (line.starts_with("#!") || (line.starts_with("--") && line.size() > 3 && line[2] != '-') ||
        (script != std::string_view::npos && line.find(".py", script) != std::string_view::npos))
      return true;
    start = end + 1;
  }
  return false;
}

}  // namespace stepsim
