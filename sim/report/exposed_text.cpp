#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/report/exposed.h"
#include "sim/report/json_parts.h"
#include "sim/report/page.h"

namespace stepsim {
namespace {

struct ReasonWords {
  std::string_view name, words;
};
constexpr std::array<ReasonWords, exposed_reason_count> reason_words{{
    {"dependency", "needed next"},
    {"communicator_busy", "communicator busy"},
    {"launch_order", "launch order"},
    {"no_sm", "no SM free"},
    {"hbm", "memory bandwidth shared"},
    {"links", "links shared"},
    {"first_last_bucket", "first or last bucket"},
    {"warmup_cooldown", "warm-up, cool-down"},
    {"gate_off", "overlap off"},
}};
constexpr size_t most_offenders = 8;

std::string milliseconds(double seconds, double step_seconds) {
  return fmt::format("{:.{}f}", seconds * 1e3,
                     step_seconds >= 1      ? 1
                     : step_seconds >= 0.01 ? 2
                                            : 4);
}

/// The reasons that make up more than nothing, most first.
std::vector<size_t> by_size(const ReasonSeconds& reasons) {
  std::vector<size_t> order;
  for (size_t r = 0; r < reasons.size(); ++r)
    if (reasons[r] > 0) order.push_back(r);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return reasons[a] > reasons[b]; });
  return order;
}

}  // namespace

std::string_view name(ExposedReason reason) {
  return reason_words[static_cast<size_t>(reason)].name;
}
std::string_view plain_words(ExposedReason reason) {
  return reason_words[static_cast<size_t>(reason)].words;
}

std::string describe(const ExposedOp& op) {
  return fmt::format("{}, stage {}", describe(op.label), op.stage);
}

std::string exposed_text(const ExposedTable& table, double step_seconds) {
  const auto ms = [&](double seconds) { return milliseconds(seconds, step_seconds); };
  Page page(page_width);
  std::vector<size_t> order;
  for (size_t c = 1; c < comm_class_count; ++c)
    if (table.by_class[c] && table.by_class[c]->seconds + table.by_class[c]->hidden_seconds > 0)
      order.push_back(c);
  if (order.empty()) return "Why exposed    no communication\n";
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return table.by_class[a]->seconds > table.by_class[b]->seconds;
  });
  page.line("{:<23}{:>9}{:>13}      {}", "Why exposed, mean rank", "hidden", "exposed", "because");
  for (const size_t c : order) {
    const ExposedClass& row = *table.by_class[c];
    std::vector<std::string> parts;
    for (const size_t r : by_size(row.reasons))
      parts.push_back(fmt::format("{} {} ms", reason_words[r].words, ms(row.reasons[r])));
    page.list(fmt::format("  {:<17}{:>10} ms{:>10} ms   ", name(static_cast<CommClass>(c)),
                          ms(row.hidden_seconds), ms(row.seconds)),
              parts, 2);
    // What rounds to nothing needs no names.
    if (row.seconds < 5e-5 * step_seconds) continue;
    for (const ClosedGate& gate : row.gates)
      page.paragraph(
          "    off: ",
          gate.key + (gate.requested ? ", asked for and undone: " : "") +
              (gate.requested || gate.reason.empty() ? gate.reason : " (" + gate.reason + ")"),
          2);
    std::vector<std::string> names;
    for (size_t i = 0; i < row.offenders.size() && i < 3; ++i)
      names.push_back(
          fmt::format("{} ({} ms)", describe(row.offenders[i]), ms(row.offenders[i].seconds)));
    page.list("    most: ", names, 2);
  }
  return page.text();
}

Json exposed_json(const ExposedTable& table) {
  Json out = Json::object();
  for (size_t c = 1; c < comm_class_count; ++c) {
    if (!table.by_class[c]) continue;
    const ExposedClass& row = *table.by_class[c];
    Json reasons, offenders = Json::array(), gates = Json::array();
    for (size_t r = 0; r < reason_words.size(); ++r)
      reasons[std::string(reason_words[r].name)] = row.reasons[r];
    for (size_t i = 0; i < row.offenders.size() && i < most_offenders; ++i) {
      const ExposedOp& op = row.offenders[i];
      offenders.push_back(
          {{"op", stepsim::row(op.label.op).name},
           {"pass", name(op.label.pass)},
           {"layer", op.label.layer == Label::no_layer ? Json() : Json(op.label.layer)},
           {"chunk", op.label.chunk},
           {"part", op.label.part},
           {"stage", op.stage},
           {"seconds", op.seconds},
           {"reason", name(op.reason)}});
    }
    for (const ClosedGate& gate : row.gates)
      gates.push_back({{"key", gate.key}, {"requested", gate.requested}, {"reason", gate.reason}});
    out[std::string(name(static_cast<CommClass>(c)))] = {{"seconds", row.seconds},
                                                         {"hidden_seconds", row.hidden_seconds},
                                                         {"reasons", reasons},
                                                         {"gates", gates},
                                                         {"offenders", offenders}};
  }
  return out;
}

}  // namespace stepsim
