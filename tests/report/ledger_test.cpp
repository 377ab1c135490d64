#include "sim/report/ledger.h"

#include <doctest/doctest.h>

#include "tests/report/small_step.h"

using namespace stepsim;

namespace {

std::vector<Ledger> ledgers_of(const RanStep& ran) {
  return ledgers(ran.step, ran.timeline, step_end(ran.step, ran.timeline));
}

/// Law: the causes of every device add up to the step.
void check_sums(const RanStep& ran) {
  const double step = step_end(ran.step, ran.timeline).seconds;
  for (const Ledger& l : ledgers_of(ran)) CHECK(l.sum() == doctest::Approx(step).epsilon(1e-12));
}

/// Only the causes named have time.
void check_ledger(const Ledger& l, std::initializer_list<std::pair<Cause, double>> expected) {
  Ledger want;
  for (const auto& [cause, seconds] : expected) want.seconds[static_cast<size_t>(cause)] = seconds;
  for (size_t c = 0; c < cause_count; ++c) {
    INFO(name(static_cast<Cause>(c)));
    CHECK(l.seconds[c] == doctest::Approx(want.seconds[c]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("kernels are compute or optimizer by their label") {
  SmallStep s(one_device);
  s.add(0, Stream::compute, OpKind::adam, 2);
  s.compute(0, 3);
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[0], {{Cause::optimizer, 2}, {Cause::compute, 3}});
}

TEST_CASE("a gap that a collective fills is exposed; the part under compute is not") {
  // compute |--2--|          |-1-|      tp all-gather [1, 4] starts when the first second of work
  // is done
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1);
  s.compute(0, 1);
  const TaskId gather = s.add(0, Stream::tp, OpKind::tp_all_gather, 3, {a});
  s.compute(0, 1, {gather});
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[0], {{Cause::compute, 3}, {Cause::exposed_tp, 2}});
}

TEST_CASE(
    "every class of communication has its own cause, and a chain of two is split between them") {
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1);
  const TaskId cp = s.add(0, Stream::cp, OpKind::cp_exchange, 2, {a});
  const TaskId dp = s.add(0, Stream::dp, OpKind::dp_all_gather, 3, {cp});
  const TaskId b = s.compute(0, 1, {dp});
  const TaskId embedding = s.add(0, Stream::dp, OpKind::embedding_all_reduce, 4, {b});
  s.compute(0, 1, {embedding});
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[0], {{Cause::compute, 3},
                                    {Cause::exposed_cp, 2},
                                    {Cause::exposed_dp, 3},
                                    {Cause::exposed_embedding, 4}});
}

TEST_CASE("markers between a kernel and what it waits for are passed through") {
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1);
  const TaskId gather = s.add(0, Stream::tp, OpKind::tp_all_gather, 2, {a});
  const TaskId meet = s.add(0, Stream::tp, OpKind::meet, 0, {gather});
  s.compute(0, 1, {meet});
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[0], {{Cause::compute, 2}, {Cause::exposed_tp, 2}});
}

TEST_CASE("a kernel that its launch holds up waits for the host") {
  // Launches of 3 s start at 0 and 3; each kernel of 1 s starts with a launch's end: host 3 + 2.
  SmallStep s(one_device);
  for (int i = 0; i < 2; ++i) {
    const TaskId launch = s.add(0, Stream::host, OpKind::launch, 3);
    s.launched(launch, s.compute(0, 1), 3);
  }
  const RanStep ran = std::move(s).run();
  CHECK(ran.timeline.makespan_seconds == 7);
  check_ledger(ledgers_of(ran)[0], {{Cause::compute, 2}, {Cause::host, 5}});
}

TEST_CASE("the host is to blame only from the moment it could launch") {
  // The host syncs on a dp collective [1, 4] before it launches (lag 2): exposed 3, host 2.
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1);
  const TaskId reduce = s.add(0, Stream::dp, OpKind::dp_all_reduce, 3, {a});
  s.add(0, Stream::host, OpKind::sync, 0, {reduce});
  const TaskId launch = s.add(0, Stream::host, OpKind::launch, 1);
  s.launched(launch, s.compute(0, 1), 2);
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[0], {{Cause::compute, 2}, {Cause::exposed_dp, 3}, {Cause::host, 2}});
}

