// The notation of the resolution tables: settings, what becomes of them, and which findings say so.
// Expectations come by hand from Megatron-Bridge's and Megatron-LM's sources; each row names the
// file. A1-A10 and B1-B13 number the rules of Bridge's guides (skills/ of its repository).
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/config/read.h"

namespace stepsim::table {

/// What the words of a row lie on, each on 4 nodes with 8 H100: a dense model, a mixture of 8
/// experts, experts with latent attention, the dense model in Megatron-LM's dialect.
enum class Base { dense, experts, latent, megatron_lm, experts_megatron_lm };

/// `words`, `effective`: key=value with the short names below. `findings`: "kind id" separated by
/// ';' - all of kind error, silent and unit, and of advice at least these. `absent`: ids of advice.
/// `refused`: part of the Error that is thrown in place of all that.
struct Row {
  const char* says;
  Base base;
  const char* words;
  const char* effective;
  const char* findings;
  const char* absent = "";
  const char* refused = "";
};

inline std::vector<std::string> pieces(const std::string& text, char separator) {
  std::vector<std::string> list;
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, separator);) {
    piece.erase(0, piece.find_first_not_of(' '));
    if (!piece.empty()) list.push_back(piece);
  }
  return list;
}

/// A short name written out.
inline std::string full(const std::string& word) {
  static const std::vector<std::pair<std::string, std::string>> names{
      {"section", "comm_overlap.tp_comm_overlap=false"},
      {"on", "comm_overlap.tp_comm_overlap=true"},
      {"sharded", "ddp.use_distributed_optimizer=true"},
      {"tp=", "model.tensor_model_parallel_size="},
      {"pp=", "model.pipeline_model_parallel_size="},
      {"vp=", "model.virtual_pipeline_model_parallel_size="},
      {"cp=", "model.context_parallel_size="},
      {"ep=", "model.expert_model_parallel_size="},
      {"etp=", "model.expert_tensor_parallel_size="},
      {"sp=", "model.sequence_parallel="},
      {"gbs=", "train.global_batch_size="},
      {"m.", "model."},
      {"d.", "ddp."},
      {"o.", "comm_overlap."},
      {"x.", "mixed_precision."}};
  for (const auto& [brief, name] : names) {
    const bool prefix = brief.back() == '=' || brief.back() == '.';
    if (prefix ? word.starts_with(brief) : word == brief) return name + word.substr(brief.size());
  }
  return word;
}

inline Scenario resolved(Base base, const std::string& words) {
  std::string model = "llama3-8b", more;
  if (base == Base::experts || base == Base::experts_megatron_lm) model = "mixtral-8x7b";
  if (base == Base::latent) model = "deepseek-v2-lite";
  if (base == Base::megatron_lm || base == Base::experts_megatron_lm)
    more = R"("_dialect": "megatron-lm", )";
  const std::string text =
      "{" + more + R"("cluster": {"system": "dgx-h100", "nodes": 4}, "model": {"hf_config": ")" +
      model + R"("}, "dataset": {"seq_length": 8192},
      "train": {"global_batch_size": 128}})";
  std::vector<std::string> list;
  for (const std::string& word : pieces(words, ' ')) list.push_back(full(word));
  return read_scenario_text(text, "table.json", list, "", find_data(), Strictness::collect);
}

inline std::string kind_name(Finding::Kind kind) {
  static const std::vector<std::string> names{"silent", "error", "unit", "advice"};
  return names[static_cast<size_t>(kind)];
}

inline void check(const Row& row) {
  CAPTURE(std::string(row.says));
  CAPTURE(std::string(row.words));
  if (*row.refused != '\0') {
    std::string what;
    try {
      resolved(row.base, row.words);
    } catch (const Error& error) {
      what = error.what();
    }
    CAPTURE(what);
    CHECK(what.find(row.refused) != std::string::npos);
    return;
  }
  const Scenario scenario = resolved(row.base, row.words);
  for (const std::string& word : pieces(row.effective, ' ')) {
    const std::string pair = full(word), key = pair.substr(0, pair.find('='));
    const auto found = scenario.effective.find(key);
    const std::string value = found == scenario.effective.end() ? "absent" : found->second;
    CHECK(key + "=" + value == pair);
  }
  const std::vector<std::string> expected = pieces(row.findings, ';');
  std::vector<std::string> left = expected;
  for (const Finding& finding : scenario.findings) {
    const std::string text = kind_name(finding.kind) + " " + finding.id;
    const auto at = std::find(left.begin(), left.end(), text);
    if (at != left.end()) left.erase(at);
    const bool known = std::find(expected.begin(), expected.end(), text) != expected.end();
    CHECK_MESSAGE((known || finding.kind == Finding::Kind::advice), "not expected: ", text, " ",
                  finding.key, ": ", finding.reason);
    CHECK_MESSAGE(finding.reason.size() > 8, text);
    for (const std::string& id : pieces(row.absent, ' ')) CHECK(finding.id != id);
  }
  for (const std::string& text : left) CHECK_MESSAGE(false, "missing: ", text);
}

}  // namespace stepsim::table
