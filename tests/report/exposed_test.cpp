// Why communication is exposed: one small step a reason, with figures read off a drawing, and the
// law that reasons add up to the ledger.
#include "sim/report/exposed.h"

#include <doctest/doctest.h>

#include "tests/report/sample.h"

using namespace stepsim;
using Role = ProcessorClaim::Role;

namespace {

ExposedTable why(RanStep ran, const std::vector<ClosedGate>& gates = {}) {
  ran.step.memory.resize(ran.step.devices.size());
  ran.step.memory_events.resize(ran.step.devices.size());
  const Report report = make_report(sample_scenario(), ran.step, ran.timeline);
  ExposedTable table = exposed(ran.step, ran.timeline, report, gates);
  // The law holds in every case.
  for (size_t c = 1; c < comm_class_count; ++c) {
    const auto& row = table.by_class[c];
    const double ledger = report.ledger.seconds[static_cast<size_t>(Cause::exposed_tp) + c - 1];
    CHECK((row ? row->seconds : 0) == doctest::Approx(ledger).epsilon(1e-12));
    if (!row) continue;
    double sum = 0, names = 0;
    for (const double s : row->reasons) sum += s;
    for (const ExposedOp& op : row->offenders) names += op.seconds;
    CHECK(sum == doctest::Approx(row->seconds).epsilon(1e-12));
    CHECK(names == doctest::Approx(row->seconds).epsilon(1e-12));
  }
  return table;
}

const ExposedClass& of(const ExposedTable& table, CommClass c) {
  return table.by_class[static_cast<size_t>(c)].value();
}
double part(const ExposedClass& row, ExposedReason r) {
  return row.reasons[static_cast<size_t>(r)];
}

constexpr Label forward{.pass = Pass::forward}, backward{.pass = Pass::backward};

}  // namespace

TEST_CASE("exposed: what the next kernel needs, and nothing else is ready") {
  // compute [0, 2], transfer [1, 5], compute from 5.
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1);
  s.compute(0, 1);
  s.compute(0, 1, {s.add(0, Stream::tp, OpKind::tp_all_gather, 4, {a}, {.layer = 3})});
  const ExposedTable table = why(std::move(s).run());
  const ExposedClass& tp = of(table, CommClass::tp);
  CHECK(tp.seconds == 3);
  CHECK(tp.hidden_seconds == 1);
  CHECK(part(tp, ExposedReason::dependency) == 3);
  REQUIRE(tp.offenders.size() == 1);
  CHECK(describe(tp.offenders[0]) == "tp all-gather forward L3, stage 0");
  CHECK_FALSE(table.by_class[static_cast<size_t>(CommClass::dp)]);
}

TEST_CASE("exposed: an earlier operation holds the communicator") {
  // Both are ready at 0 and run [0, 6] and [6, 10]; alone the second would have been over at 4.
  const auto step = [](double kernel, Label second) {
    SmallStep s(one_device);
    s.compute(0, kernel);
    s.add(0, Stream::tp, OpKind::tp_all_gather, 6, {}, {.part = 1, .layer = 3});
    s.compute(0, 1, {s.add(0, Stream::tp, OpKind::tp_all_gather, 4, {}, second)});
    return why(std::move(s).run());
  };
  const Label other{.layer = 4}, piece{.part = 2, .layer = 3};
  const ExposedTable hidden = step(6, other);
  CHECK(of(hidden, CommClass::tp).seconds == 4);
  CHECK(part(of(hidden, CommClass::tp), ExposedReason::communicator_busy) == 4);
  // Idle from 1 on: alone it would have exposed [1, 4].
  const ExposedTable idle = step(1, other);
  CHECK(part(of(idle, CommClass::tp), ExposedReason::communicator_busy) == 6);
  CHECK(part(of(idle, CommClass::tp), ExposedReason::dependency) == 3);
  // A second piece of the same operation has nothing to go on with.
  CHECK(part(of(step(1, piece), CommClass::tp), ExposedReason::dependency) == 9);
}

