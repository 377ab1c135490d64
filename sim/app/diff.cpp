// `stepsim diff A B`, `stepsim diff OLD/ NEW/` and `stepsim bisect GOOD BAD`.
#include "sim/app/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <span>

#include "sim/app/output.h"
#include "sim/app/progress.h"
#include "sim/app/scenario_flags.h"
#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/files.h"
#include "sim/report/trace.h"
#include "sim/study/bisect.h"
#include "sim/study/diff_table.h"
#include "sim/study/diff_text.h"

namespace stepsim::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* diff_footer = R"(
A and B are scenarios of any kind (JSON, Bridge YAML, Megatron-LM script or .args file) or recipes
by name. Without B, key=value words make it from A; with B they hold for both, as --cluster does.
Two folders are compared file by file of the same name.

Examples
  stepsim diff scenarios/llama3-70b-64xh100-bf16.json '~model.sequence_parallel'
  stepsim diff old/run_config.yaml new/run_config.yaml --cluster dgx-h100:8
  stepsim diff llama3_70b_pretrain_config model.context_parallel_size=4 --cluster dgx-h100:8
  stepsim diff scenarios/pairs/old scenarios/pairs/new --fail-above 2% --markdown

By change: Shapley values, which add up to the difference. Up to ten changes every combination of
them is simulated; beyond, random orders are, and the standard error stands beside. Changes that
only work together (TP 8 -> 4 where the batch no longer divides) count as one.

Exit codes: 0 ok; 1 B is above --fail-above, meets a --fail-on, does not fit in memory or cannot
finish; 2 bad input.
)";

constexpr const char* bisect_footer = R"(
GOOD and BAD as A and B of `stepsim diff`.

Examples
  stepsim bisect good.yaml bad.yaml --cluster dgx-h100:8
  stepsim bisect good.json bad.json --share 50%

Exit codes: 0 ok; 1 a step cannot finish; 2 bad input.
)";

void add_inputs(CLI::App* command, DiffWords& words, const char* inputs) {
  command->add_option("inputs", words.inputs, inputs)->type_name("A [B] [KEY=VALUE ...]");
  add_scenario_flags(command, words, "the system of both", "everything");
  command->add_flag(
      "--exact", words.exact,
      "simulate every combination of up to ten changes in full, however long it takes");
}

/// What the words name: one or two inputs, and overrides.
struct Sides {
  std::string a, b;  ///< b "": A with the overrides
  std::vector<std::string> overrides;
};

Sides sides_of(const DiffWords& words) {
  Sides sides;
  for (const std::string& word : words.inputs) {
    std::error_code code;
    const bool path = fs::exists(word, code);
    if (!path && (word.find('=') != std::string::npos || word.starts_with('~')))
      sides.overrides.push_back(word);
    else if (sides.a.empty())
      sides.a = word;
    else if (sides.b.empty())
      sides.b = word;
    else
      throw Error("<command line>", "/inputs",
                  "two scenarios are compared; '" + printable(word) + "' is a third");
  }
  if (sides.a.empty())
    throw Error("<command line>", "/inputs", "expected a scenario, then another or key=value");
  if (sides.b.empty() && sides.overrides.empty())
    throw Error(
        "<command line>", "/inputs",
        "expected a second scenario, or key=value words that change '" + printable(sides.a) + "'");
  const std::string* outputs[] = {&words.json_file, &words.trace_file, &words.html_file};
  for (size_t i = 0; i < 3; ++i)
    for (size_t k = i + 1; k < 3; ++k)
      if (!outputs[i]->empty() && !outputs[k]->empty() && same_file(*outputs[i], *outputs[k]))
        throw Error("<command line>", "/inputs",
                    "two outputs would both be '" + printable(*outputs[i]) + "'");
  for (const std::string* file : {&words.json_file, &words.trace_file, &words.html_file})
    for (const std::string* side : {&sides.a, &sides.b})
      if (!file->empty() && !side->empty() && same_file(*file, *side))
        throw Error("<command line>", "/inputs",
                    "would overwrite the scenario '" + printable(*side) + "'");
  return sides;
}

Scenario read_side(const std::string& name, const DiffWords& words,
                   std::vector<std::string> overrides, const DataPaths& data) {
  if (!words.dialect.empty()) overrides.push_back("_dialect=" + words.dialect);
  std::error_code code;
  std::string file = name;
  if (!fs::exists(name, code))
    if (const auto recipe = locate_recipe(name, data)) file = recipe->string();
  return read_scenario(file, overrides, words.cluster, data);
}

int report_stall(const StalledSide& side) {
  std::string text = fmt::format("{}: the step cannot finish: after {:.6g} s nothing moves\n",
                                 side.file, side.stall.reached_seconds);
  for (const std::string& wait : side.stall.waits) text += fmt::format("  {}\n", wait);
  std::fputs(text.c_str(), stderr);
  return 1;
}

DiffOptions options_of(const DiffWords& words) {
  DiffOptions options;
  options.attribution.whole = words.exact;
  options.attribution.progress = terminal_progress("steps");
  options.keep_runs = !words.trace_file.empty() || !words.html_file.empty();
  return options;
}

/// The text that was asked for, where nothing else takes standard output.
void write_text(const DiffWords& words, const std::string& json, const std::string& text) {
  if (!words.json_file.empty()) write_all(words.json_file, json);
  if (words.json_file != "-" && words.trace_file != "-" && words.html_file != "-")
    write_all("-", text);
}

