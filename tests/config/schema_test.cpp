// Laws of the key descriptions: every shipped file obeys its schema; every key that the program
// reads is described, and what the descriptions call modelled is what the program reads.
#include "sim/config/schema.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/config/document.h"
#include "sim/config/explain.h"
#include "sim/config/read.h"
#include "tests/config/bad_folder.h"

using namespace stepsim;

namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

constexpr std::array<std::pair<SchemaFile, const char*>, 4> files{
    {{SchemaFile::scenario, "scenarios/scenario.schema.json"},
     {SchemaFile::system, "hardware/system.schema.json"},
     {SchemaFile::gpu, "hardware/gpu.schema.json"},
     {SchemaFile::model, "models/model.schema.json"}}};

/// A schema as a validator sees it; "" from `complaint` = the value obeys.
class Checker {
 public:
  explicit Checker(SchemaFile file) : text_(json::parse(schema_text(file))) {
    valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(text_), schema_);
  }
  std::string complaint(const json& value) const {
    valijson::Validator validator;
    valijson::ValidationResults results;
    if (validator.validate(schema_, Adapter(value), &results)) return {};
    std::string text = "refused";
    for (valijson::ValidationResults::Error error; results.popError(error);) {
      for (const std::string& place : error.context) text += " " + place;
      text += ": " + error.description + "\n";
    }
    return text;
  }

 private:
  json text_;
  valijson::Schema schema_;
};

std::vector<fs::path> data_files(const char* folder) {
  std::vector<fs::path> list;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json" && entry.path().stem().extension() != ".schema")
      list.push_back(entry.path());
  std::sort(list.begin(), list.end());
  return list;
}

