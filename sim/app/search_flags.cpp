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
  stepsim sweep s.json --vary cluster.nodes=4..64*2 --csv scaling.csv --svg scaling.svg
  stepsim sweep s.json --vary cluster=dgx-h100:8,dgx-b200:8 --vary train.micro_batch_size=1,2,4
  stepsim sweep s.json --zip model.tensor_model_parallel_size=2,4,8 \
                       --zip model.pipeline_model_parallel_size=8,4,2
  stepsim sweep s.json --from points.yaml --resume points.journal train.global_batch_size=512

The table marks the best point that fits: the shortest step where all rows train the same tokens on
as many GPUs, else the most tokens per second and GPU. Each row says why: the largest part of its
step beside compute, or why it cannot be. Ctrl-C prints what is done; with --resume FILE every
finished point is kept there, and the same command goes on where it stopped.

Exit codes: 0 some point fits, 1 none does, 2 bad input, 130 interrupted.
)";

}  // namespace

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
      ->add_option("--resume", options.resume_file,
                   "keep finished points here, and take from here what is done already")
      ->type_name("FILE");
  command->add_option("--threads", options.threads, "points at a time; default: all cores")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  for (const char* name : {"--vary", "--zip"}) command->get_option(name)->allow_extra_args(false);
  command->footer(sweep_footer);
}

}  // namespace stepsim::app
