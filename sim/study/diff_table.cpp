#include "sim/study/diff_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "sim/base/error.h"
#include "sim/study/diff_text.h"

namespace stepsim {
namespace {

namespace fs = std::filesystem;

std::map<std::string, PairRow> listed(const std::string& folder, bool PairRow::*side,
                                      std::map<std::string, PairRow> rows) {
  constexpr std::array<std::string_view, 6> endings{".json", ".yaml", ".yml",
                                                    ".sh",   ".bash", ".args"};
  std::error_code code;
  size_t found = 0;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const fs::path& path = entry.path();
    if (!entry.is_regular_file(code) || path.string().ends_with(".schema.json") ||
        std::find(endings.begin(), endings.end(), path.extension()) == endings.end())
      continue;
    PairRow& row = rows[path.filename().string()];
    row.name = path.filename().string();
    row.*side = true;
    ++found;
  }
  if (code) throw Error(folder, "", "cannot be listed: " + code.message());
  if (found == 0)
    throw Error(folder, "", "holds no scenario (.json, .yaml, .yml, .sh, .bash or .args)");
  return rows;
}

void describe(PairRow& row, const Diff& d, const Gate& gate) {
  row.a_seconds = d.a.report.step_seconds;
  row.b_seconds = d.b.report.step_seconds;
  row.misses = misses(d, gate);
  const std::vector<std::string> heads = diff_words::headlines(d);
  if (!heads.empty()) row.headline = heads.front();
  if (!d.by_change.empty()) row.change = diff_words::change(d, d.by_change.front());
  const auto largest = std::max_element(d.by_cause.begin(), d.by_cause.end(),
                                        [](const CauseRow& x, const CauseRow& y) {
                                          return std::abs(x.delta()) < std::abs(y.delta());
                                        });
  if (largest != d.by_cause.end() && largest->delta() != 0)
    row.cause =
        diff_words::cause(largest->name) + " " + diff_words::delta(largest->delta(), row.a_seconds);
}

void compare(PairRow& row, const DiffTable& table, const ReadSide& read, const DataPaths& data,
             const Gate& gate, const DiffOptions& options) {
  if (!row.in_a || !row.in_b) {
    row.failure = "only in " + (row.in_a ? table.a : table.b);
    return;
  }
  bool second = false;
  try {
    Scenario a = read((fs::path(table.a) / row.name).string());
    second = true;
    Scenario b = read((fs::path(table.b) / row.name).string());
    const auto outcome = diff(std::move(a), std::move(b), data, options);
    if (const Diff* done = std::get_if<Diff>(&outcome)) return describe(row, *done, gate);
    const StalledSide& stalled = std::get<StalledSide>(outcome);
    row.failure = stalled.file + ": the step cannot finish";
    row.misses.push_back("cannot finish");
  } catch (const Error& error) {
    row.failure = error.what();
    if (second && gate.refused)
      row.misses.push_back("refused");
    else
      row.bad_input = true;
  }
}

}  // namespace

DiffTable diff_folders(const std::string& a, const std::string& b, const ReadSide& read,
                       const DataPaths& data, const Gate& gate, const DiffOptions& options) {
  DiffTable table{a, b, {}};
  size_t done = 0;
  auto rows = listed(b, &PairRow::in_b, listed(a, &PairRow::in_a, {}));
  DiffOptions quiet = options;
  quiet.attribution.progress = {};
  for (auto& [name, row] : rows) {
    compare(row, table, read, data, gate, quiet);
    if (options.attribution.progress) options.attribution.progress(++done, rows.size());
    table.rows.push_back(std::move(row));
  }
  std::stable_sort(table.rows.begin(), table.rows.end(), [](const PairRow& x, const PairRow& y) {
    if (x.compared() != y.compared()) return !x.compared();
    return x.relative() > y.relative();
  });
  return table;
}

int exit_code(const DiffTable& table) {
  int code = 0;
  for (const PairRow& row : table.rows) {
    if (row.bad_input) return 2;
    if (!row.misses.empty()) code = 1;
  }
  return code;
}

}  // namespace stepsim
