// The command line: flags, files, standard output and exit codes. The only place that prints.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/app/diff.h"
#include "sim/app/large_pages.h"
#include "sim/app/options.h"
#include "sim/app/processes.h"
#include "sim/app/scenario_flags.h"
#include "sim/app/search_flags.h"
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
  stepsim run scenarios/1f1b-4x8.json --html step.html      open it in a browser
  stepsim run --recipe llama32_1b_pretrain_config -tp 2 --cluster dgx-h100:1
  stepsim check run_config.yaml --cluster dgx-h100:8        which settings silently do nothing
  stepsim diff old.yaml new.yaml --cluster dgx-h100:8       which change costs what, through what
  stepsim sensitivity scenario.json                         what 1 % more of anything gives
  stepsim explain-measured scenario.json --step-time 9.6s   what would make it so slow
  stepsim explain comm_overlap.tp_comm_overlap
  stepsim list models
  stepsim lesson 1                                          what a bubble is; guess, then see
  stepsim collective all_reduce --cluster dgx-h100:2        the table of nccl-tests, predicted
  stepsim sweep s.json --vary model.tensor_model_parallel_size=1..8*2
  stepsim plan MODEL --cluster dgx-h100 --gpus 64           the fastest layout, guaranteed
  stepsim validate --collectives rows.csv                   predicted against measured
  stepsim validate --rows tests/published/moe.jsonl         the same of whole steps

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
  stepsim::app::add_scenario_flags(command, options, "the system", "the report");
  command->footer(footer);
}

constexpr const char* collective_footer = R"(
Operations: all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv.

Examples
  stepsim collective all_reduce --cluster dgx-h100                      8 GPUs of one node
  stepsim collective all_reduce --cluster dgx-h100:4 --bytes 1K..8G env_vars.NCCL_ALGO=ring
  stepsim collective all_gather --cluster dgx-b200:8 --per-node 1 --bytes 32M,1G
  stepsim collective send_recv --cluster dgx-h100:10 software.nccl=2.28.9
  stepsim collective all_to_all --cluster gb200-nvl72 --gpus 64

Keys: env_vars.NCCL_ALGO, NCCL_PROTO, NCCL_NVLS_ENABLE, NCCL_COLLNET_ENABLE, NCCL_MIN_CTAS,
NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS, NCCL_NCHANNELS_PER_NET_PEER, NCCL_CTA_POLICY; software.nccl;
cluster.* but faults, slowdown and jitter; cluster.gpus is --gpus. Without :NODES there are as many
nodes as --gpus needs, else one NVLink domain.
)";

constexpr const char* validate_footer = R"(
FILE.csv: a header line, then one measurement a line. Collectives have the columns system, gpu,
n_gpus, n_nodes, fabric, op, algo, msg_bytes, time_us and, where known, nccl_version and notes;
kernels gpu, op, dtype, m, n, k, groups, seqlen, heads, headdim, batch, causal, pass, time_us,
source, notes. tests/published/collectives.csv and kernels.csv are such files. The files of those
names in hardware/measurements say what a row's words mean, and are yours to extend.
FILE.jsonl: one measured step a line: {"id", "group", "tier", "release", "newest", "suspect",
"measured": {"step_time_seconds"}, "scenario": {...}}, as in tests/published/dense.jsonl. Models are
looked up in models/ beside the file too, systems in systems/ and systems.json. What nobody
published and Megatron needs is assumed, and said. A CSV file of your own steps has the columns
name, scenario (a file) and step_seconds.
)";

constexpr const char* calibrate_footer = R"(
Your own cluster, from the output of nccl-tests and a table of step times (columns name, scenario,
step_seconds); --collectives also takes a CSV file with the columns op, n_gpus, n_nodes, msg_bytes,
time_us:
  all_reduce_perf -b 1M -e 4G -f 2 > all_reduce.log
  stepsim calibrate --cluster dgx-h100 --collectives all_reduce.log --collectives all_gather.log
      --steps steps.csv --write my-cluster.json
  stepsim run scenario.json --cluster my-cluster.json:8

The shipped values:
  stepsim calibrate --kernels tests/published/kernels.csv --gpu h800
  stepsim calibrate --steps tests/published/dense.jsonl --steps tests/published/moe.jsonl

Printed: parameters, standard errors, residuals by group, errors of a group when it is left out.
hardware/measurements/steps.json says which shipped parameters are fitted to steps.
)";

