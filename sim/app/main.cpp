// The command line: flags, files, standard output and exit codes. The only place that prints.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/app/options.h"
#include "sim/app/words.h"
#include "sim/base/error.h"

namespace {

constexpr int bad_input = 2;

constexpr const char* footer = R"(
Examples
  stepsim run scenarios/llama3-70b-64xh100-bf16.json
  stepsim run scenarios/llama3-70b-64xh100-bf16.json model.tensor_model_parallel_size=8
  stepsim run scenarios/llama3-70b-64xh100-bf16.json --cluster dgx-b200:8
  stepsim run scenarios/1f1b-4x8.json --trace step.json     open it in https://ui.perfetto.dev
  stepsim run --recipe llama32_1b_pretrain_config -tp 2 --cluster dgx-h100:1
  stepsim check run_config.yaml --cluster dgx-h100:8        which settings silently do nothing
  stepsim explain comm_overlap.tp_comm_overlap
  stepsim list models

A scenario is a Megatron-Bridge configuration (model, ddp, comm_overlap, mixed_precision, dataset,
train ...) plus a cluster. Any key can be overridden with its dotted name. Overlap is never an
input: it is what the simulation shows.

Exit codes: 0 ok; 1 runs, but does not fit in memory or cannot finish; 2 bad input (one line says
what and where).
)";

int report_error(const stepsim::Error& error, bool as_json) {
  if (as_json) {
    const nlohmann::ordered_json body{
        {"error",
         {{"file", error.file()}, {"pointer", error.pointer()}, {"message", error.message()}}}};
    std::puts(body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  std::fputs(fmt::format("{}\n", error.what()).c_str(), stderr);
  return bad_input;
}

/// `--json -` or `--json=-` among words that could not all be read.
bool asks_json(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == "--json=-" || (words[i] == "-" && i > 0 && words[i - 1] == "--json"))
      return true;
  return false;
}

/// What every command that takes a scenario has in common.
void add_input(CLI::App* command, stepsim::app::RunOptions& options) {
  command
      ->add_option("scenario", options.scenario,
                   "scenario (JSON), Bridge YAML, or Megatron-LM script or .args file")
      ->type_name("SCENARIO");
  command->add_option("overrides", options.overrides, "section.key=value, applied in order")
      ->type_name("KEY=VALUE");
  command
      ->add_option("--recipe", options.recipe,
                   "a Megatron-Bridge recipe in place of a file (stepsim list recipes)")
      ->type_name("NAME");
  command
      ->add_option("--cluster", options.cluster,
                   "the system: a name from `stepsim list clusters`, or a file")
      ->type_name("NAME[:NODES]");
  command
      ->add_option("--dialect", options.dialect,
                   "whose defaults and checks hold: bridge or megatron-lm")
      ->type_name("NAME")
      ->check(CLI::IsMember({"bridge", "megatron-lm"}));
  command->add_option("--json", options.json_file, "write the report as JSON (- = standard output)")
      ->type_name("FILE");
  command->footer(footer);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"stepsim: how long one training step of a large model takes, and why.", "stepsim"};
  app.set_version_flag("--version", "stepsim " STEPSIM_VERSION);
  app.footer(footer);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);

  stepsim::app::RunOptions options;
  CLI::App* run = app.add_subcommand("run", "simulate one step and report it");
  add_input(run, options);
  run->add_option("--trace", options.trace_file,
                  "write a Chrome trace: a process per device, a thread per stream")
      ->type_name("FILE");
  run->add_flag("--unfold", options.unfold,
                "simulate every rank instead of one per class of equal ranks");
  run->add_flag("--no-contention", options.no_contention,
                "transfers never share a link (for the classroom)");
  run->add_flag("--timing", options.timing, "add how long the simulation itself took");
  CLI::App* check = app.add_subcommand(
      "check", "resolve, validate, size and fit a scenario without simulating it");
  add_input(check, options);

  std::string what;
  CLI::App* list = app.add_subcommand("list", "what there is to choose from");
  list->add_option("what", what, "models, clusters, scenarios, recipes, schedules, presets or keys")
      ->required()
      ->type_name("WHAT");

  std::vector<std::string> keys;
  CLI::App* explain = app.add_subcommand("explain", "what a key does, and when it does not");
  explain->add_option("key", keys, "dotted or bare key, section, environment variable or flag")
      ->type_name("KEY");
  explain
      ->add_option("--json", options.json_file,
                   "write the descriptions as JSON (- = standard output)")
      ->type_name("FILE");
  explain->allow_extras();  // -tp and --tensor-model-parallel-size are keys here

  const std::vector<std::string> words = stepsim::app::with_short_flags(argc, argv);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return report_error(stepsim::app::word_error(app, e, words), asks_json(words));
  }
  for (const std::string& flag : explain->remaining()) keys.push_back(flag);
  try {
    if (*explain) return stepsim::app::explain(keys, options.json_file);
    if (*check) return stepsim::app::check(options);
    return *run ? stepsim::app::run(options) : stepsim::app::list(what);
  } catch (const stepsim::Error& error) {
    return report_error(error, options.json_file == "-");
  } catch (const std::bad_alloc&) {
    return report_error({options.scenario, "", "needs more memory than this machine has"},
                        options.json_file == "-");
  }
}
