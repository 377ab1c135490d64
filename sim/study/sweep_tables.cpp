// A sweep as text, CSV and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/config/document.h"
#include "sim/report/page.h"
#include "sim/study/sweep.h"

namespace stepsim {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 11> short_keys{{
    {"tensor_model_parallel_size", "TP"},
    {"pipeline_model_parallel_size", "PP"},
    {"virtual_pipeline_model_parallel_size", "VP"},
    {"context_parallel_size", "CP"},
    {"expert_model_parallel_size", "EP"},
    {"expert_tensor_parallel_size", "ETP"},
    {"micro_batch_size", "MBS"},
    {"global_batch_size", "GBS"},
    {"seq_length", "sequence"},
    {"mixed_precision", "precision"},
    {"hf_config", "model"},
}};

std::string value_in(const Point& point, const std::string& key) {
  for (const Assignment& a : point)
    if (a.key == key) return a.value;
  return "-";
}

std::string cut(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// As it is read: JSON where it is JSON, else a word.
Ordered value_json(const std::string& text) {
  if (text == "True" || text == "False") return text == "True";
  if (text == "None") return nullptr;
  const Ordered parsed = Ordered::parse(text, nullptr, false);
  return parsed.is_discarded() ? Ordered(text) : parsed;
}

std::string aim_text(SweepAim aim) {
  return aim == SweepAim::step ? "the shortest step" : "the most tokens/s/GPU";
}

struct Column {
  std::string head;
  std::vector<std::string> cells;
  bool right = true;
  size_t width() const {
    size_t most = head.size();
    for (const std::string& cell : cells) most = std::max(most, cell.size());
    return most;
  }
};

void append(std::string& line, const std::string& cell, const Column& column) {
  const std::string pad(column.width() - cell.size(), ' ');
  line += column.right ? pad + cell : cell + pad;
  line += "  ";
}

}  // namespace

std::string short_key(const std::string& key) {
  const std::string last = key.substr(key.rfind('.') + 1);
  for (const auto& [name, abbreviation] : short_keys)
    if (last == name) return std::string(abbreviation);
  return last;
}

std::string axis_text(const Axis& axis) {
  std::string text;
  for (const std::string& key : axis.keys) text += (text.empty() ? "" : ", ") + short_key(key);
  return text;
}

std::string values_text(const Point& point) {
  std::string text;
  for (const Assignment& a : point) text += (text.empty() ? "" : ", ") + a.value;
  return text;
}

std::string reason(const SweepRow& row) {
  const Figures& f = row.figures;
  if (row.outcome.failed()) {
    const std::string& at = row.outcome.failure_pointer;
    return (at.empty() ? "" : short_key(at.substr(at.rfind('/') + 1)) + ": ") + row.outcome.failure;
  }
  if (!f.fits)
    return fmt::format("does not fit: {:.1f} of {:.1f} GiB on rank {}", *f.needed_bytes / gib,
                       *f.capacity_bytes / gib, f.memory_rank);
  if (f.cause.empty()) return "compute";
  std::string cause = f.cause;
  std::replace(cause.begin(), cause.end(), '_', ' ');
  return fmt::format("{} {:.1f} %", cause, f.cause_share * 100);
}

std::string sweep_text(const Sweep& sweep) {
  constexpr size_t page = 100, most_value = 24, least_reason = 30;
  std::vector<Column> columns;
  for (const std::string& key : sweep.keys)
    columns.push_back({cut(short_key(key), most_value), {}});
  const size_t varied = columns.size();
  for (const char* head : {"step", "tokens/s/GPU", "MFU", "memory"}) columns.push_back({head, {}});
  const std::string what = "worst news: ledger or reason";
  size_t failed = 0, large = 0;
  for (const SweepRow& row : sweep.rows) {
    for (size_t k = 0; k < varied; ++k)
      columns[k].cells.push_back(cut(printable(value_in(row.point, sweep.keys[k])), most_value));
    const bool ran = row.done && !row.outcome.failed();
    const Figures& f = row.figures;
    failed += row.done && row.outcome.failed();
    large += ran && !f.fits;
    columns[varied].cells.push_back(ran ? seconds_text(f.step_seconds) : "-");
    columns[varied + 1].cells.push_back(ran && f.tokens_per_second_per_gpu
                                            ? fmt::format("{:.1f}", *f.tokens_per_second_per_gpu)
                                            : "-");
    columns[varied + 2].cells.push_back(ran && f.mfu ? fmt::format("{:.1f} %", *f.mfu * 100) : "-");
    columns[varied + 3].cells.push_back(
        ran && f.needed_bytes ? fmt::format("{:.1f} GiB", *f.needed_bytes / gib) : "-");
  }
  // The reason needs room: narrower values, then fewer figures.
  const auto total = [&] {
    size_t sum = 2;
    for (const Column& c : columns) sum += c.width() + 2;
    return sum;
  };
  for (size_t most = most_value; most > 6 && total() + least_reason > page; --most)
    for (size_t k = 0; k < varied; ++k) {
      columns[k].head = cut(columns[k].head, most);
      for (std::string& cell : columns[k].cells) cell = cut(cell, most);
    }
  while (columns.size() > varied + 1 && total() + least_reason > page) columns.pop_back();
  std::string out = fmt::format("{} points of {}\n", sweep.rows.size(), printable(sweep.file));
  std::string line = "  ";
  for (const Column& c : columns) append(line, c.head, c);
  const size_t room = total() < page ? page - total() : 0;
  out += line + "why\n";
  for (size_t i = 0; i < sweep.rows.size(); ++i) {
    const SweepRow& row = sweep.rows[i];
    line = i == sweep.best ? "* " : "  ";
    for (const Column& c : columns) append(line, c.cells[i], c);
    line += row.done ? cut(printable(reason(row), 400), std::max<size_t>(room, 12)) : "not run";
    out += line + "\n";
  }
  out += "\n";
  if (sweep.best == Sweep::none)
    out += "no point runs and fits";
  else
    out += fmt::format("* {}: {}", aim_text(sweep.aim),
                       printable(point_text(sweep.rows[sweep.best].point), 400));
  if (large + failed > 0)
    out += fmt::format("\n{} of {} points do not fit, {} cannot be run", large, sweep.rows.size(),
                       failed);
  if (!sweep.complete()) out += "\ninterrupted: the rows without a step were not run";
  return out + "\n";
}

std::string sweep_csv(const Sweep& sweep) {
  std::string out;
  for (const std::string& key : sweep.keys) out += csv_cell(key) + ",";
  out +=
      "step_time_seconds,low_seconds,high_seconds,tokens_per_second_per_gpu,mfu,bubble_fraction,"
      "overlap_efficiency,gpus,needed_bytes,capacity_bytes,fits,best,largest_cause,"
      "largest_cause_share,failure\n";
  const auto number = [](const std::optional<double>& x) {
    return x ? fmt::format("{}", *x) : std::string();
  };
  for (size_t i = 0; i < sweep.rows.size(); ++i) {
    const SweepRow& row = sweep.rows[i];
    if (!row.done) continue;
    for (const std::string& key : sweep.keys) out += csv_cell(value_in(row.point, key)) + ",";
    const Figures& f = row.figures;
    if (row.outcome.failed()) {
      out += std::string(14, ',') +
             csv_cell(row.outcome.failure_pointer + ": " + row.outcome.failure) + "\n";
      continue;
    }
    out +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},\n", f.step_seconds, f.low_seconds,
                    f.high_seconds, number(f.tokens_per_second_per_gpu), number(f.mfu),
                    f.bubble_fraction, number(f.overlap_efficiency), f.gpus, number(f.needed_bytes),
                    number(f.capacity_bytes), f.fits, i == sweep.best, f.cause, f.cause_share);
  }
  return out;
}

std::string sweep_json(const Sweep& sweep) {
  Ordered out;
  out["schema"] = "stepsim.sweep/1";
  out["version"] = STEPSIM_VERSION;
  out["vary"] = sweep.keys;
  out["complete"] = sweep.complete();
  out["best"] = nullptr;
  out["rows"] = Ordered::array();
  for (size_t i = 0; i < sweep.rows.size(); ++i) {
    const SweepRow& row = sweep.rows[i];
    if (!row.done) continue;
    if (i == sweep.best) out["best"] = out["rows"].size();
    Ordered values = Ordered::object();
    for (const Assignment& a : row.point) values[a.key] = value_json(a.value);
    const std::string& at = row.outcome.failure_pointer;
    out["rows"].push_back(
        {{"values", std::move(values)},
         {"report", row.outcome.failed() ? Ordered() : Ordered::parse(row.outcome.report)},
         {"failure", row.outcome.failed()
                         ? Ordered((at.empty() ? "" : at + ": ") + row.outcome.failure)
                         : Ordered()}});
  }
  return out.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

}  // namespace stepsim
