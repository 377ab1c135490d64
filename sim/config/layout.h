// Megatron-Core's pipeline layouts: which layers each virtual stage holds, spelt out. Text grammar
// and rules after transformer/pipeline_parallel_layer_layout.py: stages separated by '|', E
// embedding, t decoder layer, m prediction module, L loss, x*n and (...)*n repeat, commas are
// ignored. Stage i is chunk i / PP of rank i % PP.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/parallelism.h"

namespace stepsim {

/// The stages, or why the text is none (`problem`).
struct PipelineLayout {
  std::vector<LayoutStage> stages;
  std::string problem;
};

/// Worked case: "Et|(tt|)*2L" is {E t}, {t t}, {t t}, {L}.
PipelineLayout parse_layout(std::string_view text);
/// One list of names (embedding, decoder, mtp, loss, or their letters) a stage.
PipelineLayout read_layout(const std::vector<std::vector<std::string>>& stages);
/// What a layout breaks: first and last, layers of the model, prediction modules, PP. "" = nothing.
std::string layout_problem(const std::vector<LayoutStage>& stages, int layers, int mtp_layers,
                           int pp);

}  // namespace stepsim
