#include "sim/study/diff.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "sim/base/error.h"

namespace stepsim {
namespace {

bool same_finding(const Finding& a, const Finding& b) { return a.id == b.id && a.key == b.key; }

bool has(const std::vector<Finding>& findings, const Finding& one) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& f) { return same_finding(f, one); });
}

/// A key or a section that holds it is listed as not modelled.
bool not_modelled(const Scenario& s, const std::string& key) {
  return std::any_of(s.not_modelled.begin(), s.not_modelled.end(), [&](const std::string& listed) {
    return key == listed || key.starts_with(listed + ".");
  });
}

/// Changes that something here reads, in one scenario or the other.
std::vector<size_t> modelled(const std::vector<KeyChange>& changes, const Scenario& a,
                             const Scenario& b) {
  std::vector<size_t> live;
  for (size_t i = 0; i < changes.size(); ++i) {
    const KeyChange& c = changes[i];
    const bool dead_in_a = c.from.empty() || not_modelled(a, c.key);
    const bool dead_in_b = c.to.empty() || not_modelled(b, c.key);
    if (!dead_in_a || !dead_in_b) live.push_back(i);
  }
  return live;
}

void add_effective(std::vector<EffectiveChange>& to, const Scenario& a, const Scenario& b) {
  for (EffectiveChange& change : effective_changes(a, b))
    if (std::none_of(to.begin(), to.end(),
                     [&](const EffectiveChange& known) { return known.key == change.key; }))
      to.push_back(std::move(change));
}

std::string_view last_word(std::string_view key) { return key.substr(key.rfind('.') + 1); }

/// What the gate puts in place of the setting is in effect, under whichever section.
bool in_effect(const Scenario& s, const Finding& finding) {
  return std::any_of(s.effective.begin(), s.effective.end(), [&](const auto& field) {
    return last_word(field.first) == last_word(finding.key) && field.second == finding.effective;
  });
}

/// The scenarios one change away from either end; nothing where they are refused.
struct Neighbours {
  std::optional<Scenario> with_it, without_it;
};

class Explaining {
 public:
  Explaining(Diff& diff, const DocumentPair& documents, Mixtures& mixtures, const DataPaths& data)
      : diff_(diff), documents_(documents), mixtures_(mixtures), data_(data) {}

  void explain() {
    shares();
    pairs();
    gates();
    undone();
  }

 private:
  Subset made(size_t player, bool alone) const {
    Subset set(diff_.requested.size(), !alone);
    for (const size_t c : diff_.attribution.players[player]) set[c] = alone;
    return set;
  }

  void shares() {
    const Attribution& found = diff_.attribution;
    for (size_t p = 0; p < found.players.size(); ++p) {
      ChangeShare share{
          found.players[p], found.shares[p], found.errors.empty() ? 0 : found.errors[p], {}};
      Neighbours near{mixtures_.read(made(p, true)), mixtures_.read(made(p, false))};
      if (near.with_it) add_effective(share.effective, diff_.a.scenario, *near.with_it);
      if (near.without_it) add_effective(share.effective, *near.without_it, diff_.b.scenario);
      diff_.by_change.push_back(std::move(share));
      near_.push_back(std::move(near));
    }
    order_.resize(diff_.by_change.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::stable_sort(order_.begin(), order_.end(), [&](size_t x, size_t y) {
      return std::abs(diff_.by_change[x].delta_seconds) >
             std::abs(diff_.by_change[y].delta_seconds);
    });
    std::vector<ChangeShare> sorted;
    std::vector<Neighbours> near;
    place_.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      place_[order_[i]] = i;
      sorted.push_back(std::move(diff_.by_change[order_[i]]));
      near.push_back(std::move(near_[order_[i]]));
    }
    diff_.by_change = std::move(sorted);
    near_ = std::move(near);
  }

  void pairs() {
    // Beside changes that cancel the difference itself says little.
    double scale = std::abs(diff_.delta_seconds);
    scale = std::max(scale, 1e-4 * diff_.a.report.step_seconds);
    for (const Interaction& pair : diff_.attribution.pairs)
      if (std::abs(pair.seconds) > 0.2 * scale)
        diff_.pairs.push_back({std::min(place_[pair.first], place_[pair.second]),
                               std::max(place_[pair.first], place_[pair.second]), pair.seconds});
    std::stable_sort(diff_.pairs.begin(), diff_.pairs.end(),
                     [](const PairShare& x, const PairShare& y) {
                       return std::abs(x.seconds) > std::abs(y.seconds);
                     });
  }

  bool is_requested(const std::string& key) const {
    return std::any_of(diff_.requested.begin(), diff_.requested.end(),
                       [&](const KeyChange& c) { return c.key == key; });
  }

