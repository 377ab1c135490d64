// costs.kernels: laws of given times of single kernels.
#include <doctest/doctest.h>

#include "sim/config/kernel_times.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;
using nlohmann::json;

namespace {

json llama(const Layout& l = {.layers = 2, .sequence = 8192}) {
  return scenario_json("llama3-8b", "dgx-h100", l);
}

Simulation with_times(json scenario, const json& kernels) {
  scenario["costs"]["kernels"] = kernels;
  return step_of(read(scenario));
}

/// Duration at full speed of every task of this operation and pass, in order.
std::vector<double> durations(const Simulation& run, OpKind op, Pass pass) {
  std::vector<double> list;
  const TaskGraph& graph = run.lowered.graph;
  for (uint32_t t = 0; t < graph.task_count(); ++t) {
    const Label label = Label::unpack(graph.labels[t]);
    if (label.op == op && label.pass == pass) list.push_back(graph.durations_seconds[t]);
  }
  return list;
}

double all_of(const Simulation& run, bool (*holds)(OpKind)) {
  double sum = 0;
  for (const OpRow& row : op_rows)
    if (holds(row.op))
      for (size_t p = 0; p < pass_names.size(); ++p)
        for (const double d : durations(run, row.op, static_cast<Pass>(p))) sum += d;
  return sum;
}

}  // namespace

TEST_CASE("law: kernels at a factor of 1 change no bit, and no finding") {
  const Simulation plain = step_of(read(llama()));
  json ones;
  for (const KernelKindRow& kind : kernel_kinds()) ones[std::string(kind.name)] = 1;
  for (const OpRow& row : op_rows)
    if (is_kernel(row.op)) ones[std::string(row.name)] = 1.0;
  const Simulation same = with_times(llama(), ones);
  CHECK(same.timeline.finish_seconds == plain.timeline.finish_seconds);
  CHECK(same.timeline.start_seconds == plain.timeline.start_seconds);
  json scenario = llama();
  scenario["costs"]["kernels"] = ones;
  CHECK(read(scenario).findings.size() == read(llama()).findings.size());
}

// One device that never waits for its host: what kernels take longer the step takes longer.
TEST_CASE("law: twice the time of a kind adds that kind's time, to the step and to its ledger") {
  const Simulation plain = step_of(read(llama()));
  for (const KernelKindRow& kind : kernel_kinds()) {
    const double own = all_of(plain, kind.holds);
    const Simulation twice = with_times(llama(), {{std::string(kind.name), 2}});
    CAPTURE(kind.name);
    CHECK((own > 0) == (kind.name != "grouped gemm"));
    const Cause cause = kind.name == "optimizer" ? Cause::optimizer : Cause::compute;
    const auto more = [&](Cause c) {
      return twice.report.devices[0].ledger[c] - plain.report.devices[0].ledger[c];
    };
    CHECK(twice.report.step_seconds - plain.report.step_seconds ==
          doctest::Approx(own).epsilon(1e-9));
    CHECK(more(cause) == doctest::Approx(own).epsilon(1e-9));
  }
}

TEST_CASE("law: a given time replaces that of each such kernel; pieces share it") {
  const json given{{"fc1_gemm forward", "3 ms"}};
  for (const bool overlapped : {false, true}) {
    Layout l{
        .tp = 4, .microbatches = 1, .sp = true, .tp_overlap = overlapped, .recompute = "uniform"};
    const Simulation plain = step_of(read(llama(l))), run = with_times(llama(l), given);
    for (const Pass pass : {Pass::forward, Pass::recompute}) {
      const std::vector<double> before = durations(plain, OpKind::fc1_gemm, pass),
                                pieces = durations(run, OpKind::fc1_gemm, pass);
      CHECK(pieces.size() == (overlapped ? 4 : 1));
      double sum = 0;
      for (size_t i = 0; i < pieces.size(); ++i) {
        CHECK(pieces[i] != before[i]);
        sum += pieces[i];
      }
      CHECK(sum == doctest::Approx(3e-3).epsilon(1e-12));
    }
    CHECK(durations(run, OpKind::fc1_gemm, Pass::backward_weight) ==
          durations(plain, OpKind::fc1_gemm, Pass::backward_weight));
  }
  json slow = llama();
  slow["cluster"]["faults"] = {{{"rank", 0}, {"compute_factor", 0.5}}};
  CHECK(durations(with_times(slow, given), OpKind::fc1_gemm, Pass::forward) ==
        std::vector<double>(4, 2 * 3e-3));
}

TEST_CASE("law: the closest name of a kernel wins, whatever their order") {
  const Simulation plain = step_of(read(llama()));
  const Simulation run = with_times(
      llama(),
      {{"fc1 gemm backward weight", 3}, {"fc1 gemm", 1}, {"gemm", 2}, {"elementwise", 0.5}});
  const auto times = [&](OpKind op, Pass pass, double factor) {
    std::vector<double> expected = durations(plain, op, pass);
    for (double& d : expected) d *= factor;
    CHECK_FALSE(expected.empty());
    CHECK(durations(run, op, pass) == expected);
  };
  times(OpKind::fc1_gemm, Pass::backward_weight, 3);
  times(OpKind::fc1_gemm, Pass::forward, 1);
  times(OpKind::qkv_gemm, Pass::forward, 2);
  times(OpKind::output_gemm, Pass::forward, 2);
  times(OpKind::norm, Pass::forward, 0.5);
  times(OpKind::attention, Pass::forward, 1);
}
