// A small good scenario and overrides on it: the notation of these tests.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/config/read.h"

namespace stepsim {

/// Llama-3 8B on `nodes` DGX H100, everything else at its default.
inline Scenario small(std::vector<std::string> words) {
  static const std::string text = R"({
    "cluster": {"system": "dgx-h100", "nodes": 4}, "model": {"hf_config": "llama3-8b"},
    "dataset": {"seq_length": 8192}, "train": {"global_batch_size": 128}})";
  // Short names for what nearly every row says.
  for (std::string& word : words) {
    for (const auto& [brief, full] :
         {std::pair{"tp=", "model.tensor_model_parallel_size="},
          std::pair{"pp=", "model.pipeline_model_parallel_size="},
          std::pair{"vp=", "model.virtual_pipeline_model_parallel_size="},
          std::pair{"cp=", "model.context_parallel_size="},
          std::pair{"sp=", "model.sequence_parallel="},
          std::pair{"gbs=", "train.global_batch_size="}})
      if (word.starts_with(brief)) word = full + word.substr(3 + (full[0] == 't' ? 1 : 0));
  }
  return read_scenario_text(text, "small.json", words, "", find_data());
}

/// The message of the Error that `words` raise, "" when they are accepted.
inline std::string refusal(const std::vector<std::string>& words) {
  try {
    small(words);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// "id requested->effective" of every finding.
inline std::vector<std::string> findings(const Scenario& scenario) {
  std::vector<std::string> list;
  for (const Finding& finding : scenario.findings)
    list.push_back(finding.id + " " + finding.requested + "->" + finding.effective);
  return list;
}

}  // namespace stepsim
