#include "sim/study/calibrate_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "sim/base/error.h"
#include "sim/study/robust_fit.h"

namespace stepsim {
namespace {

constexpr double step_felt = 0.01;
constexpr FitOptions slopes_once{.nudge = 0.03, .slopes_once = true};

/// Rows that ran the same: one vote, the mean of their logarithms.
struct Vote {
  StepRow row;
  std::string file, group, family;
  double log_measured = 0;
  std::vector<size_t> felt;                         ///< parameters that decide it
  std::map<std::vector<double>, double> predicted;  ///< logarithm, by their values
};

class Votes {
 public:
  Votes(std::vector<StepSample> samples, const std::vector<StepParameter>& parameters)
      : parameters_(parameters) {
    std::map<std::string, std::vector<size_t>> alike;
    for (size_t i = 0; i < samples.size(); ++i)
      alike[samples[i].file + "\n" + samples[i].row.row.scenario].push_back(i);
    for (const auto& [key, rows] : alike) {
      StepSample& first = samples[rows.front()];
      Vote vote{.row = std::move(first.row),
                .file = first.file,
                .group = {},
                .family = {},
                .felt = {},
                .predicted = {}};
      vote.group = vote.row.row.group;
      vote.family = family_of(vote.row.scenario->model.name);
      vote.log_measured = std::log(vote.row.row.measured_seconds);
      for (size_t i = 1; i < rows.size(); ++i)
        vote.log_measured += std::log(samples[rows[i]].row.row.measured_seconds);
      vote.log_measured /= static_cast<double>(rows.size());
      for (size_t p = 0; p < parameters_.size(); ++p)
        if (parameters_[p].decides(*vote.row.scenario)) vote.felt.push_back(p);
      votes_.push_back(std::move(vote));
    }
  }

  size_t size() const { return votes_.size(); }
  const Vote& operator[](size_t i) const { return votes_[i]; }

  /// log(predicted / measured) of those with `in`; 0 for the others.
  std::vector<double> residuals(const std::vector<double>& values,
                                const std::vector<bool>& in = {}) {
    std::vector<StepRow> rows;
    std::vector<size_t> whose;
    for (size_t i = 0; i < votes_.size(); ++i) {
      if ((!in.empty() && !in[i]) || votes_[i].predicted.contains(own(votes_[i], values))) continue;
      StepRow& row = rows.emplace_back(votes_[i].row);
      for (const size_t p : votes_[i].felt) parameters_[p].set(row.scenario->cluster, values[p]);
      whose.push_back(i);
    }
    predict(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].row.failure.empty()) throw Error(rows[i].row.id, "", rows[i].row.failure);
      Vote& vote = votes_[whose[i]];
      vote.predicted[own(vote, values)] = std::log(rows[i].row.predicted_seconds);
    }
    std::vector<double> r;
    for (size_t i = 0; i < votes_.size(); ++i)
      r.push_back(!in.empty() && !in[i]
                      ? 0
                      : votes_[i].predicted.at(own(votes_[i], values)) - votes_[i].log_measured);
    return r;
  }

 private:
  static std::vector<double> own(const Vote& vote, const std::vector<double>& values) {
    std::vector<double> mine;
    for (const size_t p : vote.felt) mine.push_back(values[p]);
    return mine;
  }
  const std::vector<StepParameter>& parameters_;
  std::vector<Vote> votes_;
};

RelativeErrors step_errors(const std::vector<double>& logarithms) {
  std::vector<double> errors;
  for (const double r : logarithms) errors.push_back(std::exp(r) - 1);
  return statistics_of(errors);
}

/// A fit of some of the parameters; the others keep their values.
class Problem {
 public:
  Problem(Votes& votes, const std::vector<StepParameter>& parameters)
      : votes_(votes), parameters_(parameters) {
    for (size_t p = 0; p < parameters.size(); ++p) active_.push_back(p);
  }

  const std::vector<size_t>& active() const { return active_; }
  const RobustFit& fit() const { return fit_; }
  void keep(size_t i) { active_.erase(active_.begin() + static_cast<long>(i)); }

  void solve() {
    fit_ = robust_fit(
        free(), [&](const std::vector<double>& values) { return votes_.residuals(all(values)); },
        slopes_once);
  }
  std::vector<double> residuals() { return votes_.residuals(all(fit_.values)); }

  /// Residuals of `own` when it is left out; simulated `again`, or by slopes.
  std::vector<double> without(const std::vector<bool>& own, const std::vector<double>& residuals,
                              bool again) {
    std::vector<bool> others = own;
    others.flip();
    std::vector<double> values = refit(fit_, free(), residuals, others);
    stand_in(values);
    if (again) return votes_.residuals(all(values), own);
    std::vector<double> anew = residuals;
    for (size_t p = 0; p < values.size(); ++p)
      for (size_t i = 0; i < anew.size(); ++i)
        anew[i] += fit_.slopes[p][i] * std::log(values[p] / fit_.values[p]);
    return anew;
  }

 private:
  std::vector<FreeParameter> free() const {
    std::vector<FreeParameter> free;
    for (const size_t p : active_) {
      const StepParameter& one = parameters_[p];
      free.push_back({one.value, one.row->low, one.row->high, one.row->step});
    }
    return free;
  }
  std::vector<double> all(const std::vector<double>& values) const {
    std::vector<double> full;
    for (const StepParameter& p : parameters_) full.push_back(p.value);
    for (size_t i = 0; i < active_.size(); ++i) full[active_[i]] = values[i];
    return full;
  }
  /// A parameter that no row tells is the geometric mean of the others of its key, if any.
  void stand_in(std::vector<double>& values) const {
    const std::vector<double> told = values;
    for (size_t p = 0; p < values.size(); ++p) {
      if (told[p] > 0) continue;
      double sum = 0;
      int count = 0;
      for (size_t q = 0; q < values.size(); ++q)
        if (told[q] > 0 && parameters_[active_[q]].row == parameters_[active_[p]].row)
          sum += std::log(told[q]), ++count;
      values[p] = count > 0 ? std::exp(sum / count) : parameters_[active_[p]].value;
    }
  }

