// Architectures: Hugging Face files as they are, and the exact number of parameters they stand for.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/config/document.h"
#include "sim/config/model_read.h"
#include "tests/config/small.h"

using namespace stepsim;

namespace {

Model architecture(const std::string& text) {
  const Document document = parse_document(text, "config.json");
  return read_architecture(Reader(document, ""), "m");
}

}  // namespace

// Counts as published with the weights (safetensors metadata on Hugging Face; GPT-2 from its
// paper's repository).
TEST_CASE("exact parameter counts") {
  struct Row {
    const char* text;
    int64_t parameters;
  };
  for (
      const Row& row :
      {// meta-llama/Meta-Llama-3-8B
       Row{R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
                   "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "rope_scaling": null})",
           8030261248},
       // meta-llama/Meta-Llama-3-70B
       {R"({"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
                "num_key_value_heads": 8, "vocab_size": 128256})",
        70553706496},
       // meta-llama/Llama-2-7b
       {R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "vocab_size": 32000})",
        6738415616},
       // meta-llama/Llama-3.2-1B: tied embeddings, head dim 64
       {R"({"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "head_dim": 64,
                "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": true})",
        1235814400},
       // mistralai/Mistral-7B-v0.1
       {R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
                "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": 4096})",
        7241732096},
       // Qwen/Qwen2.5-7B: biases on q, k, v
       {R"({"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28,
                "num_key_value_heads": 4, "vocab_size": 152064})",
        7615616512},
       // Qwen/Qwen3-8B: q and k norms, head dim given
       {R"({"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "head_dim": 128,
                "num_key_value_heads": 8, "vocab_size": 151936})",
        8190735360},
       // openai-community/gpt2, its 50257 rows padded to 50304 (47 x 768 more)
       {R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "n_inner": null, "vocab_size": 50257,
                "activation_function": "gelu_new", "resid_pdrop": 0.1})",
        124439808 + 47 * 768}}) {
    CAPTURE(std::string(row.text));
    CHECK(parameter_count(architecture(row.text), 1) == row.parameters);
  }
}

TEST_CASE("padded vocabulary") {
  Model model;
  model.vocab = 50257;
  CHECK(padded_vocab(model, 1) == 50304);  // 393 x 128
  CHECK(padded_vocab(model, 8) == 51200);  // 50 x 1024, the vocabulary of Megatron's GPT-3 papers
  model.vocab_padding = false;
  CHECK(padded_vocab(model, 8) == 50257);
}

TEST_CASE("what a family fixes without saying so") {
  const std::string sizes =
      R"(, "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 1000})";
  const Model llama = architecture(R"({"model_type": "llama")" + sizes);
  CHECK(llama.gated_mlp);
  CHECK(llama.query_groups == 4);
  CHECK(llama.head_dim == 16);
  CHECK_FALSE(llama.tied_embeddings);
  CHECK_FALSE(llama.hidden_dropout);
  const Model neox = architecture(R"({"model_type": "gpt_neox")" + sizes);
  CHECK_FALSE(neox.gated_mlp);
  CHECK(neox.linear_bias);
  CHECK(neox.normalization == Normalization::layer_norm);
  const Model nemotron =
      architecture(R"({"model_type": "nemotron", "hidden_act": "relu2")" + sizes);
  CHECK(nemotron.activation == Activation::squared_relu);
  CHECK_FALSE(nemotron.linear_bias);
  const Model bloom = architecture(
      R"({"model_type": "bloom", "n_embed": 64, "n_layer": 2, "n_head": 4, "vocab_size": 1000})");
  CHECK(bloom.position == PositionEmbedding::alibi);
  CHECK(bloom.ffn_hidden == 256);
  CHECK(bloom.tied_embeddings);
  CHECK(architecture(R"({"model_type": "qwen2")" + sizes).qkv_bias);
  CHECK(architecture(R"({"model_type": "qwen3")" + sizes).qk_norm);
  CHECK(architecture(R"({"model_type": "gpt2", "resid_pdrop": 0.1)" + sizes).hidden_dropout);
  CHECK_FALSE(architecture(R"({"model_type": "mpt", "no_bias": true)" + sizes).linear_bias);
}

TEST_CASE("Bridge's keys over a model, and without one") {
  const Model cut =
      small({"model.num_layers=8", "model.ffn_hidden_size=8192", "model.add_qkv_bias=true"}).model;
  CHECK(cut.layers == 8);
  CHECK(cut.ffn_hidden == 8192);
  CHECK(cut.qkv_bias);
  CHECK(cut.hidden == 4096);
  const Model custom =
      small({"model.hf_config=None", "model.num_layers=4", "model.hidden_size=1024",
             "model.num_attention_heads=16", "model.vocab_size=51200"})
          .model;
  CHECK(custom.ffn_hidden == 4096);
  CHECK(custom.tied_embeddings);
  CHECK_FALSE(custom.gated_mlp);
  CHECK(custom.max_positions == 8192);  // a learned table as long as the sequence
  CHECK(refusal({"model.hf_config=None", "model.num_layers=4"})
            .find("/model/hidden_size: is missing") != std::string::npos);
}

TEST_CASE("a Hugging Face checkout is a directory with a config.json") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("stepsim_hf_" + std::to_string(::getpid())) / "my-llama";
  std::filesystem::create_directories(folder);
  CHECK_THROWS_AS(read_model(folder.string(), find_data()), Error);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 1000})";
  CHECK(read_model(folder.string(), find_data()).name == "my-llama");
  CHECK(read_model((folder / "config.json").string(), find_data()).layers == 2);
  std::filesystem::remove_all(folder.parent_path());
}

// Law: every shipped model reads, and has the number of parameters that its file states (vocabulary
// as published, not padded).
TEST_CASE("shipped models") {
  const DataPaths data = find_data();
  const std::vector<CatalogueRow> models = list_models(data);
  CHECK(models.size() >= 12);
  for (const CatalogueRow& row : models) {
    CAPTURE(row.name);
    Model model = read_model(row.name, data);
    const Document document = load_document(data.root / "models" / (row.name + ".json"));
    const Reader file(document, "");
    CHECK(file.has("source"));
    const double stated = file.required_number("parameters_billion", 0, 1e6) * 1e9;
    model.vocab_padding = false;
    CHECK(static_cast<double>(parameter_count(model, 1)) == doctest::Approx(stated).epsilon(1e-3));
    CHECK(file.has("active_parameters_billion") == model.moe.present());
    if (!model.moe.present()) continue;
    CHECK(static_cast<double>(active_parameter_count(model, 1)) ==
          doctest::Approx(file.required_number("active_parameters_billion", 0, 1e6) * 1e9)
              .epsilon(1e-3));
  }
}
