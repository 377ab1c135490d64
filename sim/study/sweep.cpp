#include "sim/study/sweep.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/config/document.h"

namespace stepsim {
namespace {

using nlohmann::json;

/// Tokens of one step.
double step_tokens(const Figures& f) { return f.tokens_per_second() * f.step_seconds; }

void find_best(Sweep& result) {
  const Figures* first = nullptr;
  for (const SweepRow& row : result.rows) {
    if (!row.done || row.outcome.failed()) continue;
    if (first == nullptr) first = &row.figures;
    const double tokens = step_tokens(*first);
    if (row.figures.gpus != first->gpus ||
        std::abs(step_tokens(row.figures) - tokens) > 1e-6 * tokens)
      result.aim = SweepAim::tokens;
  }
  const auto better = [&](const Figures& a, const Figures& b) {
    return result.aim == SweepAim::step ? a.step_seconds < b.step_seconds
                                        : a.tokens_per_second_per_gpu > b.tokens_per_second_per_gpu;
  };
  for (size_t i = 0; i < result.rows.size(); ++i)
    if (result.rows[i].feasible() &&
        (result.best == Sweep::none ||
         better(result.rows[i].figures, result.rows[result.best].figures)))
      result.best = i;
}

/// A key that nothing reads would give equal rows.
void check_keys_matter(const Experiment& experiment, const std::vector<std::string>& keys,
                       const Point& point) {
  std::string cluster;
  const std::vector<std::string> words = override_words(point, cluster);
  std::vector<std::string> ignored;
  try {
    ignored = read_experiment(experiment, words, cluster).not_modelled;
  } catch (const Error&) {
    return;  // it is this point's reason
  }
  for (const std::string& key : keys)
    if (std::find(ignored.begin(), ignored.end(), key) != ignored.end())
      throw Error(
          std::string(command_line_name), "/--vary/" + printable(key),
          "is not modelled: every row would be the same (stepsim explain " + printable(key) + ")");
}

/// What is wrong with every point alike is wrong with what they have in common.
void refuse_common_failure(const Experiment& experiment, const Sweep& result) {
  if (!result.complete() || result.rows.empty()) return;
  const Outcome& first = result.rows.front().outcome;
  const bool all = std::all_of(result.rows.begin(), result.rows.end(), [&](const SweepRow& row) {
    return row.outcome.failed() && row.outcome.failure == first.failure &&
           row.outcome.failure_pointer == first.failure_pointer;
  });
  if (all && !first.failure_pointer.empty())
    throw Error(experiment.file, first.failure_pointer, first.failure);
}

json journal_identity(const Experiment& experiment) {
  return {{"schema", "stepsim.sweep-journal/1"},
          {"version", STEPSIM_VERSION},
          {"file", experiment.file},
          {"text", std::to_string(std::hash<std::string>{}(read_text(experiment.file)))},
          {"overrides", experiment.words},
          {"cluster", experiment.cluster}};
}

}  // namespace

bool Sweep::complete() const {
  return std::all_of(rows.begin(), rows.end(), [](const SweepRow& row) { return row.done; });
}

std::string point_text(const Point& point) {
  std::string text;
  for (const Assignment& a : point) text += (text.empty() ? "" : " ") + a.key + "=" + a.value;
  return text;
}

Sweep sweep(const Experiment& experiment, std::vector<Axis> axes, const SweepRun& run) {
  Sweep result{.file = experiment.file, .keys = keys_of(axes), .axes = std::move(axes), .rows = {}};
  for (Point& point : product(result.axes)) {
    result.rows.emplace_back();
    result.rows.back().point = std::move(point);
  }
  if (!result.rows.empty()) check_keys_matter(experiment, result.keys, result.rows.front().point);
  const auto finish = [&](SweepRow& row, Outcome outcome) {
    row.outcome = std::move(outcome);
    if (!row.outcome.failed()) row.figures = figures_of(row.outcome.report);
    row.done = true;
    if (run.done) run.done(row);
  };
  std::vector<size_t> open;
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const auto known = run.known.find(point_text(result.rows[i].point));
    if (known != run.known.end())
      finish(result.rows[i], known->second);
    else
      open.push_back(i);
  }
  const Crew crew = run.crew ? run.crew : crew_of_threads(run.threads, experiment.data);
  crew({.count = open.size(),
        .errand =
            [&](size_t i) {
              std::string cluster;
              const std::vector<std::string> words =
                  override_words(result.rows[open[i]].point, cluster);
              return point_errand(experiment, words, cluster);
            },
        .answered =
            [&](size_t i, const std::string& answer) {
              finish(result.rows[open[i]], outcome_by(answer));
            },
        .stop = run.stop});
  refuse_common_failure(experiment, result);
  find_best(result);
  return result;
}

std::string journal_header(const Experiment& experiment) {
  return journal_identity(experiment).dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

std::string journal_line(const std::string& point, const Outcome& outcome) {
  const json line{{"point", point},
                  {"report", outcome.report},
                  {"failure_pointer", outcome.failure_pointer},
                  {"failure", outcome.failure}};
  return line.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

std::map<std::string, Outcome> read_journal(const std::string& text, const std::string& file,
                                            const Experiment& experiment) {
  std::map<std::string, Outcome> known;
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line)) return known;
  if (json::parse(line, nullptr, false) != journal_identity(experiment))
    throw Error(file, "",
                "is no journal of this sweep: another scenario, other overrides or another "
                "version wrote it; name a new file");
  while (std::getline(lines, line)) {
    const json row = json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("point") || !row.contains("report")) break;
    known[row.at("point").get<std::string>()] = {
        .report = row.at("report").get<std::string>(),
        .failure_pointer = row.value("failure_pointer", ""),
        .failure = row.value("failure", "")};
  }
  return known;
}

}  // namespace stepsim
