#include "sim/app/search_flags.h"

namespace stepsim::app {

namespace {

constexpr const char* sweep_footer = R"(
VALUES are a list (1,2,4), a range (1..8, 0..32+8, 1..64*2) or both (1,2,8..32*2), as overrides are
written; commas inside [ ] and quotes belong to a value. Several --vary are multiplied, the last one
fastest; all --zip advance together. The key `cluster` takes NAME[:NODES]. --from FILE is a JSON or
YAML list of objects, each the keys of one point.

Examples
  stepsim sweep scenarios/llama3-70b-64xh100-bf16.json --vary model.tensor_model_parallel_size=1..8*2
  stepsim sweep s.json --vary cluster.nodes=4..64*2 --csv scaling.csv --html scaling.html
  stepsim sweep s.json --vary cluster=dgx-h100:8,dgx-b200:8 --vary train.micro_batch_size=1,2,4
  stepsim sweep s.json --zip model.tensor_model_parallel_size=2,4,8 \
                       --zip model.pipeline_model_parallel_size=8,4,2
  stepsim sweep s.json --from points.yaml --resume points.journal train.global_batch_size=512

The table marks the best point that fits: the shortest step where all rows train the same tokens on
as many GPUs, else the most tokens per second and GPU. Each row says why: the largest part of its
step beside compute, or why it cannot be. Ctrl-C prints what is done; with --resume FILE every
finished point is kept there, and the same command goes on where it stopped. Many machines do it
together, with the same bytes as a result: ./dev mpi, then mpirun stepsim-mpi sweep ...

Exit codes: 0 some point fits, 1 none does, 2 bad input, 130 interrupted.
)";

constexpr const char* plan_footer = R"(
SCENARIO is a model's name (stepsim list models) with --cluster and --gpus, or a scenario, or
--recipe: then its settings are options beside the usual ones, all else in it stays, and its own
layout is ranked.

What is searched: TP inside an NVLink domain, PP, VP, CP, EP, ETP, micro batch size, recompute, TP
overlap, sharding and overlap of the optimizer, dispatcher and overlap of experts. An override holds
its key; --vary KEY=VALUES gives its values, of any key: mixed_precision=bf16_mixed,... adds a
choice. Every layout is resolved and sized; what does not fit, and what provably cannot be among
the first (--top), is not simulated. So the ranking is that of simulating all of them. Layouts that
are the same once Bridge's gates have spoken count once. --sample N says where a scenario's own
layout stands in a space too large to search, with its interval of 95 %. Many machines search
together, with the same bytes as a result: ./dev mpi, then mpirun stepsim-mpi plan ...

Examples
  stepsim plan MODEL --cluster dgx-h100 --gpus 64
  stepsim plan MODEL --cluster dgx-h100 --gpus 64..512*2 --tokens 15T --price 2.5
  stepsim plan MODEL --cluster dgx-h100 --tokens 1T --target 30d
  stepsim plan scenarios/llama3-70b-64xh100-bf16.json --save best.json
  stepsim plan --recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config --sample 2000
  stepsim plan --recipe llama3_70b_pretrain_64gpu_h100_bf16_config --as-overrides
  stepsim plan MODEL --cluster dgx-b200 --gpus 64 --vary model.context_parallel_size=1 \
               --vary mixed_precision=bf16_mixed,bf16_with_mxfp8_mixed

Without --seq and --gbs a model trains on 8192 tokens, and on as many sequences as the most GPUs, at
least 128. How long a run takes counts failures (hardware/operation/defaults.json has the rates and
their sources; 0 turns one off). Money and energy are of the GPUs alone.

Exit codes: 0 found; 1 nothing fits, or not in the time or for the money; 2 bad input;
130 interrupted.
)";

/// `of`: what each thread simulates.
void add_threads_flag(CLI::App* command, int& threads, const std::string& of) {
  command->add_option("--threads", threads, of + " at a time in a process; default: all cores")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

}  // namespace