TEST_CASE("one launch queue: waiting for another kernel to start is what that kernel waits for") {
  // The cp exchange waits until 5 for its data; the kernel behind it in the queue starts when it
  // starts.
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1);
  const TaskId gather = s.add(0, Stream::tp, OpKind::tp_all_gather, 4, {a});
  const TaskId exchange = s.add(0, Stream::cp, OpKind::cp_exchange, 9, {gather});
  s.launched(exchange, s.compute(0, 9), 0);
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[0], {{Cause::compute, 10}, {Cause::exposed_tp, 4}});
}

TEST_CASE("waiting for another stage: bytes moving are exposed, the producer's work is bubble") {
  SmallStep s(two_stages);
  const TaskId a = s.compute(0, 4);
  const TaskId moved = s.send(0, 1, 2, a);
  s.compute(1, 3, {moved});
  const RanStep ran = std::move(s).run();
  const std::vector<Ledger> l = ledgers_of(ran);
  check_ledger(l[0], {{Cause::compute, 4}, {Cause::bubble, 5}});  // its tail, until stage 1 ends
  check_ledger(l[1], {{Cause::compute, 3}, {Cause::exposed_pp, 2}, {Cause::bubble, 4}});
  check_sums(ran);
}

TEST_CASE("collectives and launches of another stage are bubble, not exposed or host") {
  SmallStep s(two_stages);
  const TaskId launch = s.add(0, Stream::host, OpKind::launch, 1);
  const TaskId a = s.compute(0, 4);
  s.launched(launch, a, 1);
  const TaskId scatter = s.add(0, Stream::tp, OpKind::tp_reduce_scatter, 2, {a});
  s.compute(1, 3, {s.send(0, 1, 0, scatter)});
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[1], {{Cause::compute, 3}, {Cause::bubble, 7}});
}

TEST_CASE("a sender that must wait for its peer to post is in a bubble") {
  // Blocking exchange: stage 1 posts its receive after its own 5 s; stage 0 is ready at 1 and
  // blocks.
  SmallStep s(two_stages);
  const TaskId a = s.compute(0, 1);
  const TaskId busy = s.compute(1, 5);
  const TaskId moved = s.send(0, 1, 2, a, {busy});
  s.compute(0, 1, {moved});
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[0],
               {{Cause::compute, 2}, {Cause::bubble, 4}, {Cause::exposed_pp, 2}});
}

TEST_CASE("a slower member of the same stage is skew") {
  SmallStep s(two_peers);
  const TaskId fast = s.compute(0, 1), slow = s.compute(1, 4);
  const TaskId arrival = s.add(1, Stream::tp, OpKind::arrive, 0, {slow});
  const TaskId gather = s.add(0, Stream::tp, OpKind::tp_all_gather, 2, {fast, arrival});
  s.join(gather, 1, Stream::tp, arrival);
  s.compute(0, 1, {gather});
  s.compute(1, 1, {gather});
  const RanStep ran = std::move(s).run();
  const std::vector<Ledger> l = ledgers_of(ran);
  check_ledger(l[0], {{Cause::compute, 2}, {Cause::skew, 3}, {Cause::exposed_tp, 2}});
  check_ledger(l[1], {{Cause::compute, 5}, {Cause::exposed_tp, 2}});
}