  /// Step of the end that has the setting in effect, with it off as the gate puts it.
  std::optional<double> without(const Finding& finding, bool lost) {
    const Subset end(diff_.requested.size(), !lost);
    try {
      const std::string text = with_value(documents_.mixture(end), finding.key,
                                          finding.effective.empty() ? "null" : finding.effective);
      const Scenario off = read_scenario_text(text, documents_.file(), {}, "", data_);
      // A null that the gate puts is not what a null that is written means.
      if (!in_effect(off, finding)) return std::nullopt;
      StepMemo memo;
      return step_seconds(off, memo);
    } catch (const std::exception&) {
      return std::nullopt;  // what the gate does cannot be written, or not alone
    }
  }

  void add_gate(const Finding& finding, bool lost) {
    GateChange gate{.finding = finding, .lost = lost, .share = {}, .delta_seconds = {}};
    for (size_t i = 0; i < near_.size() && !gate.share; ++i) {
      const auto found = [&](const std::optional<Scenario>& s) {
        return s && has(s->findings, finding);
      };
      const bool appears = found(near_[i].with_it) == lost && near_[i].with_it;
      const bool vanishes = found(near_[i].without_it) != lost && near_[i].without_it;
      if (appears || vanishes) gate.share = i;
    }
    if (const auto off = without(finding, lost))
      gate.delta_seconds =
          lost ? *off - diff_.a.report.step_seconds : diff_.b.report.step_seconds - *off;
    diff_.gates.push_back(std::move(gate));
  }

  void gates() {
    for (const Finding& f : new_silent_findings(diff_.a.scenario, diff_.b.scenario))
      if (!is_requested(f.key)) add_gate(f, true);
    for (const Finding& f : new_silent_findings(diff_.b.scenario, diff_.a.scenario))
      if (!is_requested(f.key)) add_gate(f, false);
    std::stable_sort(
        diff_.gates.begin(), diff_.gates.end(), [](const GateChange& x, const GateChange& y) {
          return std::abs(x.delta_seconds.value_or(0)) > std::abs(y.delta_seconds.value_or(0));
        });
  }

  void undone() {
    for (size_t i = 0; i < diff_.requested.size(); ++i) {
      if (diff_.requested[i].to.empty()) continue;
      for (const Finding& f : diff_.b.scenario.findings)
        if (f.kind == Finding::Kind::silent && f.key == diff_.requested[i].key &&
            f.requested != f.effective) {
          diff_.undone.push_back({i, f.reason});
          break;
        }
    }
  }

  Diff& diff_;
  const DocumentPair& documents_;
  Mixtures& mixtures_;
  const DataPaths& data_;
  std::vector<Neighbours> near_;  ///< by place in by_change
  std::vector<size_t> order_, place_;
};

}  // namespace

std::vector<Finding> new_silent_findings(const Scenario& a, const Scenario& b) {
  std::vector<Finding> found;
  for (const Finding& f : b.findings)
    if (f.kind == Finding::Kind::silent && !has(a.findings, f)) found.push_back(f);
  return found;
}

std::variant<Diff, StalledSide> diff(Scenario a, Scenario b, const DataPaths& data,
                                     const DiffOptions& options) {
  Diff result;
  result.a.scenario = std::move(a);
  result.b.scenario = std::move(b);
  for (DiffSide* side : {&result.a, &result.b}) {
    auto outcome = simulate(side->scenario);
    if (Stall* stall = std::get_if<Stall>(&outcome))
      return StalledSide{side->scenario.file, std::move(*stall)};
    side->run = std::move(std::get<Simulation>(outcome));
    side->report = side->run->report;
  }
  const double a_seconds = result.a.report.step_seconds, b_seconds = result.b.report.step_seconds;
  result.delta_seconds = b_seconds - a_seconds;
  result.by_cause = causes(*result.a.run, *result.b.run);
  result.critical_path = critical_causes(result.a.report, result.b.report);
  if (!options.keep_runs) {
    result.a.run.reset();
    result.b.run.reset();
  }
  const DocumentPair documents(result.a.scenario, result.b.scenario);
  result.requested = documents.changes();
  result.effective = effective_changes(result.a.scenario, result.b.scenario);
  const double tasks = std::max(result.a.report.tasks, result.b.report.tasks);
  Mixtures mixtures(documents, data, tasks, options.attribution.progress);
  result.attribution = attribute(
      mixtures, result.requested.size(),
      modelled(result.requested, result.a.scenario, result.b.scenario),
      {result.a.scenario, result.b.scenario, a_seconds, b_seconds,
       static_cast<double>(result.a.report.tasks), static_cast<double>(result.b.report.tasks)},
      options.attribution);
  Explaining(result, documents, mixtures, data).explain();
  return result;
}

}  // namespace stepsim