std::string refusal(const std::string& path) {
  try {
    read_scenario(path, {}, "", find_data());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("the library holds the schema files as they are") {
  for (const auto& [file, path] : files) CHECK(schema_text(file) == read_text(path));
}

TEST_CASE("every shipped file obeys the schema that it names") {
  for (const auto& [file, folder] :
       {std::pair{SchemaFile::scenario, "scenarios"}, std::pair{SchemaFile::system, "hardware"},
        std::pair{SchemaFile::gpu, "hardware/gpus"}, std::pair{SchemaFile::model, "models"}}) {
    const Checker checker(file);
    const std::vector<fs::path> list = data_files(folder);
    CHECK(list.size() >= 10);
    for (const fs::path& path : list) {
      CAPTURE(path.string());
      const json value = json::parse(read_text(path));
      CHECK(checker.complaint(value) == "");
      REQUIRE(value.contains("$schema"));
      CHECK(read_text(path).starts_with("{\n  \"$schema\""));
      CHECK(fs::equivalent(path.parent_path() / value.at("$schema").get<std::string>(),
                           files[static_cast<size_t>(file)].second));
    }
  }
  const Checker checker(SchemaFile::scenario);
  std::ifstream rows("tests/published/dense.jsonl");
  for (std::string line; std::getline(rows, line);) {
    const json row = json::parse(line);
    CAPTURE(row.at("id").get<std::string>());
    CHECK(checker.complaint(row.at("scenario")) == "");
  }
}

TEST_CASE("wrong files are refused by the schema too") {
  struct Wrong {
    SchemaFile file;
    const char *pointer, *text;  ///< what is set in the good file
  };
  using enum SchemaFile;
  const std::array<json, 4> good{bad::good_scenario, bad::good_system, bad::good_gpu,
                                 bad::good_model};
  const std::array<Checker, 4> checkers{Checker(scenario), Checker(SchemaFile::system),
                                        Checker(gpu), Checker(model)};
  const auto complaint = [&](const Wrong& wrong) {
    json value = good[static_cast<size_t>(wrong.file)];
    value[json::json_pointer(wrong.pointer)] = json::parse(wrong.text);
    return checkers[static_cast<size_t>(wrong.file)].complaint(value);
  };
  for (size_t i = 0; i < good.size(); ++i) CHECK(checkers[i].complaint(good[i]) == "");
  CHECK(complaint({scenario, "/model/some_new_key", "1"}) == "");
  for (const Wrong& wrong :
       {Wrong{scenario, "/cluster/node", "4"},
        Wrong{scenario, "/clusters", "{}"},
        Wrong{scenario, "/cluster/nodes", "\"4\""},
        Wrong{scenario, "/cluster/nodes", "0"},
        Wrong{scenario, "/model/tensor_model_parallel_size", "2.5"},
        Wrong{scenario, "/model/sequence_parallel", "1"},
        Wrong{scenario, "/pipeline", R"({"schedule": "f1b"})"},
        Wrong{scenario, "/costs", R"({"forward": 1})"},
        Wrong{scenario, "/comm_overlap/tp_comm_overlap_cfg", R"({"qkv": {}})"},
        Wrong{scenario, "/comm_overlap/tp_comm_overlap_cfg", R"({"qkv_fprop": {"method": "no"}})"},
        Wrong{scenario, "/env_vars", R"({"CUDA_DEVICE_MAX_CONNECTIONS": 64})"},
        Wrong{scenario, "/train/global_batch_size", "true"},
        Wrong{SchemaFile::system, "/nic_rate", "400"},
        Wrong{SchemaFile::system, "/nic_rate", "\"400\""},
        Wrong{SchemaFile::system, "/nic_rate", "\"400 GHz\""},
        Wrong{SchemaFile::system, "/fabric", "\"myrinet\""},
        Wrong{SchemaFile::system, "/tiers/0/ports", "2"},
        Wrong{SchemaFile::system, "/stacks/0/launch", "7"},
        Wrong{gpu, "/gemm/bf16/ceiling", "1.2"},
        Wrong{gpu, "/gemm", "{}"},
        Wrong{gpu, "/memory/capacity", "\"80 Gi\""},
        Wrong{gpu, "/sm", "132"},
        Wrong{gpu, "/tile", "[128]"},
        Wrong{model, "/num_hidden_layers", "\"32\""},
        Wrong{model, "/model_type", "\"lama\""}}) {
    CAPTURE(std::string(wrong.pointer));
    CAPTURE(std::string(wrong.text));
    CHECK(complaint(wrong) != "");
  }
  CHECK(checkers[3].complaint(json::parse(R"({"model_type": "llama", "vocab_size": 1})")) != "");
}

TEST_CASE("every unit that the reader knows is in the schema's pattern, and no other") {
  const json definitions = json::parse(schema_text(SchemaFile::system)).at("definitions");
  for (const auto& [name, dimension] :
       {std::pair{"time", Dimension::time}, std::pair{"bytes", Dimension::bytes},
        std::pair{"bandwidth", Dimension::bytes_per_second},
        std::pair{"flops", Dimension::flops_per_second}}) {
    const std::string text = definitions.at(name).at("description").get<std::string>();
    CHECK(text == "A number and a unit: " + valid_units(dimension) + ".");
    const std::regex pattern(definitions.at(name).at("pattern").get<std::string>());
    std::istringstream units(valid_units(dimension));
    for (std::string unit; std::getline(units, unit, ',');) {
      if (unit.front() == ' ') unit.erase(0, 1);
      for (const char* number : {"1", "0.5 ", "2e3 "})
        CHECK(std::regex_match(number + unit, pattern));
    }
    CHECK_FALSE(std::regex_match("1", pattern));
    CHECK_FALSE(std::regex_match("-1 s", pattern));
  }
}

TEST_CASE("every key has a description and fits its section") {
  size_t keys = 0;
  for (const KeySection& section : key_sections())
    for (const KeyDescription& d : section.keys) {
      CAPTURE(d.key);
      CHECK(d.description.size() > 3);
      CHECK((section.name.empty() || d.key.starts_with(section.name + ".")));
      if (d.modelled && !section.own && section.where == "scenarios/*.json" && !d.repeated &&
          section.name != "measured")
        CHECK_MESSAGE((!d.effect.empty() || d.key.find("_cfg.") != std::string::npos),
                      "no x-effect");
      ++keys;
    }
  CHECK(keys > 500);
}

// A null counts as absent: the reader asks for it as for any key and changes nothing. What it never
// asks for is listed as not modelled.
TEST_CASE("modelled in the schema is what the reader asks for") {
  std::set<std::string> expected, listed;
  json scenario = bad::good_scenario;
  scenario["cluster"] = {{"system", "dgx-h100"}, {"nodes", 4}};
  scenario["model"]["hf_config"] = "llama3-8b";
  scenario["mixed_precision"] = {{"recipe", "bf16_mixed"}};
  for (const char* name : {"model", "ddp", "comm_overlap", "mixed_precision", "dataset", "train",
                           "optimizer", "env_vars"}) {
    const KeySection* section = key_section(name);
    REQUIRE(section != nullptr);
    for (const KeyDescription& d : section->keys) {
      const std::string key = d.key.substr(section->name.size() + 1);
      if (key.find('.') != std::string::npos) continue;
      if (!scenario[name].contains(key)) scenario[name][key] = nullptr;
      if (!d.modelled) expected.insert(d.key);
    }
  }
  scenario["env_vars"]["CUDA_DEVICE_MAX_CONNECTIONS"] = 1;
  const auto read = [](const json& value) {
    const Scenario s =
        read_scenario_text(value.dump(), "x.json", {}, "", find_data(), Strictness::collect);
    return std::set<std::string>(s.not_modelled.begin(), s.not_modelled.end());
  };
  // Some keys are read only where another does not speak for them.
  const std::set<std::string> with = read(scenario);
  scenario.erase("comm_overlap");
  scenario["ddp"]["use_distributed_optimizer"] = nullptr;
  scenario["mixed_precision"]["recipe"] = "bf16_with_fp8_delayed_scaling_mixed";
  scenario["model"]["add_bias_linear"] = true;
  scenario["model"]["recompute_granularity"] = "selective";
  const std::set<std::string> without = read(scenario);
  scenario["model"]["hf_config"] = "mixtral-8x7b";
  const std::set<std::string> experts = read(scenario);
  for (const std::string& key : with)
    if (key.starts_with("comm_overlap.") || (experts.contains(key) && without.contains(key)))
      listed.insert(key);
  for (const std::string& key : expected)
    CHECK_MESSAGE(listed.contains(key), key, " is read, and the schema says x-modelled false");
  for (const std::string& key : listed)
    CHECK_MESSAGE(expected.contains(key), key, " is never read; the schema lacks x-modelled false");
}

TEST_CASE("every key that a reader names is described") {
  std::set<std::string> described;
  for (const KeySection& section : key_sections()) {
    described.insert(section.name);
    for (const KeyDescription& d : section.keys)
      described.insert(d.key.substr(d.key.rfind('.') + 1));
  }
  for (const char* key : {"$schema", "sources"}) described.insert(key);
  static const std::regex named(
      R"re((?:\.(?:integer|boolean|optional_int|optional_bool|required_int|required_string|string|number|required_number|choice|quantity|required_quantity|strings|has|find|child|children)|\bflag|\boff|\bfraction)\((?:[a-z]+, )?"([A-Za-z_]+)"|\bwritten\([^"]*"([a-z_]+)")re");
  size_t names = 0;
  static const std::set<std::string> others{
      "document", "scenario_load",   "explain", "bridge_keys",
      "schema",   "import_megatron", "doubts"};  // they read no section
  for (const auto& entry : fs::directory_iterator("sim/config")) {
    if (entry.path().extension() != ".cpp" || others.contains(entry.path().stem())) continue;
    const std::string text = read_text(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), named), end; it != end; ++it) {
      const std::string key = (*it)[1].matched ? (*it)[1] : (*it)[2];
      CHECK_MESSAGE(described.contains(key), entry.path().string(), ": no description of ", key);
      ++names;
    }
  }
  CHECK(names > 150);
}

