#include "sim/study/goodput.h"

#include <cmath>

#include "sim/config/document.h"
#include "sim/config/reader.h"

namespace stepsim {

Operation read_operation(const DataPaths& data, const std::string& gpu) {
  const Document document = load_document(data.root / "hardware" / "operation" / "defaults.json");
  const Reader top(document, "");
  const Reader failures = top.child("failures"), spread = top.child("spread"),
               checkpoint = top.child("checkpoint"), power = top.child("power");
  const auto hours = [&](const char* key) { return failures.required_number(key, 1e-3, 1e12); };
  Operation operation{
      .failures = {.gpu_mtbf_hours = hours("gpu_mtbf_hours"),
                   .link_mtbf_hours = hours("link_mtbf_hours"),
                   .host_mtbf_hours = hours("host_mtbf_hours"),
                   .low = spread.required_number("low", 1e-3, 1),
                   .high = spread.required_number("high", 1, 1e3)},
      .checkpoints = {.save_seconds = checkpoint.required_number("save_seconds", 0, 1e6),
                      .restart_seconds = checkpoint.required_number("restart_seconds", 0, 1e6)},
      .watts_per_gpu = {}};
  const Reader watts = power.child("watts_per_gpu");
  if (watts.has(gpu)) operation.watts_per_gpu = watts.required_number(gpu, 1, 1e6);
  return operation;
}

double mtbf_seconds(const FailureRates& rates, Parts parts, double factor) {
  const auto rate = [](int64_t count, double hours) {
    return hours > 0 ? static_cast<double>(count) / (hours * 3600) : 0;
  };
  const double a_second = rate(parts.gpus, rates.gpu_mtbf_hours) +
                          rate(parts.gpus, rates.link_mtbf_hours) +
                          rate(parts.hosts, rates.host_mtbf_hours);
  return a_second > 0 ? 1 / (factor * a_second) : INFINITY;
}

double young_interval_seconds(double save_seconds, double mtbf_seconds) {
  return std::sqrt(2 * save_seconds * mtbf_seconds);
}

double effective_share(const Checkpoints& c, double m) {
  const double t = c.interval_seconds.value_or(young_interval_seconds(c.save_seconds, m));
  if (!std::isfinite(m)) return c.interval_seconds ? t / (t + c.save_seconds) : 1;
  // Checkpoints that cost nothing are made all the time: only restarts are lost.
  if (t <= 0) return std::exp(-c.restart_seconds / m);
  return t / (m * std::exp(c.restart_seconds / m) * std::expm1((t + c.save_seconds) / m));
}

Goodput goodput(const FailureRates& rates, const Checkpoints& checkpoints, Parts parts) {
  Goodput g{.mtbf_seconds = mtbf_seconds(rates, parts)};
  g.interval_seconds = checkpoints.interval_seconds.value_or(
      young_interval_seconds(checkpoints.save_seconds, g.mtbf_seconds));
  g.share = effective_share(checkpoints, g.mtbf_seconds);
  g.low = effective_share(checkpoints, mtbf_seconds(rates, parts, rates.high));
  g.high = effective_share(checkpoints, mtbf_seconds(rates, parts, rates.low));
  return g;
}

RunCost run_cost(double tokens, double tokens_per_second, int64_t gpus, const Goodput& g,
                 std::optional<double> price, std::optional<double> watts) {
  const double training_days = tokens / tokens_per_second / 86400;
  RunCost cost{.days = training_days / g.share,
               .days_low = training_days / g.high,
               .days_high = training_days / g.low};
  cost.gpu_hours = cost.days * 24 * static_cast<double>(gpus);
  if (price) cost.money = cost.gpu_hours * *price;
  if (watts) cost.megawatt_hours = cost.gpu_hours * *watts * 1e-6;
  return cost;
}

}  // namespace stepsim
