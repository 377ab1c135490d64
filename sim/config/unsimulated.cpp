// What a scenario may ask for and this release does not simulate: refused, never approximated.
#include <array>
#include <nlohmann/json.hpp>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using nlohmann::json;

/// A key whose value must be one of `harmless` (JSON texts separated by '|'; absent and null always
/// are).
struct RefusalRow {
  std::string_view section, key, harmless, what;
};
constexpr std::array<RefusalRow, 8> refusal_rows{{
    {"model", "activation_offload_fraction", "1|1.0", "offload of a part of the modules"},
    {"model", "delta_offload_bytes_across_pp_ranks", "0", "offload that differs by stage"},
    {"model", "fine_grained_offloading_max_inflight_offloads", "",
     "a limit on copies to the host that are under way"},
    {"model", "variable_seq_lengths", "false", "sequences of varying length"},
    {"model", "fp4", "", "4-bit training"},
    {"optimizer", "optimizer", "\"adam\"|\"adamw\"", "an optimizer other than Adam"},
    {"train", "rampup_batch_size", "", "a batch size that ramps up"},
    {"pipeline", "vocabulary_parallel", "false", "vocabulary parallelism"},
}};

const Reader& section_named(const ScenarioSections& s, std::string_view name) {
  return name == "model"          ? s.model
         : name == "ddp"          ? s.ddp
         : name == "comm_overlap" ? s.comm_overlap
         : name == "optimizer"    ? s.optimizer
         : name == "train"        ? s.train
                                  : s.pipeline;
}

bool is_one_of(const std::string& text, std::string_view list) {
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find('|', start), list.size());
    if (list.substr(start, end - start) == text) return true;
    start = end + 1;
  }
  return false;
}

}  // namespace

void refuse_unsimulated(const ScenarioSections& sections, Scenario& scenario) {
  for (const RefusalRow& row : refusal_rows) {
    const Reader& section = section_named(sections, row.section);
    const std::string key(row.key);
    const json* value = section.find(key);
    if (value == nullptr || is_one_of(section.text_of(key), row.harmless)) continue;
    not_simulated(sections, scenario, section, key,
                  "asks for " + std::string(row.what) +
                      ", which is not simulated in this release; got " +
                      printable(section.text_of(key), 60));
  }
}

std::string accepted_values(std::string_view section, std::string_view key) {
  for (const RefusalRow& row : refusal_rows) {
    if (row.section != section || row.key != key) continue;
    std::string text = "null";
    for (const char c : row.harmless.empty() ? std::string() : "|" + std::string(row.harmless))
      text += c == '|' ? std::string(" or ") : std::string(1, c);
    return text;
  }
  return {};
}

}  // namespace stepsim