TEST_CASE("exposed: a launch queue, and a launch that came late") {
  // The kernel is issued behind a transfer that its stream lets start at 5.
  SmallStep queue(one_device);
  queue.compute(0, 2);
  queue.add(0, Stream::tp, OpKind::tp_all_gather, 5, {}, {.layer = 1});
  const TaskId issued = queue.add(0, Stream::tp, OpKind::tp_all_gather, 3, {}, {.layer = 2});
  queue.launched(issued, queue.compute(0, 9), 0);
  const ExposedTable order = why(std::move(queue).run());
  CHECK(of(order, CommClass::tp).seconds == 3);
  CHECK(part(of(order, CommClass::tp), ExposedReason::launch_order) == 3);

  // Ready at 0, launched at 4, runs [4, 7] behind kernels until 4.
  SmallStep late(one_device);
  const TaskId launch = late.add(0, Stream::host, OpKind::launch, 4);
  late.compute(0, 4);
  const TaskId gather = late.add(0, Stream::tp, OpKind::tp_all_gather, 3);
  late.launched(launch, gather, 4);
  late.compute(0, 1, {gather});
  const ExposedTable table = why(std::move(late).run());
  CHECK(part(of(table, CommClass::tp), ExposedReason::launch_order) == 3);
}

TEST_CASE("exposed: no SM is free until a wave of the kernel ends") {
  // 20 blocks on 10 SMs: waves [0, 2] and then on 8 SMs until 5 (3 waves in place of 2). The
  // transfer asks for 2 SMs at 1, has them at 2, ends at 7: exposed [5, 7], a second of it late.
  for (const bool meets : {false, true}) {
    CAPTURE(meets);
    SmallStep s(one_device);
    TaskGraphBuilder& b = s.builder();
    const PoolId pool = b.add_pool(10);
    const auto claim = [&](TaskId t, ProcessorClaim c) {
      c.pool = pool;
      b.set_claims(t, 0, b.add_claims({}, std::vector{c}));
    };
    claim(s.compute(0, 4), {.role = Role::run, .count = 10, .blocks = 20});
    const TaskId asked = s.add(0, Stream::host, OpKind::launch, 1);
    TaskId moved;
    if (meets) {
      const TaskId arrival = s.add(0, Stream::tp, OpKind::arrive, 0, {asked});
      moved = s.add(0, Stream::tp, OpKind::tp_all_gather, 5);
      claim(arrival, {.role = Role::take, .count = 2});
      claim(moved, {.role = Role::give, .count = 2});
      s.join(moved, 0, Stream::tp, arrival);
    } else {
      moved = s.add(0, Stream::tp, OpKind::tp_all_gather, 5, {asked});
      claim(moved, {.role = Role::hold, .count = 2});
    }
    s.compute(0, 1, {moved});
    const ExposedTable table = why(std::move(s).run());
    CHECK(of(table, CommClass::tp).seconds == doctest::Approx(2));
    CHECK(part(of(table, CommClass::tp), ExposedReason::no_sm) == doctest::Approx(1));
    CHECK(part(of(table, CommClass::tp), ExposedReason::dependency) == doctest::Approx(1));
  }
}

TEST_CASE("exposed: memory bandwidth and links that others use too") {
  // Two ask for 8 of 10 for 2 and 4 s: at 5 each until 3.2, then the longer one alone until 5.2,
  // 1.2 s more than alone.
  for (const bool memory : {true, false}) {
    CAPTURE(memory);
    SmallStep s(one_device);
    TaskGraphBuilder& b = s.builder();
    const ResourceId resource = b.add_resource(10);
    const auto claim = [&](TaskId t) { b.set_claims(t, 0, std::vector<Claim>{{resource, 8, 1}}); };
    const TaskId kernel = s.compute(0, memory ? 2 : 3.2);
    if (memory) claim(kernel);
    if (!memory) claim(s.add(0, Stream::dp, OpKind::dp_reduce_scatter, 2));
    const TaskId gather = s.add(0, Stream::tp, OpKind::tp_all_gather, 4);
    claim(gather);
    s.compute(0, 1, {gather});
    const ExposedTable table = why(std::move(s).run());
    const ExposedClass& tp = of(table, CommClass::tp);
    CHECK(tp.seconds == doctest::Approx(2));
    CHECK(part(tp, memory ? ExposedReason::hbm : ExposedReason::links) == doctest::Approx(1.2));
    CHECK(part(tp, ExposedReason::dependency) == doctest::Approx(0.8));
  }
}

