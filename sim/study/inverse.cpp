#include "sim/study/inverse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>

#include "sim/base/error.h"
#include "sim/report/interval.h"
#include "sim/study/knob.h"

namespace stepsim {
namespace {

/// Beyond so many times better or worse no machine is.
constexpr double furthest = 32;
/// Steps are met to so much.
constexpr double tolerance = 1e-4;
/// Of the difference, what a switch must explain.
constexpr double least_part = 0.5;

/// What can be turned without bound, or what a switch does.
struct Candidate {
  Explanation row;
  double most = furthest;  ///< the largest factor that makes sense
  /// The scenario at `turn` >= 1: so many times better, or worse, whichever the measured time asks.
  std::function<Scenario(double turn)> at{};
  std::function<std::string(double turn)> value{};
  std::function<double(double turn)> factor{};
  std::function<Scenario()> whole{};  ///< of a switch
};

/// ln(step at turn / measured); throws Error where that scenario has no step.
double miss(const Candidate& c, double turn, double measured, double& step, size_t& simulations) {
  const StepOutcome outcome = outcome_of({.scenario = [&] { return c.at(turn); }});
  ++simulations;
  if (!outcome.ok()) throw Error("", "", outcome.failure);
  step = outcome.seconds;
  return std::log(outcome.seconds / measured);
}

/// Doubles the turn until the measured time is passed, then solves between.
void solve(Candidate& c, double base, double measured, size_t& simulations) {
  Explanation& row = c.row;
  const double sign = measured > base ? 1 : -1;
  double low = 0, low_miss = std::log(base / measured), high = std::min(0.1, std::log(c.most)),
         high_miss = 0, step = base;
  const double limit = std::log(c.most);
  for (;; high = std::min(2 * high, limit)) {
    high_miss = miss(c, std::exp(high), measured, step, simulations);
    if (sign * high_miss >= 0) break;
    row.step_seconds = step;
    if (high >= limit) {
      row.note = fmt::format("even at {} the step takes {:.4g} s", c.value(std::exp(high)), step);
      return;
    }
    low = high;
    low_miss = high_miss;
  }
  double turn = high;
  if (std::abs(high_miss) > tolerance) {
    uintmax_t rounds = 20;
    const auto f = [&](double x) {
      const double m = miss(c, std::exp(x), measured, step, simulations);
      turn = x;
      return std::abs(m) <= tolerance ? 0 : m;
    };
    const auto close = [](double a, double b) { return std::abs(a - b) < 1e-6; };
    const auto found =
        boost::math::tools::toms748_solve(f, low, high, low_miss, high_miss, close, rounds);
    turn = (found.first + found.second) / 2;
    miss(c, std::exp(turn), measured, step, simulations);
  }
  row.possible = true;
  row.step_seconds = step;
  row.value = c.value(std::exp(turn));
  row.factor = c.factor(std::exp(turn));
  row.distance = turn / row.sigma;
}

void try_switch(Candidate& c, double base, double measured, double own_sigma, size_t& simulations) {
  Explanation& row = c.row;
  const StepOutcome outcome = outcome_of({.scenario = c.whole});
  ++simulations;
  if (!outcome.ok()) {
    row.note = outcome.failure;
    return;
  }
  row.step_seconds = outcome.seconds;
  const double moved = outcome.seconds / base - 1;
  row.value = fmt::format("{:+.1f} %", 100 * moved);
  // More than the difference costs distance; less than half of it leaves more than it explains.
  const double part = std::log(outcome.seconds / base) / std::log(measured / base);
  if (part < least_part) {
    row.note = fmt::format("moves the step by {:+.2f} %, {:.0f} % of the difference", 100 * moved,
                           100 * std::max(0.0, part));
    return;
  }
  row.possible = true;
  row.distance = std::hypot(row.distance, std::log(measured / outcome.seconds) / own_sigma);
}

/// A switch that may be on or off, and how surprising it is that it is not as described, in
/// standard deviations.
struct SwitchRow {
  std::string_view key, words;
  double surprise;
};
constexpr double usual_surprise = 1;
constexpr std::array<SwitchRow, 7> switch_rows{{
    {"model.tp_comm_overlap", "TP overlap", usual_surprise},
    {"model.overlap_p2p_comm", "pipeline overlap", usual_surprise},
    {"ddp.overlap_grad_reduce", "gradient reduction overlap", usual_surprise},
    {"ddp.overlap_param_gather", "parameter gather overlap", usual_surprise},
    {"model.overlap_moe_expert_parallel_comm", "EP overlap", usual_surprise},
    {"model.delay_wgrad_compute", "delayed weight gradients", usual_surprise},
    {"model.moe_shared_expert_overlap", "shared experts beside dispatch", usual_surprise},
}};

/// Where comm_overlap is given it writes its values over model's and ddp's.
std::string key_to_write(const Scenario& s, std::string_view key) {
  const bool section = s.resolved_json.find("\"comm_overlap\"") != std::string::npos;
  const std::string name(key.substr(key.find('.') + 1));
  return section && name != "moe_shared_expert_overlap" ? "comm_overlap." + name : std::string(key);
}

void add_switches(const Scenario& s, bool slower, const Reread& reread,
                  std::vector<Candidate>& out) {
  if (!reread || s.costs) return;
  const auto add = [&](std::string name, std::string words, double surprise,
                       std::vector<std::string> overrides) {
    out.push_back(
        {.row = {.name = std::move(name),
                 .words = std::move(words),
                 .value = {},
                 .distance = surprise},
         .whole = [&reread, overrides = std::move(overrides)] { return reread(overrides); }});
  };
  for (const SwitchRow& row : switch_rows) {
    const auto now = s.effective.find(std::string(row.key));
    if (now == s.effective.end() || now->second != (slower ? "true" : "false")) continue;
    const std::string key = key_to_write(s, row.key);
    std::vector<std::string> overrides{key + (slower ? "=false" : "=true")};
    // Megatron-Core takes one of the two.
    if (row.key == "model.overlap_p2p_comm")
      overrides.push_back(key_to_write(s, "model.batch_p2p_comm") + (slower ? "=true" : "=false"));
    if (slower && row.key == "ddp.overlap_grad_reduce")
      overrides.push_back(key_to_write(s, "ddp.overlap_param_gather") + "=false");
    add(std::string(row.key),
        fmt::format("{} {}", row.words, slower ? "not in effect" : "in effect"), row.surprise,
        std::move(overrides));
  }
  const int queues = s.launch_env.max_connections;
  const int other = queues == 1 ? 8 : 1;
  add("env_vars.CUDA_DEVICE_MAX_CONNECTIONS",
      fmt::format("CUDA_DEVICE_MAX_CONNECTIONS={}, not {}", other, queues), usual_surprise,
      {fmt::format("env_vars.CUDA_DEVICE_MAX_CONNECTIONS={}", other)});
}

void add_slow_ranks(const Scenario& s, std::vector<Candidate>& out) {
  const int world = s.parallel.world();
  if (world < 2 || world > most_fault_ranks) return;
  // The ends of the pipeline: stages differ in their work.
  for (const int rank : {0, world - 1}) {
    if (rank > 0 && s.parallel.pp < 2) continue;
    out.push_back(
        {.row = {.name = fmt::format("slow_rank_{}", rank),
                 .words = fmt::format("rank {} is slow", rank),
                 .value = {},
                 .sigma = 0.05},
         .at =
             [&s, rank](double turn) {
               Scenario slow = s;
               slow.faults.ranks.resize(static_cast<size_t>(slow.parallel.world()));
               slow.faults.ranks[static_cast<size_t>(rank)].slowdown *= turn;
               return slow;
             },
         .value = [](double turn) { return fmt::format("its kernels take {:.1f} %", 100 * turn); },
         .factor = [](double turn) { return turn; }});
  }
}

void add_imbalance(const Scenario& s, std::vector<Candidate>& out) {
  const int ep = s.parallel.ep;
  if (s.costs || !s.parallel.experts || ep < 2 || s.moe_routing.kind != MoeRouting::Kind::balanced)
    return;
  out.push_back(
      {.row = {.name = "expert_imbalance",
               .words = "tokens of the hottest EP rank",
               .value = {},
               .sigma = 0.30},
       .most = 0.999 * ep,
       .at =
           [&s, ep](double turn) {
             Scenario uneven = s;
             std::vector<double> loads(static_cast<size_t>(ep), (ep - turn) / (ep - 1));
             loads[0] = turn;
             uneven.moe_routing = {.kind = MoeRouting::Kind::rank_loads,
                                   .rank_loads = std::move(loads)};
             return uneven;
           },
       .value = [](double turn) { return fmt::format("{:.1f} % of the mean", 100 * turn); },
       .factor = [](double turn) { return turn; }});
}

std::vector<Candidate> candidates(const Scenario& s, bool slower, const Reread& reread) {
  std::vector<Candidate> all;
  for (const Knob& k : knobs()) {
    if (!k.present(s)) continue;
    const auto better = [slower](double turn) { return slower ? 1 / turn : turn; };
    all.push_back(
        {.row = {.name = std::string(k.name),
                 .words = std::string(k.words),
                 .value = {},
                 .sigma = k.sigma},
         .at = [&s, &k, better](double turn) { return turned(s, k, better(turn)); },
         .value = [&s, &k, better](double turn) { return value_text(s, k, better(turn)); },
         .factor =
             [&k, better](double turn) {
               return k.more_is_better ? better(turn) : 1 / better(turn);
             }});
  }
  if (slower) {
    add_slow_ranks(s, all);
    add_imbalance(s, all);
  }
  add_switches(s, slower, reread, all);
  return all;
}

}  // namespace

double Inverse::own_distance() const {
  return own_sigma > 0 ? std::abs(std::log(measured_seconds / predicted_seconds)) / own_sigma : 0;
}

Inverse explain_step(const Scenario& scenario, double measured_seconds, const Reread& reread,
                     const Progress& progress) {
  const auto base = simulate(scenario);
  const Simulation* sim = std::get_if<Simulation>(&base);
  if (sim == nullptr) throw Error(scenario.file, "", "the step cannot finish");
  constexpr double without_interval = 0.05;
  Inverse found{.measured_seconds = measured_seconds,
                .predicted_seconds = sim->report.step_seconds,
                .own_sigma = without_interval,
                .rows = {},
                .simulations = 1};
  if (!(found.predicted_seconds > 0)) throw Error(scenario.file, "", "the step takes no time");
  if (const auto& i = sim->report.interval)
    found.own_sigma = std::log(i->high_seconds / i->low_seconds) / (2 * interval_deviations);

  const double base_seconds = found.predicted_seconds;
  if (std::abs(std::log(measured_seconds / base_seconds)) <= tolerance) return found;
  std::vector<Candidate> all = candidates(scenario, measured_seconds > base_seconds, reread);
  std::vector<size_t> simulations(all.size());
  const auto turn = [&](size_t i) {
    try {
      if (all[i].whole)
        try_switch(all[i], base_seconds, measured_seconds, found.own_sigma, simulations[i]);
      else
        solve(all[i], base_seconds, measured_seconds, simulations[i]);
    } catch (const Error& error) {
      all[i].row.possible = false;
      all[i].row.note = error.message();
    }
  };
  for_each_piece(all.size(), core_count(), turn, progress);
  for (size_t i = 0; i < all.size(); ++i) {
    found.simulations += simulations[i];
    found.rows.push_back(std::move(all[i].row));
  }
  std::stable_sort(found.rows.begin(), found.rows.end(),
                   [](const Explanation& a, const Explanation& b) {
                     if (a.possible != b.possible) return a.possible;
                     return a.possible && a.distance < b.distance;
                   });
  return found;
}

}  // namespace stepsim
