#include "sim/config/model_gaps.h"

#include <algorithm>
#include <array>

namespace stepsim {
namespace {

constexpr std::array<GapRow, 1> gap_rows{{
    {"parallel residual around experts", "use_parallel_residual", true,
     [](const Model& m) { return m.parallel_residual && m.moe.present(); }},
}};

}  // namespace

void record_gaps(Model& model) {
  model.not_simulated.clear();
  for (const GapRow& row : gap_rows)
    if (row.has(model)) model.not_simulated.emplace_back(row.phrase);
}

bool simulates(const Model& model) {
  return std::none_of(gap_rows.begin(), gap_rows.end(),
                      [&](const GapRow& row) { return row.refused && row.has(model); });
}

void refuse_unsimulated_model(const Reader& section, const Model& model) {
  for (const GapRow& row : gap_rows) {
    if (!row.refused || !row.has(model)) continue;
    const std::string key(row.key);
    const bool here = section.has(key) || !section.has("hf_config");
    section.fail(here ? key : "hf_config", "'" + model.name + "': " + std::string(row.phrase) +
                                               " is not simulated in this release");
  }
}

std::vector<std::string> unmodelled_keys(const Model& model) {
  std::vector<std::string> keys;
  for (const GapRow& row : gap_rows) {
    if (!row.refused && row.has(model)) keys.push_back("model." + std::string(row.key));
  }
  return keys;
}

}  // namespace stepsim