  Votes& votes_;
  const std::vector<StepParameter>& parameters_;
  std::vector<size_t> active_;
  RobustFit fit_;
};

using Key = std::string Vote::*;

/// Residuals of every vote when its own kind is left out of the fit.
std::vector<double> held_out(const Votes& votes, Problem& problem,
                             const std::vector<double>& residuals, Key key, bool again) {
  std::map<std::string, std::vector<bool>> kinds;
  for (size_t i = 0; i < votes.size(); ++i) {
    std::vector<bool>& own = kinds[votes[i].*key];
    own.resize(votes.size());
    own[i] = true;
  }
  std::vector<double> result(votes.size());
  for (const auto& [name, own] : kinds) {
    const std::vector<double> anew = problem.without(own, residuals, again);
    for (size_t i = 0; i < votes.size(); ++i)
      if (own[i]) result[i] = anew[i];
  }
  return result;
}

/// Where a parameter is that the steps do not tell: felt by none, or known to no better than half;
/// the last one where there are too few steps for all.
std::optional<size_t> not_told(const Problem& problem, size_t votes) {
  const RobustFit& fit = problem.fit();
  for (size_t i = problem.active().size(); i-- > 0;) {
    double most = 0;
    for (const double slope : fit.slopes[i]) most = std::max(most, std::abs(slope));
    if (most < step_felt || fit.standard_errors[i] > fit.values[i] / 2) return i;
  }
  if (votes < 2 * problem.active().size()) return problem.active().size() - 1;
  return std::nullopt;
}

std::vector<StepGroup> groups_of(const Votes& votes, const std::vector<double>& residuals,
                                 const std::vector<double>& without, Key key) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> kinds;
  for (size_t i = 0; i < votes.size(); ++i) {
    kinds[votes[i].*key].first.push_back(residuals[i]);
    kinds[votes[i].*key].second.push_back(without[i]);
  }
  std::vector<StepGroup> groups;
  for (const auto& [name, r] : kinds)
    groups.push_back({name, step_errors(r.first), step_errors(r.second)});
  std::stable_sort(groups.begin(), groups.end(), [](const StepGroup& a, const StepGroup& b) {
    return a.errors.mean_abs > b.errors.mean_abs;
  });
  return groups;
}

}  // namespace

std::string label(const StepParameter& parameter) {
  return std::string(parameter.row->key) + ", " + parameter.name;
}

std::string family_of(const std::string& model) {
  std::string family = model.substr(0, model.find_first_of("0123456789"));
  if (family.ends_with("-v")) family.resize(family.size() - 2);
  while (family.ends_with('-')) family.pop_back();
  return family;
}

std::vector<StepSample> read_samples(const std::vector<std::string>& files, const DataPaths& data,
                                     int every, const std::string& cluster) {
  std::vector<StepSample> samples;
  for (const std::string& file : files)
    for (StepRow& row : read_step_rows(file, data, every, cluster))
      if (row.row.scored && row.scenario) samples.push_back({std::move(row), file});
  return samples;
}

StepCalibration calibrate_steps(std::vector<StepSample> samples,
                                std::vector<StepParameter> parameters) {
  StepCalibration result;
  std::set<std::string> files;
  for (const StepSample& sample : samples) files.insert(sample.file);
  result.files.assign(files.begin(), files.end());
  if (samples.empty()) throw Error("--steps", "", "no row there counts: nothing to fit");
  // What no row feels is not fitted.
  std::erase_if(parameters, [&](const StepParameter& p) {
    return std::none_of(samples.begin(), samples.end(),
                        [&](const StepSample& s) { return p.decides(*s.row.scenario); });
  });
  if (parameters.empty())
    throw Error("--steps", "", "nothing to fit: no row ran on a system with a parameter to fit");
  Votes votes(std::move(samples), parameters);
  result.steps = static_cast<int>(votes.size());
  Problem problem(votes, parameters);
  for (problem.solve(); const auto i = not_told(problem, votes.size()); problem.solve()) {
    result.untold.push_back(label(parameters[problem.active()[*i]]));
    problem.keep(*i);
    if (problem.active().empty())
      throw Error("--steps", "",
                  "nothing to fit: " + std::to_string(votes.size()) +
                      " measured steps tell no parameter; each needs two steps that feel it");
  }
  const RobustFit& fit = problem.fit();
  for (size_t i = 0; i < problem.active().size(); ++i)
    result.parameters.push_back({parameters[problem.active()[i]], fit.values[i],
                                 fit.standard_errors[i],
                                 static_cast<int>(std::count_if(
                                     fit.slopes[i].begin(), fit.slopes[i].end(),
                                     [](double slope) { return std::abs(slope) > step_felt; }))});
  const std::vector<double> residuals = problem.residuals();
  const auto left_out = [&](Key key, bool again) {
    return held_out(votes, problem, residuals, key, again);
  };
  result.groups = groups_of(votes, residuals, left_out(&Vote::group, false), &Vote::group);
  const std::vector<double> families = left_out(&Vote::family, true);
  result.families = groups_of(votes, residuals, families, &Vote::family);
  result.tables = groups_of(votes, residuals, families, &Vote::file);
  return result;
}

}  // namespace stepsim