TEST_CASE("idle that goes away with the faults is skew; idle that only moved is not") {
  const auto ledger = [](std::initializer_list<std::pair<Cause, double>> causes) {
    Ledger l;
    for (const auto& [cause, seconds] : causes) l.seconds[static_cast<size_t>(cause)] = seconds;
    return l;
  };
  // 10 s of idle against 6: 4 went away, 1 of it found already; bubble and dp grew by the other 3.
  check_ledger(
      with_skew(
          ledger(
              {{Cause::compute, 10}, {Cause::bubble, 5}, {Cause::exposed_dp, 4}, {Cause::skew, 1}}),
          ledger({{Cause::compute, 10}, {Cause::bubble, 3}, {Cause::exposed_dp, 3}})),
      {{Cause::compute, 10}, {Cause::bubble, 3}, {Cause::exposed_dp, 3}, {Cause::skew, 4}});
  // A late device's own: it computes for 2 more and idles for 1 less; nothing went away.
  check_ledger(
      with_skew(ledger({{Cause::compute, 12}, {Cause::bubble, 2}, {Cause::exposed_dp, 4}}),
                ledger({{Cause::compute, 10}, {Cause::bubble, 4}, {Cause::exposed_dp, 3}})),
      {{Cause::compute, 12}, {Cause::bubble, 2}, {Cause::exposed_dp, 4}});
  // The bubble grew by 3 and dp shrank by 1: 2 went away.
  check_ledger(with_skew(ledger({{Cause::bubble, 6}, {Cause::exposed_dp, 1}}),
                         ledger({{Cause::bubble, 3}, {Cause::exposed_dp, 2}})),
               {{Cause::bubble, 4}, {Cause::exposed_dp, 1}, {Cause::skew, 2}});
}

TEST_CASE("alike ranks have alike ledgers, whoever's arrival the engine names") {
  // Both peers of stage 1 receive from their own peer of stage 0, gather at once, then compute.
  SmallStep s({{.rank = 0, .stage = 0},
               {.rank = 1, .stage = 0},
               {.rank = 2, .stage = 1},
               {.rank = 3, .stage = 1}});
  TaskId moved[2], arrivals[2];
  for (const uint32_t peer : {0u, 1u}) {
    const TaskId a = s.compute(peer, 4);
    moved[peer] = s.send(peer, peer + 2, 2, a);
  }
  for (const uint32_t peer : {0u, 1u})
    arrivals[peer] = s.add(peer + 2, Stream::tp, OpKind::arrive, 0, {moved[peer]});
  const TaskId gather = s.add(2, Stream::tp, OpKind::tp_all_gather, 1, {arrivals[0], arrivals[1]});
  for (const uint32_t peer : {0u, 1u}) s.join(gather, peer + 2, Stream::tp, arrivals[peer]);
  for (const uint32_t peer : {0u, 1u}) s.compute(peer + 2, 3, {gather});
  const RanStep ran = std::move(s).run();
  const std::vector<Ledger> l = ledgers_of(ran);
  for (const size_t d : {2u, 3u})
    check_ledger(
        l[d],
        {{Cause::compute, 3}, {Cause::exposed_tp, 1}, {Cause::exposed_pp, 2}, {Cause::bubble, 4}});
  CHECK(l[0].seconds == l[1].seconds);
}

TEST_CASE("of two arrivals at the same time, a device's own explains its wait") {
  // Peer 0 computes until 6; peer 1 has its parameters gathered until 6. Both join the tp gather
  // at 6.
  SmallStep s(two_peers);
  const TaskId slow = s.compute(0, 6), quick = s.compute(1, 1);
  const TaskId parameters = s.add(1, Stream::dp, OpKind::dp_all_gather, 5, {quick});
  const TaskId arrivals[] = {s.add(0, Stream::tp, OpKind::arrive, 0, {slow}),
                             s.add(1, Stream::tp, OpKind::arrive, 0, {parameters})};
  const TaskId gather = s.add(0, Stream::tp, OpKind::tp_all_gather, 1, {arrivals[0], arrivals[1]});
  for (const uint32_t peer : {0u, 1u}) s.join(gather, peer, Stream::tp, arrivals[peer]);
  for (const uint32_t peer : {0u, 1u}) s.compute(peer, 1, {gather});
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[1],
               {{Cause::compute, 2}, {Cause::exposed_dp, 5}, {Cause::exposed_tp, 1}});
}

TEST_CASE("a lag anywhere in the chain is the host's") {
  // The exchange may start 2 s after the gather has started, at 1, and moves for 4 s.
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1);
  const TaskId gather = s.add(0, Stream::tp, OpKind::tp_all_gather, 9, {a});
  const TaskId exchange = s.add(0, Stream::cp, OpKind::cp_exchange, 4);
  s.launched(gather, exchange, 2);
  s.compute(0, 9, {exchange});
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[0],
               {{Cause::compute, 10}, {Cause::host, 2}, {Cause::exposed_cp, 4}});
}