void add_calibrate(CLI::App& app, stepsim::app::CalibrateOptions& calibrate) {
  CLI::App* fit = app.add_subcommand("calibrate", "hardware parameters fitted to measurements");
  fit->add_option("--kernels", calibrate.kernels, "measured kernels, with --gpu")
      ->type_name("FILE.csv");
  fit->add_option("--gpu", calibrate.gpu, "a file in hardware/gpus")->type_name("NAME");
  fit->add_option("--only", calibrate.only, "fit what begins so, as /gemm/bf16 or /attention")
      ->type_name("POINTER");
  fit->add_option("--cluster", calibrate.cluster, "your system: the nearest shipped one, or a file")
      ->type_name("NAME");
  fit->add_option("--collectives", calibrate.collectives,
                  "output of nccl-tests or a CSV file, measured on --cluster")
      ->type_name("FILE");
  fit->add_option("--steps", calibrate.steps, "measured steps: JSON lines or a CSV file")
      ->type_name("FILE");
  fit->add_option(
         "--intervals", calibrate.intervals,
         "measured steps, with --kernels and --collectives: how far predictions may be off")
      ->type_name("FILE.jsonl");
  fit->add_option("--write", calibrate.write_file,
                  "write the hardware file (- = stdout); of shipped steps, the folder of the files")
      ->type_name("FILE.json");
  fit->footer(calibrate_footer);
}

void add_study(CLI::App& app, stepsim::app::CollectiveOptions& collective,
               stepsim::app::ValidateOptions& validate, stepsim::app::CalibrateOptions& calibrate) {
  CLI::App* one = app.add_subcommand("collective", "what a collective costs, by size");
  one->add_option("op", collective.op, "the operation")->type_name("OP")->required();
  one->add_option("overrides", collective.overrides, "section.key=value")->type_name("KEY=VALUE");
  one->add_option("--cluster", collective.cluster, "the system (stepsim list clusters), or a file")
      ->type_name("NAME[:NODES]");
  one->add_option("--gpus", collective.gpus, "GPUs that take part; default: all")
      ->type_name("N")
      ->check(CLI::Range(2, 1 << 20));
  one->add_option("--per-node", collective.per_node, "GPUs of each node that take part")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  one->add_option("--bytes", collective.bytes, "sizes: 8M, 8M..8G (doubling) or 4K,1M,1G")
      ->type_name("SIZES")
      ->capture_default_str();
  one->add_option("--json", collective.json_file, "write rows as JSON (- = standard output)")
      ->type_name("FILE");
  one->footer(collective_footer);
  CLI::App* against = app.add_subcommand("validate", "predicted against measured, worst first");
  against->add_option("--collectives", validate.collectives, "measured collectives")
      ->type_name("FILE.csv");
  against->add_option("--kernels", validate.kernels, "measured kernels")->type_name("FILE.csv");
  against->add_option("--rows", validate.rows, "measured steps (JSON lines, or a CSV file)")
      ->type_name("FILE.jsonl");
  against->add_option("--cluster", validate.cluster, "with --rows: the system the steps ran on")
      ->type_name("NAME");
  against
      ->add_option("--svg", validate.svg_file,
                   "with --rows: a picture of predicted against measured (- = stdout)")
      ->type_name("FILE.svg");
  against
      ->add_option(
          "--html", validate.html_file,
          "write a page for a browser: scatter by group, the worst rows first\n(- = stdout)")
      ->type_name("FILE");
  against->add_option("--json", validate.json_file, "write rows and errors as JSON (- = stdout)")
      ->type_name("FILE");
  against->footer(validate_footer);
  add_calibrate(app, calibrate);
}

constexpr const char* measured_footer = R"(
Every parameter is turned alone until the simulated step takes as long as the measured one. Ranked
by the distance from its described value in standard deviations of what is known of it.

Examples
  stepsim explain-measured run_config.yaml --cluster dgx-h100:8 --step-time 9.6s
  stepsim explain-measured scenario.json --kineto rank0.pt.trace.json
  zcat rank0.pt.trace.json.gz | stepsim explain-measured scenario.json --kineto -

TRACE: torch.profiler's export_chrome_trace of one rank, with CUDA activities. Steps are its
ProfilerStep#N annotations. Communication is told apart by process group, where the trace names it,
else by operation and layout; kernels by their names.
)";

void add_measured(CLI::App* command, stepsim::app::MeasuredOptions& options) {
  command->add_option("--step-time", options.step_time, "the measured time: 9.6s, \"9600 ms\"")
      ->type_name("TIME");
  command
      ->add_option("--kineto", options.trace,
                   "a PyTorch profiler trace of one rank (- = standard input)")
      ->type_name("TRACE");
  command->add_option("--rank", options.rank, "the recorded rank; default: what the trace says")
      ->type_name("RANK")
      ->check(CLI::Range(0, 1 << 30));
  command->footer(measured_footer);
}