void add_plan_flags(CLI::App* command, PlanOptions& options) {
  const auto text = [&](const char* flag, std::string& value, const char* type, const char* what) {
    command->add_option(flag, value, what)->type_name(type);
  };
  const auto number = [&](const char* flag, double& value, const char* type, const char* what) {
    command->add_option(flag, value, what)->type_name(type)->check(CLI::NonNegativeNumber);
  };
  text("--gpus", options.gpus, "N,...", "numbers of GPUs: 64, or 64,128, or 64..1024*2");
  command->add_option("--seq", options.sequence, "tokens of a sequence")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--gbs", options.global_batch, "sequences of a step")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--vary", options.vary, "values of a key, in place of the usual ones")
      ->type_name("KEY=VALUES")
      ->allow_extra_args(false);
  command->add_flag("--tp-across-domains", options.tp_across_domains,
                    "TP may leave its NVLink domain");
  command->add_option("--top", options.top, "rows that are ranked")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--no-frontier", options.no_frontier, "do not look for layouts of less memory");
  command->add_flag("--brute-force", options.brute_force, "simulate everything that fits");
  command
      ->add_option("--sample", options.sample,
                   "look at N layouts drawn evenly: a rank in a space too large to search")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  text("--against", options.against, "FILE", "a scenario to be ranked among the layouts");
  text("--save", options.save_file, "FILE", "write the winner as a scenario");
  command
      ->add_option(
          "--html", options.input.html_file,
          "write a page for a browser: frontier of time and memory, ranking, what it costs\n"
          "(- = standard output)")
      ->type_name("FILE");
  command->add_flag("--as-overrides", options.as_overrides,
                    "print the winner as Bridge's dotted overrides, nothing else");
  command->add_flag("--guide", options.guide,
                    "Megatron-Bridge's starting points, row by row, against what is found");
  command->add_option("--only", options.only, "with --guide: this model's row")
      ->type_name("MODEL")
      ->allow_extra_args(false);
  text("--tokens", options.tokens, "N", "of the whole run: 15T, 300B");
  text("--max-days", options.max_days, "DAYS", "longest run: 30d");
  text("--target", options.target, "DAYS", "find the GPUs (doubling) that are done by then");
  number("--price", options.price, "MONEY", "of a GPU for an hour");
  number("--budget", options.budget, "MONEY", "most that the run may cost");
  number("--watts", options.watts, "W", "of a GPU with its share of the system");
  number("--gpu-mtbf", options.gpu_mtbf, "HOURS", "of one GPU between failures");
  number("--link-mtbf", options.link_mtbf, "HOURS", "of one GPU's link");
  number("--host-mtbf", options.host_mtbf, "HOURS", "of one host");
  number("--checkpoint", options.checkpoint, "SECONDS", "that one stops training for");
  number("--restart", options.restart, "SECONDS", "from a failure to training again");
  number("--interval", options.interval, "SECONDS", "between checkpoints; default: Young's");
  add_threads_flag(command, options.threads, "layouts");
  command->add_flag("--timing", options.input.timing, "add how many layouts a second");
  command->footer(plan_footer);
}

void add_sweep_flags(CLI::App* command, SweepOptions& options) {
  command->add_option("--vary", options.vary, "values of a key; several are multiplied")
      ->type_name("KEY=VALUES");
  command->add_option("--zip", options.zip, "values of keys that advance together")
      ->type_name("KEY=VALUES");
  command->add_option("--from", options.from, "a list of points (JSON or YAML)")->type_name("FILE");
  command->add_option("--csv", options.csv_file, "write rows as CSV (- = standard output)")
      ->type_name("FILE");
  command
      ->add_option("--svg", options.svg_file,
                   "write a picture: a line, or a heat map of the first two axes")
      ->type_name("FILE");
  command
      ->add_option(
          "--html", options.input.html_file,
          "write a page for a browser: lines or a heat map, where each step goes, all rows\n"
          "(- = standard output)")
      ->type_name("FILE");
  command
      ->add_option("--resume", options.resume_file,
                   "keep finished points here, and take from here what is done already")
      ->type_name("FILE");
  add_threads_flag(command, options.threads, "points");
  for (const char* name : {"--vary", "--zip"}) command->get_option(name)->allow_extra_args(false);
  command->footer(sweep_footer);
}

}  // namespace stepsim::app
