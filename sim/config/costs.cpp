// Given times in place of kernels, and what is computed again in backward.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/config/model_read.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using nlohmann::json;

constexpr double longest_seconds = 1e6;

/// A number for every virtual stage, or one per pipeline rank, or one per virtual stage in the
/// order in which a microbatch visits them.
std::vector<double> times(const Reader& costs, const std::string& key, const Parallelism& p) {
  const PipelineShape shape = p.pipeline();
  const auto virtual_stages = static_cast<size_t>(shape.virtual_stages()),
             ranks = static_cast<size_t>(p.pp);
  const json* value = costs.find(key);
  if (value == nullptr) return {};
  if (!value->is_array())
    return std::vector<double>(virtual_stages, costs.number(key, 0, 0, longest_seconds));
  const size_t n = value->size();
  if (n != virtual_stages && n != ranks)
    costs.fail(
        key, "must hold PP = " + std::to_string(p.pp) +
                 (virtual_stages > ranks ? " or PP x VP = " + std::to_string(virtual_stages) : "") +
                 " times; got " + std::to_string(n));
  std::vector<double> list;
  for (size_t stage = 0; stage < virtual_stages; ++stage) {
    const bool up = p.placement == Placement::vee && stage >= ranks;
    const size_t at = n == virtual_stages ? stage : up ? 2 * ranks - 1 - stage : stage % ranks;
    const json& entry = (*value)[at];
    if (!entry.is_number() || !(entry.get<double>() >= 0) || entry.get<double>() > longest_seconds)
      costs.fail(key, "must hold times from 0 to 1e6 seconds; entry " + std::to_string(at) +
                          " is " + printable(entry.dump(), 40));
    list.push_back(entry.get<double>());
  }
  return list;
}

/// Some computation of the schedule is half a backward.
bool runs_halves(const Scenario& s) {
  if (s.order.empty()) return schedule_name(s.schedule).splits;
  using Kind = OrderEntry::Kind;
  for (const auto& line : s.order)
    for (const OrderEntry& e : line)
      if (e.kind == Kind::backward_input || e.kind == Kind::backward_weight) return true;
  return false;
}

}  // namespace

void resolve_costs(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& costs = sections.costs;
  if (!sections.given_costs()) return;
  GivenCosts given;
  const Parallelism& p = scenario.parallel;
  if (!costs.has("forward_seconds"))
    costs.fail("forward_seconds", "is missing; expected a time in seconds, or one for each stage");
  given.forward_seconds = times(costs, "forward_seconds", p);
  given.backward_seconds = times(costs, "backward_seconds", p);
  const std::vector<double> input = times(costs, "backward_input_seconds", p),
                            weight = times(costs, "backward_weight_seconds", p);
  const bool halves = !input.empty() || !weight.empty();
  if (halves && !given.backward_seconds.empty())
    costs.fail("backward_seconds",
               "cannot be combined with backward_input_seconds and backward_weight_seconds");
  if (halves && (input.empty() || weight.empty()))
    costs.fail(input.empty() ? "backward_input_seconds" : "backward_weight_seconds",
               "is missing; the two halves of a backward go together");
  if (!halves && given.backward_seconds.empty())
    costs.fail("backward_seconds", "is missing; expected a time in seconds, or one for each stage");
  if (!halves && runs_halves(scenario))
    costs.fail("backward_seconds",
               "'" + std::string(name(scenario.schedule)) +
                   "' runs the halves of a backward apart; expected backward_input_seconds and "
                   "backward_weight_seconds");
  if (halves) {
    given.backward_seconds = input;
    for (size_t i = 0; i < weight.size(); ++i) given.backward_seconds[i] += weight[i];
    given.backward_input_seconds = input;
    given.backward_weight_seconds = weight;
  }
  given.forward_backward_seconds = times(costs, "forward_backward_seconds", p);
  if (costs.has("weight_memory"))
    given.weight_memory = costs.required_number("weight_memory", 0, 1);
  given.p2p_seconds = times(costs, "p2p_seconds", p);
  if (given.p2p_seconds.empty()) given.p2p_seconds.assign(given.forward_seconds.size(), 0);
  scenario.costs = std::move(given);
}

}  // namespace stepsim
