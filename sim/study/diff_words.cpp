#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

#include "sim/report/page.h"
#include "sim/study/diff_text.h"

namespace stepsim::diff_words {
namespace {

/// What a switch is called, by the last part of its key.
struct NameRow {
  std::string_view key, words;
};
constexpr std::array<NameRow, 9> name_rows{{
    {"tp_comm_overlap", "TP overlap"},
    {"overlap_p2p_comm", "overlap of pipeline transfers"},
    {"overlap_grad_reduce", "overlap of the gradient reduction"},
    {"overlap_param_gather", "overlap of the parameter gather"},
    {"overlap_moe_expert_parallel_comm", "EP overlap"},
    {"delay_wgrad_compute", "delay of weight gradients"},
    {"sequence_parallel", "sequence parallelism"},
    {"bucket_size", "bucket size"},
    {"align_param_gather", "alignment of parameter gathers"},
}};

std::string_view last_part(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

std::string setting(const std::string& key) {
  for (const NameRow& row : name_rows)
    if (row.key == last_part(key)) return std::string(row.words);
  return key;
}

std::string keys_of(const Diff& diff, const ChangeShare& share) {
  std::string text;
  for (const size_t c : share.changes)
    text += (text.empty() ? "" : " and ") + diff.requested[c].key;
  return text;
}

constexpr std::array<NameRow, 14> cause_rows{{
    {"compute", "compute"},
    {"contention", "contention (slowdown under overlap)"},
    {"optimizer", "optimizer"},
    {"host", "host (step overhead, launches)"},
    {"bubble", "pipeline bubble"},
    {"skew", "skew (slower peer, faults)"},
    {"exposed_tp", "exposed tp communication"},
    {"exposed_cp", "exposed cp communication"},
    {"exposed_pp", "exposed pp communication"},
    {"exposed_dp", "exposed dp communication"},
    {"exposed_embedding", "exposed embedding all-reduce"},
    {"exposed_ep", "exposed ep communication"},
    {"exposed_edp", "exposed edp communication"},
    {"exposed_offload", "exposed offload traffic"},
}};

}  // namespace

std::string value(const std::string& json) {
  if (json.empty()) return "not written";
  if (json.size() > 42) return json.substr(0, 39) + "...";
  return json;
}

std::string delta(double seconds, double step_seconds) {
  const int decimals = step_seconds >= 1 ? 1 : step_seconds >= 0.01 ? 2 : 4;
  return fmt::format("{:+.{}f} ms", seconds * 1e3, decimals);
}

std::string step(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} us", seconds * 1e6);
}

std::string cause(const std::string& name) {
  for (const NameRow& row : cause_rows)
    if (row.key == name) return std::string(row.words);
  return name;
}

std::vector<std::string> headlines(const Diff& diff) {
  std::vector<std::string> lines;
  const double step_seconds = diff.a.report.step_seconds;
  for (const GateChange& gate : diff.gates) {
    std::string line = setting(gate.finding.key);
    line[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(line[0])));
    line += gate.lost ? " is no longer in effect" : " is in effect now";
    if (gate.share) line += ", because of " + keys_of(diff, diff.by_change[*gate.share]);
    if (gate.delta_seconds)
      line += fmt::format(": {} of the step", delta(*gate.delta_seconds, step_seconds));
    lines.push_back(std::move(line));
  }
  for (const UndoneChange& undone : diff.undone) {
    const KeyChange& change = diff.requested[undone.change];
    lines.push_back(fmt::format("{} {} was asked for and is not in effect: {}", change.key,
                                value(change.to), undone.reason));
  }
  return lines;
}

std::string change(const Diff& diff, const ChangeShare& share) {
  const auto one = [&](const KeyChange& c) {
    return fmt::format("{} {} -> {}", c.key, value(c.from), value(c.to));
  };
  std::string text;
  for (const size_t c : share.changes)
    text += (text.empty() ? "" : " with ") + one(diff.requested[c]);
  return text;
}

std::string method(const Diff& diff) {
  const Attribution& a = diff.attribution;
  if (a.players.empty()) return "";
  std::string text;
  if (a.values.empty())
    text = fmt::format(
        "Shapley values from {} random orders, {} combinations; after +- the "
        "standard error",
        a.orders, a.combinations);
  else
    text = fmt::format("Shapley values, exact: all {} combinations of {} {}", a.combinations,
                       a.players.size() - a.dormant,
                       a.players.size() - a.dormant == 1 ? "change" : "changes");
  if (a.shortened)
    text += fmt::format(
        "; steady microbatches told from short steps, which agree with whole "
        "ones to {:.1g} s",
        std::max(a.deviation_seconds, 1e-15));
  return text;
}

std::string memory(const Diff& diff) {
  const std::optional<MemoryReport>&a = diff.a.report.memory, &b = diff.b.report.memory;
  if (!a || !b) return "";
  const auto need = [](const MemoryReport& m) { return m.peak_bytes() + m.sizes.reserve; };
  const std::string_view fit = !b->fits()  ? a->fits() ? "NO LONGER FITS" : "DOES NOT FIT"
                               : a->fits() ? "fits"
                                           : "fits now";
  std::string capacity = fmt::format("{:.1f} GiB", b->capacity_bytes / gib);
  if (a->capacity_bytes != b->capacity_bytes)
    capacity = fmt::format("{:.1f} -> {}", a->capacity_bytes / gib, capacity);
  return fmt::format("{}: {:.1f} -> {:.1f} GiB ({:+.1f}) with reserve, of {}", fit, need(*a) / gib,
                     need(*b) / gib, (need(*b) - need(*a)) / gib, capacity);
}

std::vector<std::string> consequences(const Diff& diff, const ChangeShare& share) {
  // How each GEMM hides its collective is one word here: they move together.
  constexpr std::string_view gemms = "model.tp_comm_overlap_cfg.";
  std::vector<std::string> found;
  int methods = 0;
  for (const EffectiveChange& e : share.effective) {
    bool itself = false;
    for (const size_t c : share.changes)
      itself |= last_part(diff.requested[c].key) == last_part(e.key) && share.changes.size() == 1;
    if (itself) continue;
    if (e.key.starts_with(gemms)) {
      ++methods;
      continue;
    }
    const auto shown = [](const std::string& json) {
      return json.empty() ? std::string("none") : value(json);
    };
    found.push_back(fmt::format("{} {} -> {}", e.key, shown(e.from), shown(e.to)));
  }
  if (methods > 0) found.push_back(fmt::format("{}* of {} GEMMs", gemms, methods));
  return found;
}

}  // namespace stepsim::diff_words