TEST_CASE("exposed: the first gather and the last bucket have nothing to hide under") {
  // gather [0, 1], forward [1, 2], backward [2, 4], last bucket [4, 6].
  SmallStep s(one_device);
  const TaskId gathered = s.add(0, Stream::dp, OpKind::dp_all_gather, 1);
  s.add(0, Stream::compute, OpKind::fc1_gemm, 1, {gathered}, forward);
  const TaskId last = s.add(0, Stream::compute, OpKind::fc1_gemm, 2, {}, backward);
  const TaskId reduced = s.add(0, Stream::dp, OpKind::dp_reduce_scatter, 2, {last});
  s.add(0, Stream::compute, OpKind::adam, 1, {reduced}, {.pass = Pass::step});
  const ExposedTable table = why(std::move(s).run());
  CHECK(of(table, CommClass::dp).seconds == 3);
  CHECK(part(of(table, CommClass::dp), ExposedReason::first_last_bucket) == 3);
}

TEST_CASE("exposed: pipeline messages in warm-up, and between") {
  // Stage 1: message [1, 3], forward [3, 4], backward [4, 5], message [4, 6], forward [6, 7].
  SmallStep s(two_stages);
  const TaskId one = s.send(0, 1, 2, s.add(0, Stream::compute, OpKind::fc1_gemm, 1, {}, forward));
  const TaskId two = s.send(0, 1, 2, s.add(0, Stream::compute, OpKind::fc1_gemm, 3, {}, forward));
  s.add(1, Stream::compute, OpKind::fc1_gemm, 1, {one}, forward);
  s.add(1, Stream::compute, OpKind::fc1_gemm, 1, {}, backward);
  s.add(1, Stream::compute, OpKind::fc1_gemm, 1, {two}, forward);
  const ExposedTable table = why(std::move(s).run());
  // The mean of two ranks; stage 0 waits for stage 1 when its kernels are done.
  CHECK(part(of(table, CommClass::pp), ExposedReason::dependency) == doctest::Approx(0.5));
  CHECK(part(of(table, CommClass::pp), ExposedReason::warmup_cooldown) == 1);
}

TEST_CASE("exposed: a switch that is off comes before all else") {
  SmallStep s(one_device);
  s.compute(0, 1);
  s.add(0, Stream::tp, OpKind::tp_all_gather, 6, {}, {.layer = 3});
  s.compute(0, 1, {s.add(0, Stream::tp, OpKind::tp_reduce_scatter, 4, {}, {.layer = 3})});
  const ClosedGate gate{.key = "model.tp_comm_overlap",
                        .requested = true,
                        .reason = "sequence parallelism is off",
                        .holds = [](const Label& l) { return l.op == OpKind::tp_all_gather; }};
  const ExposedTable table = why(std::move(s).run(), {gate});
  const ExposedClass& tp = of(table, CommClass::tp);
  CHECK(part(tp, ExposedReason::gate_off) == 5);  // of the first, [1, 6]
  REQUIRE(tp.gates.size() == 1);
  const std::string text = exposed_text(table, 11);
  CHECK(text.find("model.tp_comm_overlap, asked for and undone: sequence parallelism is off") !=
        std::string::npos);
}

TEST_CASE("closed gates: what could be in effect and is not, with the finding that undid it") {
  Scenario s = sample_scenario();
  s.overlap = {};
  const auto keys = [&] {
    std::string text;
    for (const ClosedGate& g : closed_gates(s)) text += g.key + (g.requested ? "! " : " ");
    return text;
  };
  // The sample asks for TP overlap and has no sequence parallelism, says its finding.
  CHECK(keys() == "model.tp_comm_overlap! ddp.overlap_grad_reduce ");
  s.data_parallel.distributed_optimizer = true;
  s.parallel.vp = 2;
  CHECK(keys() ==
        "model.tp_comm_overlap! ddp.overlap_grad_reduce ddp.overlap_param_gather "
        "model.overlap_p2p_comm ");
  s.overlap = {.tp_comm_overlap = true,
               .overlap_p2p = true,
               .overlap_grad_reduce = true,
               .overlap_param_gather = true};
  CHECK(keys().empty());
  s.costs.emplace();
  s.overlap = {};
  CHECK(keys().empty());
}

TEST_CASE("exposed: the text keeps to 100 columns") {
  const std::string text = exposed_text(why(sample_step()), 5);
  size_t widest = 0;
  for (size_t i = 0, line = 0; i < text.size(); ++i, ++line) {
    if (text[i] == '\n') line = 0;
    widest = std::max(widest, line);
  }
  CHECK(widest <= 100);
  CHECK(text.starts_with("Why exposed"));
  CHECK(exposed_text({}, 1) == "Why exposed    no communication\n");
}
