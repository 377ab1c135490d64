#include "sim/report/report.h"

#include <doctest/doctest.h>

#include "tests/report/sample.h"

using namespace stepsim;

TEST_CASE("throughput and utilisation are per GPU over the whole step") {
  // 1F1B, p 2, m 4, F 0.25, B 0.5, transfer 0.125. The tail of stage 0 is not covered: step by the
  // timeline.
  const RanStep ran = sample_step();
  const Report r = make_report(sample_scenario(), ran.step, ran.timeline);
  const double t = ran.timeline.makespan_seconds;
  CHECK(t >= 3.75);  // (m + p - 1)(F + B)
  CHECK(r.step_seconds == t);
  CHECK(*r.tokens_per_second_per_gpu == doctest::Approx(8 * 4096 / t / 8));
  CHECK(*r.model_flops_per_second_per_gpu == doctest::Approx(1e15 / t / 8));
  CHECK(*r.mfu == doctest::Approx(1e15 / t / 8 / 100e12));
  CHECK(*r.hfu == doctest::Approx(1.25 * *r.mfu));
  CHECK(r.gpus == 8);
  CHECK(r.ledger.sum() == doctest::Approx(t).epsilon(1e-12));
  CHECK(r.bubble_fraction == doctest::Approx(r.ledger[Cause::bubble] / t));
}

TEST_CASE("fp8 is measured against the fp8 peak") {
  Scenario s = sample_scenario();
  const RanStep ran = sample_step();
  const double bf16 = *make_report(s, ran.step, ran.timeline).mfu;
  s.precision.fp8 = Fp8Recipe::delayed;
  const Report r = make_report(s, ran.step, ran.timeline);
  CHECK(*r.mfu == doctest::Approx(bf16 / 2));
  CHECK(r.peak_dtype == Dtype::fp8);
}

TEST_CASE("memory is that of the rank that peaks, and fits with its reserve or not") {
  Scenario s = sample_scenario();
  const RanStep ran = sample_step();
  Report r = make_report(s, ran.step, ran.timeline);
  CHECK(r.memory->rank == 4);
  CHECK(r.memory->peak_bytes() == 70 * sample_gib);
  CHECK(r.memory->fits());
  CHECK(*r.devices[0].peak_bytes == 30 * sample_gib);
  s.cluster.device.memory_capacity = {74 * sample_gib};  // exactly peak + reserve
  CHECK(make_report(s, ran.step, ran.timeline).memory->fits());
  s.cluster.device.memory_capacity = {74 * sample_gib - 1};
  CHECK_FALSE(make_report(s, ran.step, ran.timeline).memory->fits());
}

TEST_CASE("with given costs what needs a model does not apply") {
  Scenario s = sample_scenario();
  s.costs = GivenCosts{};
  const RanStep ran = sample_step();
  const Report r = make_report(s, ran.step, ran.timeline);
  CHECK_FALSE(r.tokens_per_second_per_gpu);
  CHECK_FALSE(r.model_flops_per_second_per_gpu);
  CHECK_FALSE(r.mfu);
  CHECK_FALSE(r.hfu);
  CHECK_FALSE(r.memory);
  CHECK_FALSE(r.devices[0].peak_bytes);
  CHECK(r.straddling.empty());
}