int command_line(int argc, char** argv, stepsim::app::Processes& processes) {
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
  run->add_option("--html", options.html_file,
                  "write a page to look at: the pipeline, its streams, memory, placement")
      ->type_name("FILE");
  run->add_flag("--unfold", options.unfold,
                "simulate every rank instead of one per class of equal ranks");
  run->add_flag("--no-contention", options.no_contention,
                "kernels and transfers share no link, no SM and no memory bandwidth");
  run->add_option("--kineto", options.kineto_file,
                  "write a trace of one device as the PyTorch profiler would")
      ->type_name("FILE");
  run->add_option("--kineto-rank", options.kineto_rank, "the simulated rank that it is of")
      ->type_name("RANK");
  run->add_flag("--why", options.why,
                "say why communication is exposed: reasons, and the worst operations");
  run->add_flag("--timing", options.timing, "add how long the simulation itself took");
  CLI::App* check = app.add_subcommand(
      "check", "resolve, validate, size and fit a scenario without simulating it");
  add_input(check, options);

  CLI::App* sensitivity = app.add_subcommand(
      "sensitivity", "how the step moves with each bandwidth, rate, latency and cost");
  add_input(sensitivity, options);
  stepsim::app::SweepOptions sweep_options;
  CLI::App* sweep = app.add_subcommand("sweep", "a table over many values of a scenario's keys");
  add_input(sweep, sweep_options.input);
  stepsim::app::add_sweep_flags(sweep, sweep_options);

  stepsim::app::PlanOptions plan_options;
  CLI::App* plan = app.add_subcommand("plan", "the fastest layout on a number of GPUs");
  add_input(plan, plan_options.input);
  stepsim::app::add_plan_flags(plan, plan_options);

  stepsim::app::MeasuredOptions measured;
  CLI::App* inverse = app.add_subcommand("explain-measured",
                                         "which single parameter explains a measured step time");
  add_input(inverse, measured.run);
  add_measured(inverse, measured);

  std::string what;
  CLI::App* list = app.add_subcommand("list", "what there is to choose from");
  list->add_option("what", what,
                   "models, clusters, scenarios, recipes, schedules, presets, keys, ...")
      ->required()
      ->type_name("WHAT");

  stepsim::app::LessonOptions lesson_options;
  CLI::App* lesson = app.add_subcommand("lesson", "a question about training at scale, answered");
  lesson->add_option("number", lesson_options.number, "which; none lists them")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  lesson->add_option("guess", lesson_options.guess, "letter of a choice: shows the answer")
      ->type_name("LETTER");
  lesson->add_option("overrides", lesson_options.overrides, "section.key=value: a row of yours")
      ->type_name("KEY=VALUE");

  std::vector<std::string> keys;
  CLI::App* explain = app.add_subcommand("explain", "what a key does, and when it does not");
  explain->add_option("key", keys, "dotted or bare key, section, environment variable or flag")
      ->type_name("KEY");
  explain
      ->add_option("--json", options.json_file,
                   "write the descriptions as JSON (- = standard output)")
      ->type_name("FILE");
  explain->allow_extras();  // -tp and --tensor-model-parallel-size are keys here

  stepsim::app::CollectiveOptions collective_options;
  stepsim::app::ValidateOptions validate_options;
  stepsim::app::CalibrateOptions calibrate_options;
  stepsim::app::DiffWords diff_words;
  stepsim::app::add_diff(app, diff_words);
  stepsim::app::DiffWords bisect_words;
  stepsim::app::add_bisect(app, bisect_words);
  add_study(app, collective_options, validate_options, calibrate_options);

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
    if (app.got_subcommand("collective")) return stepsim::app::collective(collective_options);
    if (app.got_subcommand("calibrate")) return stepsim::app::calibrate(calibrate_options);
    if (app.got_subcommand("validate")) return stepsim::app::validate(validate_options);
    if (*inverse) return stepsim::app::explain_measured(measured);
    if (*sensitivity) return stepsim::app::sensitivity(options);
    if (*plan) return stepsim::app::plan(plan_options, processes);
    if (*sweep) return stepsim::app::sweep(sweep_options, processes);
    if (app.got_subcommand("diff")) return stepsim::app::diff(diff_words);
    if (app.got_subcommand("bisect")) return stepsim::app::bisect(bisect_words);
    if (*lesson) return stepsim::app::lesson(lesson_options);
    if (*check) return stepsim::app::check(options);
    return *run ? stepsim::app::run(options) : stepsim::app::list(what);
  } catch (const stepsim::Error& error) {
    return report_error(error, asks_json(words));
  } catch (const std::bad_alloc&) {
    return report_error({options.scenario, "", "needs more memory than this machine has"},
                        options.json_file == "-");
  }
}

}  // namespace

int main(int argc, char** argv) {
  stepsim::app::keep_freed_blocks();
  stepsim::app::Processes processes(argc, argv);
  if (!processes.leads()) return processes.serve();
  return processes.leave(command_line(argc, argv, processes));
}