TEST_CASE("hardware readers know every key of their schema") {
  for (const auto& [file, where] : {std::pair{SchemaFile::system, bad::Where::system},
                                    std::pair{SchemaFile::gpu, bad::Where::gpu}}) {
    const json properties = json::parse(schema_text(file)).at("properties");
    for (const auto& property : properties.items()) {
      const json& good = where == bad::Where::system ? bad::good_system : bad::good_gpu;
      if (good.contains(property.key())) continue;
      CAPTURE(property.key());
      const std::string edit = property.key() + " = null";
      const bad::Folder folder({"null", where, edit.c_str(), ""});
      CHECK(refusal(folder.run()) == "");
    }
  }
}

TEST_CASE("$schema is accepted in every file and stays out of the resolved scenario") {
  for (const bad::Where where :
       {bad::Where::scenario, bad::Where::model, bad::Where::system, bad::Where::gpu}) {
    const bad::Folder folder({"schema", where, R"($schema = "./x.schema.json")", ""});
    CHECK(refusal(folder.run()) == "");
    if (where == bad::Where::scenario) {
      const Scenario s = read_scenario(folder.run(), {}, "", find_data());
      CHECK(s.resolved_json.find("$schema") == std::string::npos);
      CHECK(s.not_modelled.empty());
    }
  }
}
