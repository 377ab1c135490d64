// Recipes: found by the names people type, and each names a model of the size it is known for.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/config/bridge_keys.h"
#include "sim/config/document.h"
#include "sim/config/files.h"
#include "sim/config/model_read.h"
#include "sim/config/scenario_load.h"
#include "tests/config/small.h"

using namespace stepsim;

namespace {

std::string stem(const std::optional<std::filesystem::path>& file) {
  return file ? file->stem().string() : "";
}

std::string refusal_of(const std::string& name) {
  try {
    find_recipe(name, find_data());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// The model that a recipe asks for, with the recipe's own architecture keys over it.
Model model_of(const Document& recipe) {
  const Reader section(recipe, "/model");
  Model model = read_model(section.required_string("hf_config"), find_data());
  override_architecture(model, section, false);
  return model;
}

}  // namespace

TEST_CASE("a recipe by its function's name, with or without the ending") {
  const DataPaths data = find_data();
  for (const char* name : {"llama32_1b_pretrain_config", "llama32_1b_pretrain", "llama32_1b"})
    CHECK(stem(locate_recipe(name, data)) == "llama32_1b_pretrain_config");
  CHECK(stem(locate_recipe("llama3_70b_pretrain_64gpu_h100_bf16", data)) ==
        "llama3_70b_pretrain_64gpu_h100_bf16_config");
  for (const char* name : {"", "llama9", "scenarios/recipes/llama32_1b_pretrain_config", "..",
                           "llama32_1b_pretrain_config.json"}) {
    CAPTURE(name);
    CHECK_FALSE(locate_recipe(name, data).has_value());
  }
  // A model's stem without its size is the first recipe of the library that goes on from there.
  CHECK(stem(locate_recipe("glm45", data)) == "glm45_355b_pretrain_config");
  CHECK(refusal_of("llama32_1b").empty());
  CHECK(refusal_of("lama32_1b").find("unknown recipe 'lama32_1b'; did you mean 'llama32_1b'?") !=
        std::string::npos);
  CHECK(refusal_of("deepseek_v3_pretrian_config")
            .find("did you mean 'deepseek_v3_pretrain_config'?") != std::string::npos);
  CHECK(refusal_of("something else").find("; valid: ") != std::string::npos);
}

// Sizes as the models' own pages and papers round them.
TEST_CASE("every recipe's keys are known, and its model has the parameters it is known for") {
  struct Row {
    std::string_view starts_with;
    double billions;
  };
  constexpr std::array<Row, 15> rows{{{"llama32_1b", 1.236},
                                      {"llama3_8b", 8.03},
                                      {"llama3_70b", 70.55},
                                      {"llama31_405b", 405.8},
                                      {"gpt3_175b", 175},
                                      {"nemotron4_15b", 15.6},
                                      {"nemotron4_340b", 341},
                                      {"qwen3_30b_a3b", 30.5},
                                      {"qwen3_235b_a22b", 235.1},
                                      {"deepseek_v3", 671.0},
                                      {"kimi_k2", 1027},
                                      {"gpt_oss_120b", 116.8},
                                      {"moonlight_16b", 16.0},
                                      {"olmoe_7b", 6.92},
                                      {"glm45_355b", 355}}};
  const DataPaths data = find_data();
  const std::vector<CatalogueRow> recipes = list_recipes(data);
  CHECK(recipes.size() >= 38);
  std::vector<int> seen(rows.size(), 0);
  int air = 0;
  for (const CatalogueRow& recipe : recipes) {
    CAPTURE(recipe.name);
    CHECK_FALSE(recipe.description.empty());
    const Document document = with_bases(load_document(find_recipe(recipe.name, data)));
    const Reader top(document, "");
    CHECK(top.string("name", "") == recipe.name);
    CHECK(top.string("source", "").find("src/megatron/bridge/") != std::string::npos);
    for (const std::string& key : top.keys())
      if (const SectionRow* row = section_row(key)) {
        const Reader section = key == "mixed_precision" && top.find(key)->is_string()
                                   ? Reader(document, "/none")
                                   : Reader(document, "/" + key);
        if (row->own || !row->keys.empty()) CHECK_NOTHROW(check_spelling(section, *row));
      }
    Model model = model_of(document);
    model.vocab_padding = false;
    const double billions = static_cast<double>(parameter_count(model, 1)) / 1e9;
    for (size_t i = 0; i < rows.size(); ++i)
      if (recipe.name.starts_with(rows[i].starts_with)) {
        CHECK(billions == doctest::Approx(rows[i].billions).epsilon(0.01));
        ++seen[i];
      }
    if (recipe.name.starts_with("glm45_air")) {
      CHECK(billions == doctest::Approx(106).epsilon(0.01));
      ++air;
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(std::string(rows[i].starts_with));
    CHECK(seen[i] > 0);
  }
  CHECK(air == 2);
}

// Those whose model runs and that ask for no free layout; the others wait for what they need.
TEST_CASE("dense recipes read as scenarios, with the cluster from outside or from the file") {
  const DataPaths data = find_data();
  struct Row {
    const char* name;
    const char* cluster;
    int world;
  };
  for (const Row& row : {Row{"llama32_1b", "dgx-h100:1", 8},
                         {"llama3_8b", "dgx-h100:1", 8},
                         {"llama3_70b", "dgx-h100:4", 32},
                         {"llama31_405b", "dgx-h100:32", 256},
                         {"gpt3_175b", "dgx-h100:64", 512},
                         {"nemotron4_15b", "dgx-h100:1", 8},
                         {"nemotron4_340b", "dgx-h100:768", 6144},
                         {"llama32_1b_pretrain_1gpu_h100_bf16", "", 1},
                         {"llama3_8b_pretrain_2gpu_h100_bf16", "", 2},
                         {"llama3_70b_pretrain_32gpu_h100_bf16", "", 32},
                         {"gpt3_175b_pretrain_32gpu_h100_bf16_config", "", 32},
                         {"llama3_8b_pretrain_8gpu_h100_bf16", "", 8},
                         {"llama3_70b_pretrain_64gpu_h100_bf16", "", 64},
                         {"llama31_405b_pretrain_1024gpu_h100_bf16", "", 1024},
                         {"llama31_405b_pretrain_128gpu_gb200_bf16", "", 128}}) {
    CAPTURE(row.name);
    std::string what;
    try {
      const Scenario s = read_scenario(find_recipe(row.name, data).string(), {}, row.cluster, data);
      CHECK(s.parallel.world() == row.world);
    } catch (const Error& error) {
      what = error.what();
    }
    CHECK(what == "");
  }
}

// Megatron-Bridge's own quick check of an overridden recipe: TP 2, PP 2 on four GPUs leave DP 1.
TEST_CASE("overrides on a recipe") {
  const DataPaths data = find_data();
  const std::vector<std::string> words{"cluster.gpus=4",
                                       "model.tensor_model_parallel_size=2",
                                       "model.pipeline_model_parallel_size=2",
                                       "model.sequence_parallel=True",
                                       "train.train_iters=3",
                                       "train.global_batch_size=8",
                                       "train.micro_batch_size=1"};
  const Scenario s = read_scenario(find_recipe("llama32_1b_pretrain_config", data).string(), words,
                                   "dgx-h100:1", data);
  CHECK(s.parallel.tp == 2);
  CHECK(s.parallel.pp == 2);
  CHECK(s.parallel.dp == 1);
  CHECK(s.parallel.sequence_parallel);
}