int diff_tables(const DiffWords& words, const Sides& sides, const DataPaths& data,
                const Gate& gate) {
  if (!words.trace_file.empty() || !words.html_file.empty())
    throw Error("<command line>", words.html_file.empty() ? "/--trace" : "/--html",
                "is for two scenarios, not for two folders");
  const DiffTable table = diff_folders(
      sides.a, sides.b,
      [&](const std::string& path) { return read_side(path, words, sides.overrides, data); }, data,
      gate, options_of(words));
  write_text(words, table_json(table), words.markdown ? table_markdown(table) : table_text(table));
  return exit_code(table);
}

Gate gate_of(const DiffWords& words) {
  Gate gate;
  if (!words.fail_above.empty()) read_fail_above(gate, words.fail_above, "/--fail-above");
  for (const std::string& word : words.fail_on) read_fail_on(gate, word, "/--fail-on");
  return gate;
}

}  // namespace

void add_diff(CLI::App& app, DiffWords& words) {
  CLI::App* command =
      app.add_subcommand("diff", "what changed between two scenarios, its cost, through what");
  add_inputs(command, words, "A, B and key=value words; two folders; or A and key=value words");
  command->add_flag("--markdown", words.markdown, "print Markdown, for a pull request");
  command
      ->add_option("--trace", words.trace_file,
                   "write both timelines as one Chrome trace, A's processes before B's")
      ->type_name("FILE");
  command
      ->add_option("--html", words.html_file,
                   "write a page for a browser: waterfalls by change and by cause, both timelines\n"
                   "on one axis, gates, memory (- = standard output)")
      ->type_name("FILE");
  command
      ->add_option("--fail-above", words.fail_above,
                   "exit with 1 when B is slower by more: 2%, or 50ms")
      ->type_name("LIMIT");
  command
      ->add_option("--fail-on", words.fail_on,
                   "exit with 1 also on: silent (a setting newly changed without an error), error "
                   "(B is refused), does-not-fit (always on)")
      ->type_name("WHAT,...")
      ->delimiter(',');
  command->footer(diff_footer);
}

void add_bisect(CLI::App& app, DiffWords& words) {
  CLI::App* command = app.add_subcommand(
      "bisect", "the smallest set of changes that explains a share of the difference");
  add_inputs(command, words, "GOOD, BAD and key=value words, or GOOD and key=value words");
  command->add_option("--share", words.share, "of the difference that is to be explained")
      ->type_name("PERCENT")
      ->capture_default_str();
  command->footer(bisect_footer);
}

int diff(const DiffWords& words) {
  const DataPaths data = find_data();
  const Sides sides = sides_of(words);
  const Gate gate = gate_of(words);
  std::error_code code;
  if (!sides.b.empty() && fs::is_directory(sides.a, code) && fs::is_directory(sides.b, code))
    return diff_tables(words, sides, data, gate);
  const bool one = sides.b.empty();
  Scenario a = read_side(sides.a, words, one ? std::vector<std::string>{} : sides.overrides, data);
  std::optional<Scenario> b;
  try {
    b = read_side(one ? sides.a : sides.b, words, sides.overrides, data);
  } catch (const Error& error) {
    if (!gate.refused) throw;
    std::fputs(fmt::format("refused: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
  auto outcome = stepsim::diff(std::move(a), std::move(*b), data, options_of(words));
  if (const StalledSide* stalled = std::get_if<StalledSide>(&outcome))
    return report_stall(*stalled);
  const Diff& found = std::get<Diff>(outcome);
  Output trace(words.trace_file);
  if (trace.asked()) {
    const std::vector<TracedStep> steps{{"A: ", found.a.run->lowered, found.a.run->timeline},
                                        {"B: ", found.b.run->lowered, found.b.run->timeline}};
    write_traces(trace.stream(), steps);
    trace.close();
  }
  const std::vector<std::string> missed = misses(found, gate);
  if (!words.html_file.empty()) write_all(words.html_file, diff_html(found, missed));
  std::string text = words.markdown ? diff_markdown(found) : diff_text(found);
  if (!missed.empty() && words.markdown)
    text += fmt::format("\n**FAIL**: {}\n", fmt::join(missed, "; "));
  write_text(words, diff_json(found), text);
  if (!missed.empty())
    std::fputs(fmt::format("fails: {}\n", fmt::join(missed, "; ")).c_str(), stderr);
  return missed.empty() ? 0 : 1;
}

int bisect(const DiffWords& words) {
  const DataPaths data = find_data();
  const Sides sides = sides_of(words);
  Gate share;
  if (words.share.ends_with('%')) read_fail_above(share, words.share, "/--share");
  if (!share.most_relative || *share.most_relative <= 0 || *share.most_relative > 1)
    throw Error(
        "<command line>", "/--share",
        "expected a percentage above 0 and up to 100%; got '" + printable(words.share) + "'");
  const bool one = sides.b.empty();
  Scenario a = read_side(sides.a, words, one ? std::vector<std::string>{} : sides.overrides, data);
  Scenario b = read_side(one ? sides.a : sides.b, words, sides.overrides, data);
  const auto outcome = stepsim::diff(std::move(a), std::move(b), data, options_of(words));
  if (const StalledSide* stalled = std::get_if<StalledSide>(&outcome))
    return report_stall(*stalled);
  const Diff& found = std::get<Diff>(outcome);
  const Bisection set = stepsim::bisect(found, *share.most_relative, data);
  write_text(words, bisection_json(found, set, *share.most_relative),
             bisection_text(found, set, *share.most_relative));
  return 0;
}

}  // namespace stepsim::app
