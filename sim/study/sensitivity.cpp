#include "sim/study/sensitivity.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/error.h"
#include "sim/study/knob.h"

namespace stepsim {
namespace {

constexpr double one_percent = 1.01;
/// Costs nothing any more, and leaves all arithmetic finite.
constexpr double free_of_charge = 1e6;

/// A change of the scenario that has no small version, or is no parameter of the machine.
struct WholeStep {
  std::string_view name, words;
  double better;  ///< how many times better it makes what it is about
  bool per_token;
  bool (*present)(const Scenario&);
  void (*apply)(Scenario&);
};

void slow_down(Scenario& s) {
  s.faults.ranks.resize(static_cast<size_t>(s.parallel.world()));
  s.faults.ranks[0].slowdown *= one_percent;
}
/// One hot EP rank gets 1 % more tokens, the others so much less.
void unbalance(Scenario& s) {
  const int ep = s.parallel.ep;
  std::vector<double> loads(static_cast<size_t>(ep), (ep - one_percent) / (ep - 1));
  loads[0] = one_percent;
  s.moe_routing = {.kind = MoeRouting::Kind::rank_loads, .rank_loads = std::move(loads)};
}
void double_microbatches(Scenario& s) {
  s.batch.microbatches *= 2;
  s.batch.global *= 2;
  s.batch.token_sum *= 2;
  s.batch.square_sum *= 2;
}
constexpr int usual_channels = 16;
void halve_sms(Scenario& s) {
  const auto half = [](int& sms) {
    if (sms > 1) sms /= 2;
  };
  for (TpOverlap& method : s.overlap.tp) half(method.num_sm);
  half(s.moe_runtime.num_sms);
  int& most = s.cluster.nccl.max_ctas;
  if (most == 0) most = usual_channels;
  half(most);
}

constexpr std::array<WholeStep, 4> whole_steps{{
    {"microbatches", "twice the microbatches: time per token", 2, true,
     [](const Scenario& s) { return s.order.empty(); }, double_microbatches},
    {"slow_rank", "one GPU 1 % slower (rank 0)", 1 / one_percent, false,
     [](const Scenario& s) {
       return s.parallel.world() > 1 && s.parallel.world() <= most_fault_ranks;
     },
     slow_down},
    {"expert_balance", "one rank's experts get 1 % more tokens", 1 / one_percent, false,
     [](const Scenario& s) {
       return !s.costs && s.parallel.experts && s.parallel.ep > 1 &&
              s.moe_routing.kind == MoeRouting::Kind::balanced;
     },
     unbalance},
    {"communication_sms", "half the SMs for communication (userbuffers, EP, CTAs)", 2, false,
     [](const Scenario& s) { return !s.costs && s.parallel.world() > 1; }, halve_sms},
}};

std::vector<Dominant> dominant(const StepOutcome& outcome) {
  std::vector<Dominant> all;
  const double sum = outcome.ledger.sum();
  for (size_t c = 0; c < cause_count; ++c)
    if (outcome.ledger.seconds[c] > 0.005 * sum)
      all.push_back({static_cast<Cause>(c), outcome.ledger.seconds[c] / sum});
  std::stable_sort(all.begin(), all.end(),
                   [](const Dominant& a, const Dominant& b) { return a.share > b.share; });
  if (all.size() > 3) all.resize(3);
  return all;
}

/// Which outcomes a row is made from; `unused` where there is none.
struct RowCases {
  static constexpr size_t unused = SIZE_MAX;
  size_t better = unused, worse = unused, free = unused;
};

}  // namespace

double SensitivityRow::for_one_percent() const {
  return std::expm1(elasticity * std::log(one_percent));
}

Sensitivity sensitivity(const Scenario& scenario, const Progress& progress) {
  std::vector<Case> cases{{.scenario = [&] { return scenario; }}};
  std::vector<RowCases> row_cases;
  Sensitivity found;
  const auto add = [&](std::function<Scenario()> made, SimulateOptions options = {}) {
    cases.push_back({std::move(made), options});
    return cases.size() - 1;
  };
  for (const Knob& k : knobs()) {
    if (!k.present(scenario)) continue;
    const auto at = [&scenario, &k](double better) {
      return [&scenario, &k, better] { return turned(scenario, k, better); };
    };
    found.rows.push_back({.name = std::string(k.name),
                          .words = std::string(k.words),
                          .change = one_percent,
                          .then = {}});
    row_cases.push_back({add(at(one_percent)), add(at(1 / one_percent)), add(at(free_of_charge))});
  }
  for (const WholeStep& w : whole_steps) {
    if (!w.present(scenario)) continue;
    found.rows.push_back({.name = std::string(w.name),
                          .words = std::string(w.words),
                          .change = w.better,
                          .then = {},
                          .per_token = w.per_token});
    row_cases.push_back({.better = add([&scenario, &w] {
                           Scenario changed = scenario;
                           w.apply(changed);
                           return changed;
                         })});
    if (w.name == "slow_rank" && scenario.faults.any())
      row_cases.back().free = add([&scenario] { return without_faults(scenario); });
  }
  if (!scenario.costs) {
    found.rows.push_back(
        {.name = "sharing", .words = "sharing of SMs, memory and links", .then = {}});
    row_cases.push_back({.free = add([&scenario] { return scenario; }, {.sharing = false})});
  }

  const std::vector<StepOutcome> all = outcomes(cases, progress);
  if (!all[0].ok()) throw Error(scenario.file, "", "cannot be simulated: " + all[0].failure);
  found.step_seconds = all[0].seconds;
  found.now = dominant(all[0]);
  found.simulations = cases.size();
  for (size_t i = 0; i < found.rows.size(); ++i) {
    SensitivityRow& row = found.rows[i];
    const double work = row.per_token ? row.change : 1;
    for (const size_t place : {row_cases[i].better, row_cases[i].worse, row_cases[i].free})
      if (place != RowCases::unused && !all[place].ok()) row.failure = all[place].failure;
    if (!row.failure.empty()) continue;
    if (row_cases[i].better != RowCases::unused) {
      row.better_seconds = all[row_cases[i].better].seconds;
      const double gain = std::log(row.better_seconds / work / found.step_seconds);
      const double loss = row_cases[i].worse == RowCases::unused
                              ? -gain
                              : std::log(all[row_cases[i].worse].seconds / found.step_seconds);
      row.elasticity = (gain - loss) / (2 * std::log(row.change));
    }
    if (row_cases[i].free != RowCases::unused) {
      row.free_seconds = all[row_cases[i].free].seconds;
      row.then = dominant(all[row_cases[i].free]);
    }
  }
  std::stable_sort(found.rows.begin(), found.rows.end(),
                   [](const SensitivityRow& a, const SensitivityRow& b) {
                     if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
                     return a.elasticity < b.elasticity;
                   });
  return found;
}

}  // namespace stepsim
