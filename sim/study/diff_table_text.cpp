#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/report/json_parts.h"
#include "sim/report/page.h"
#include "sim/study/diff_table.h"
#include "sim/study/diff_text.h"

namespace stepsim {
namespace {

std::string verdict(const PairRow& row) {
  if (row.bad_input) return "bad input";
  if (!row.misses.empty()) return "FAIL";
  return row.compared() ? "ok" : "-";
}

std::string summary(const DiffTable& table) {
  const auto count = [&](auto is) {
    return std::count_if(table.rows.begin(), table.rows.end(), is);
  };
  const auto compared = count([](const PairRow& r) { return r.compared(); });
  const auto failed = count([](const PairRow& r) { return !r.misses.empty(); });
  const auto alone = count([](const PairRow& r) { return r.in_a != r.in_b; });
  const auto bad = count([](const PairRow& r) { return r.bad_input; });
  std::string text =
      fmt::format("{} pair{} compared, {} failed", compared, compared == 1 ? "" : "s", failed);
  if (alone > 0) text += fmt::format(", {} without a counterpart", alone);
  if (bad > 0) text += fmt::format(", {} not readable", bad);
  return text;
}

/// What a table in a pull request must not take as its own.
std::string table_cell(std::string text, size_t most = 200) {
  for (char& c : text)
    if (c < ' ' || c > '~' || c == '|' || c == '`' || c == '<') c = ' ';
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

std::string what(const PairRow& row) {
  if (!row.failure.empty()) return row.failure;
  return row.headline.empty() ? row.change : row.headline;
}

}  // namespace

std::string table_text(const DiffTable& table) {
  Page page(page_width);
  page.line("A  {}", table.a);
  page.line("B  {}", table.b);
  page.line("{}", summary(table));
  page.blank();
  page.line("{:<36}{:>13}{:>13}{:>10}  {}", "scenario", "A", "B", "change", "gate");
  for (const PairRow& row : table.rows) {
    if (row.compared())
      page.line("{:<36}{:>13}{:>13}{:>8.2f} %  {}", row.name.substr(0, 35),
                diff_words::step(row.a_seconds), diff_words::step(row.b_seconds),
                row.relative() * 100, verdict(row));
    else
      page.line("{:<36}{:>36}  {}", row.name.substr(0, 35), "", verdict(row));
    if (!row.misses.empty() && row.compared()) page.list("    ", row.misses, 1);
    if (!what(row).empty()) page.paragraph("    ", what(row), 1);
  }
  return page.text();
}

std::string table_markdown(const DiffTable& table) {
  std::string text = fmt::format("**{}** (`{}` against `{}`)\n\n", summary(table),
                                 table_cell(table.b), table_cell(table.a));
  text +=
      "| scenario | A | B | change | gate | largest change | through |\n"
      "|---|---:|---:|---:|---|---|---|\n";
  for (const PairRow& row : table.rows) {
    std::string gate = verdict(row);
    if (gate == "FAIL") gate = fmt::format("**FAIL**: {}", fmt::join(row.misses, "; "));
    if (row.compared())
      text += fmt::format("| {} | {} | {} | {:+.2f} % | {} | {} | {} |\n", table_cell(row.name),
                          diff_words::step(row.a_seconds), diff_words::step(row.b_seconds),
                          row.relative() * 100, table_cell(gate), table_cell(what(row)),
                          table_cell(row.cause));
    else
      text += fmt::format("| {} | | | | {} | {} | |\n", table_cell(row.name), table_cell(gate),
                          table_cell(what(row)));
  }
  return text;
}

std::string table_json(const DiffTable& table) {
  Json rows = Json::array();
  for (const PairRow& row : table.rows)
    rows.push_back(
        {{"name", row.name},
         {"a_seconds", row.compared() ? Json(row.a_seconds) : Json()},
         {"b_seconds", row.compared() ? Json(row.b_seconds) : Json()},
         {"delta_seconds", row.compared() ? Json(row.b_seconds - row.a_seconds) : Json()},
         {"relative", row.compared() ? Json(row.relative()) : Json()},
         {"misses", row.misses},
         {"change", row.change},
         {"headline", row.headline},
         {"cause", row.cause},
         {"failure", row.failure.empty() ? Json() : Json(row.failure)}});
  const Json out{
      {"schema", "stepsim.diff-table/1"}, {"a", table.a}, {"b", table.b}, {"rows", rows}};
  return out.dump(2) + "\n";
}

}  // namespace stepsim
