#include "sim/study/experiment.h"

#include <new>
#include <nlohmann/json.hpp>

#include "sim/report/json.h"
#include "sim/simulate.h"

namespace stepsim {
namespace {

using nlohmann::json;

std::optional<double> number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

/// `read` gives the scenario or throws an Error.
template <typename Read>
Outcome outcome_of_scenario(const Read& read) {
  try {
    const Scenario scenario = read();
    const auto outcome = simulate(scenario);
    if (const Stall* stall = std::get_if<Stall>(&outcome))
      return {.report = {},
              .failure_pointer = "",
              .failure = "the step cannot finish: " + stall->waits.front() + " waits"};
    return {.report = report_json(scenario, std::get<Simulation>(outcome).report),
            .failure_pointer = {},
            .failure = {}};
  } catch (const Error& error) {
    return {.report = {}, .failure_pointer = error.pointer(), .failure = error.message()};
  } catch (const std::bad_alloc&) {
    return {
        .report = {}, .failure_pointer = "", .failure = "needs more memory than this machine has"};
  }
}

}  // namespace

Scenario read_experiment(const Experiment& experiment, std::span<const std::string> words,
                         const std::string& cluster) {
  std::vector<std::string> all = experiment.words;
  all.insert(all.end(), words.begin(), words.end());
  return read_scenario(experiment.file, all, cluster.empty() ? experiment.cluster : cluster,
                       experiment.data);
}

Outcome simulated(const Experiment& experiment, std::span<const std::string> words,
                  const std::string& cluster) {
  return outcome_of_scenario([&] { return read_experiment(experiment, words, cluster); });
}

Outcome simulated_text(const std::string& text, const std::string& file, const DataPaths& data) {
  return outcome_of_scenario([&] { return read_scenario_text(text, file, {}, "", data); });
}

Figures figures_of(const std::string& text) {
  const json report = json::parse(text);
  Figures f;
  f.step_seconds = report.at("step_time_seconds").get<double>();
  f.low_seconds = f.high_seconds = f.step_seconds;
  if (const json& interval = report.at("interval"); interval.is_object()) {
    f.low_seconds = interval.at("low_seconds").get<double>();
    f.high_seconds = interval.at("high_seconds").get<double>();
  }
  f.tokens_per_second_per_gpu = number_of(report, "tokens_per_second_per_gpu");
  f.mfu = number_of(report, "mfu");
  f.bubble_fraction = report.at("bubble_fraction").get<double>();
  f.overlap_efficiency = number_of(report.at("overlap_efficiency"), "overall");
  f.gpus = report.at("counts").at("gpus").get<int>();
  if (const json& memory = report.at("memory"); memory.is_object()) {
    f.needed_bytes =
        memory.at("peak_bytes").get<double>() + memory.at("reserve_bytes").get<double>();
    f.capacity_bytes = memory.at("capacity_bytes").get<double>();
    f.fits = memory.at("fits").get<bool>();
    f.memory_rank = memory.at("rank").get<int>();
  }
  for (const auto& [cause, share] : report.at("ledger").items()) {
    if (share.is_number()) f.ledger.emplace_back(cause, share.get<double>() * f.step_seconds);
    if (cause == "compute" || !share.is_number() || share.get<double>() <= f.cause_share) continue;
    f.cause = cause;
    f.cause_share = share.get<double>();
  }
  return f;
}

}  // namespace stepsim
