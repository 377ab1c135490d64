// Goodput: Young's interval and Daly's effective share by hand, and a run that was published.
#include "sim/study/goodput.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace stepsim;
using doctest::Approx;

TEST_CASE("Young and Daly, by hand") {
  // M = 25600 s, C = 50 s: sqrt(2 x 50 x 25600) = sqrt(2560000) = 1600 s.
  CHECK(young_interval_seconds(50, 25600) == Approx(1600));
  // (t + C)/M = 0.064453125; exp - 1 = x + x^2/2 + x^3/6 + x^4/24 + ... = 0.066575537...
  // 25600 x that = 1704.3337 s for 1600 s of work: 0.93878. To first order 1 - 50/1600 -
  // 1600/51200 = 0.9375.
  const Checkpoints young{.save_seconds = 50, .restart_seconds = 0};
  CHECK(effective_share(young, 25600) == Approx(0.93878).epsilon(1e-4));
  // A restart of R = 256 s = M/100 costs a factor exp(-0.01).
  CHECK(effective_share({.save_seconds = 50, .restart_seconds = 256}, 25600) ==
        Approx(0.93878 * 0.99005).epsilon(1e-4));
  // Young's interval is the best to first order: half and twice of it lose more.
  for (double interval : {800.0, 3200.0})
    CHECK(effective_share({.save_seconds = 50, .restart_seconds = 0, .interval_seconds = interval},
                          25600) < effective_share(young, 25600));
  // Nothing fails: only checkpoints that somebody insists on.
  CHECK(effective_share(young, INFINITY) == 1);
  CHECK(effective_share({.save_seconds = 10, .restart_seconds = 0, .interval_seconds = 90},
                        INFINITY) == Approx(0.9));
}

TEST_CASE("rates of parts add up; more failures, less goodput") {
  // 100 GPUs of 1000 h, 100 links of 2000 h, 10 hosts of 100 h: 0.1 + 0.05 + 0.1 = 0.25 an hour.
  const FailureRates rates{.gpu_mtbf_hours = 1000,
                           .link_mtbf_hours = 2000,
                           .host_mtbf_hours = 100,
                           .low = 0.5,
                           .high = 2};
  CHECK(mtbf_seconds(rates, {.gpus = 100, .hosts = 10}) == Approx(4 * 3600));
  CHECK(mtbf_seconds(rates, {.gpus = 100, .hosts = 10}, 2) == Approx(2 * 3600));
  const Goodput g = goodput(rates, {.save_seconds = 10, .restart_seconds = 60}, {100, 10});
  CHECK(g.low < g.share);
  CHECK(g.share < g.high);
}

TEST_CASE("Llama 3 405B: 419 failures of 16,384 GPUs in 54 days leave more than 90 %") {
  const Operation operation = read_operation(find_data(), "h100");
  const Parts parts{.gpus = 16384, .hosts = 2048};
  const Goodput g = goodput(operation.failures, operation.checkpoints, parts);
  // 54 x 24 h / 419 = 3.093 h.
  CHECK(g.mtbf_seconds == Approx(54.0 * 24 * 3600 / 419).epsilon(1e-4));
  // sqrt(2 x 10 s x 11135 s) = 471.9 s.
  CHECK(g.interval_seconds == Approx(471.9).epsilon(1e-3));
  CHECK(g.share > 0.90);
  CHECK(g.low < 0.90);
  CHECK(g.high < 1);
}

TEST_CASE("tokens to days, GPU-hours, money and energy") {
  // 8.64e9 tokens at 1e5 a second are a day; at half the time effective, two.
  const Goodput half{
      .mtbf_seconds = 1, .interval_seconds = 1, .share = 0.5, .low = 0.25, .high = 1};
  const RunCost cost = run_cost(8.64e9, 1e5, 10, half, 2.0, 1000.0);
  CHECK(cost.days == Approx(2));
  CHECK(cost.days_low == Approx(1));
  CHECK(cost.days_high == Approx(4));
  CHECK(cost.gpu_hours == Approx(480));
  CHECK(*cost.money == Approx(960));
  CHECK(*cost.megawatt_hours == Approx(0.48));
  CHECK(!run_cost(1, 1, 1, half, {}, {}).money);
}