TEST_CASE("the host of another stage is bubble") {
  SmallStep s(two_stages);
  const TaskId slow = s.add(0, Stream::host, OpKind::sync, 5);
  s.compute(1, 3, {s.send(0, 1, 2, slow)});
  const RanStep ran = std::move(s).run();
  check_ledger(ledgers_of(ran)[1],
               {{Cause::compute, 3}, {Cause::exposed_pp, 2}, {Cause::bubble, 5}});
}

TEST_CASE("the step ends with the norm reduction; what leads to it explains the tails") {
  // Stage 0 is done at 2, stage 1 at 5; the norm reduction of both takes 1; a later task is outside
  // the step.
  SmallStep s(two_stages);
  const TaskId a = s.compute(0, 2), b = s.compute(1, 5);
  const TaskId a0 = s.add(0, Stream::dp, OpKind::arrive, 0, {a});
  const TaskId a1 = s.add(1, Stream::dp, OpKind::arrive, 0, {b});
  const TaskId norm = s.add(0, Stream::dp, OpKind::norm_all_reduce, 1, {a0, a1});
  s.join(norm, 0, Stream::dp, a0);
  s.join(norm, 1, Stream::dp, a1);
  s.compute(0, 10, {norm});
  const RanStep ran = std::move(s).run(true);
  CHECK(step_end(ran.step, ran.timeline).seconds == 6);
  const std::vector<Ledger> l = ledgers_of(ran);
  check_ledger(l[0], {{Cause::compute, 2}, {Cause::bubble, 3}, {Cause::exposed_dp, 1}});
  check_ledger(l[1], {{Cause::compute, 5}, {Cause::exposed_dp, 1}});
}

TEST_CASE("a kernel slowed by a shared resource splits into compute and contention") {
  // Two kernels of 2 s at full speed share one resource: both take 4 s.
  SmallStep s(two_peers);
  const ResourceId r = s.builder().add_resource(10);
  const Claim claim{.resource = r, .rate = 10};
  for (const uint32_t d : {0u, 1u}) s.builder().set_claims(s.compute(d, 2), 0, {&claim, 1});
  const RanStep ran = std::move(s).run();
  REQUIRE(ran.timeline.makespan_seconds == doctest::Approx(4));
  for (const Ledger& l : ledgers_of(ran))
    check_ledger(l, {{Cause::compute, 2}, {Cause::contention, 2}});
}

TEST_CASE("bubble of 1F1B with free communication is (p-1)/(m+p-1)") {
  for (const auto& [stages, microbatches] :
       {std::pair{2, 3}, std::pair{2, 1}, std::pair{4, 8}, std::pair{4, 2}, std::pair{8, 5}}) {
    const int p = stages, m = microbatches;
    CAPTURE(p);
    CAPTURE(m);
    const RanStep ran = one_f_one_b_step(p, m, 0.1, 0.2, 0);
    check_sums(ran);
    const Ledger mean = mean_ledger(ledgers_of(ran), ran.step.devices);
    const double fraction = mean[Cause::bubble] / ran.timeline.makespan_seconds;
    CHECK(fraction == doctest::Approx((p - 1.0) / (m + p - 1.0)).epsilon(1e-9));
    CHECK(mean.exposed() == 0);
  }
}

TEST_CASE("with slow transfers the sums still hold, and some of the wait is exposed") {
  const RanStep ran = one_f_one_b_step(4, 6, 0.1, 0.2, 0.05);
  check_sums(ran);
  CHECK(mean_ledger(ledgers_of(ran), ran.step.devices)[Cause::exposed_pp] > 0.05);
}

TEST_CASE("the mean over ranks weighs a device by the ranks that it represents") {
  SmallStep s({{.rank = 0, .represents = 3, .stage = 0}, {.rank = 3, .represents = 1, .stage = 1}});
  s.compute(0, 4);
  s.compute(1, 2);
  const RanStep ran = std::move(s).run();
  const Ledger mean = mean_ledger(ledgers_of(ran), ran.step.devices);
  CHECK(mean[Cause::compute] == doctest::Approx(3.5));  // (3*4 + 1*2) / 4
  CHECK(mean[Cause::bubble] == doctest::Approx(0.5));
}
