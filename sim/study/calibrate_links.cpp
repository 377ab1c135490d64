// Parameters of links fitted to measured collectives.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "sim/config/cluster_read.h"
#include "sim/network/operation.h"
#include "sim/study/calibrate_system.h"
#include "sim/study/robust_fit.h"

namespace stepsim {
namespace {

/// One number of a system file, and where a Cluster holds it in SI.
struct LinkRow {
  std::string_view pointer, unit;
  double low, high, step;
  double scale;
  double& (*of)(Cluster&);
};
constexpr std::array<LinkRow, 9> link_rows{{
    {"/gpu/nvlink/efficiency", "", 0.05, 1, 0.001, 1,
     [](Cluster& c) -> double& { return c.device.nvlink_efficiency; }},
    {"/gpu/nvlink/latency", "us", 0.05, 100, 0.01, 1e-6,
     [](Cluster& c) -> double& { return c.device.nvlink_latency.value; }},
    {"/gpu/nvlink/half_message", "MB", 0.01, 1000, 0.1, 1e6,
     [](Cluster& c) -> double& { return c.device.nvlink_half_message.value; }},
    {"/gpu/nvlink/ramp", "MB", 0.01, 1000, 0.1, 1e6,
     [](Cluster& c) -> double& { return c.device.nvlink_ramp.value; }},
    {"/gpu/nvlink/nvls/efficiency", "", 0.05, 1, 0.001, 1,
     [](Cluster& c) -> double& { return c.device.nvls_efficiency; }},
    {"/gpu/nvlink/nvls/ramp", "MB", 0.01, 1000, 0.1, 1e6,
     [](Cluster& c) -> double& { return c.device.nvls_ramp.value; }},
    {"/gpu/nvlink/nvls/latency", "us", 0.5, 500, 0.1, 1e-6,
     [](Cluster& c) -> double& { return c.device.nvls_latency.value; }},
    {"/nic_efficiency", "", 0.05, 1, 0.001, 1,
     [](Cluster& c) -> double& { return c.nic_efficiency; }},
    {"/nic_latency", "us", 0.5, 500, 0.1, 1e-6,
     [](Cluster& c) -> double& { return c.nic_latency.value; }},
}};
/// A standard error beyond this share of the value: the rows do not tell it.
constexpr double most_error = 0.5;
constexpr double link_felt = 1e-3;

/// Seconds of every sample on `cluster`; groups are placed once each.
std::vector<double> predicted_seconds(const Cluster& cluster,
                                      const std::vector<CollectiveSample>& samples) {
  std::map<std::pair<int, int>, std::pair<Cluster, GroupPlacement>> sites;
  std::vector<double> seconds;
  for (const CollectiveSample& sample : samples) {
    auto site = sites.find({sample.gpus, sample.nodes});
    if (site == sites.end()) {
      Cluster scaled = cluster;
      scale(scaled, sample.nodes, 0);
      std::vector<int> ranks;
      for (int node = 0; node < sample.nodes; ++node)
        for (int i = 0; i < sample.gpus / sample.nodes; ++i)
          ranks.push_back(node * scaled.gpus_per_node + i);
      GroupPlacement group = place(ranks, Fabric(scaled));
      site = sites.try_emplace({sample.gpus, sample.nodes}, std::move(scaled), group).first;
    }
    const auto& [on, group] = site->second;
    seconds.push_back(collective_cost(sample.op, {sample.bytes}, group, on).duration.value);
  }
  return seconds;
}

/// `cluster` with the values of `rows`, in their units.
Cluster with_values(Cluster cluster, const std::vector<const LinkRow*>& rows,
                    const std::vector<double>& values) {
  for (size_t i = 0; i < rows.size(); ++i) rows[i]->of(cluster) = values[i] * rows[i]->scale;
  return cluster;
}

std::vector<double> residuals_of(const Cluster& cluster,
                                 const std::vector<CollectiveSample>& samples) {
  std::vector<double> r = predicted_seconds(cluster, samples);
  for (size_t i = 0; i < r.size(); ++i) r[i] = std::log(r[i] / samples[i].seconds);
  return r;
}

void check_samples(const Cluster& cluster, const std::vector<CollectiveSample>& samples) {
  for (const CollectiveSample& s : samples)
    if (s.gpus / s.nodes > cluster.gpus_per_node)
      throw Error(
          cluster.file, "/gpus_per_node",
          fmt::format("is {}, but {} of {} GPUs were measured on {} node{}", cluster.gpus_per_node,
                      operation_name(s.op), s.gpus, s.nodes, s.nodes == 1 ? "" : "s"));
}

/// Those that move a row of `samples`.
std::vector<const LinkRow*> moving(const Cluster& cluster,
                                   const std::vector<CollectiveSample>& samples) {
  const std::vector<double> base = predicted_seconds(cluster, samples);
  std::vector<const LinkRow*> rows;
  for (const LinkRow& row : link_rows) {
    Cluster moved = cluster;
    if (row.of(moved) <= 0) continue;
    row.of(moved) *= 0.9;
    const std::vector<double> other = predicted_seconds(moved, samples);
    double most = 0;
    for (size_t i = 0; i < base.size(); ++i)
      most = std::max(most, std::abs(other[i] / base[i] - 1));
    if (most > link_felt) rows.push_back(&row);
  }
  return rows;
}

RelativeErrors link_errors(const std::vector<double>& residuals, const std::vector<size_t>& which) {
  std::vector<double> errors;
  for (const size_t i : which) errors.push_back(std::exp(residuals[i]) - 1);
  return statistics_of(errors);
}

}  // namespace

LinkCalibration calibrate_links(const Cluster& cluster,
                                const std::vector<CollectiveSample>& samples) {
  check_samples(cluster, samples);
  LinkCalibration result{.rows = static_cast<int>(samples.size()),
                         .parameters = {},
                         .untold = {},
                         .groups = {},
                         .cluster = cluster};
  std::vector<const LinkRow*> rows = moving(cluster, samples);
  RobustFit fit;
  // What is not told by the rows stays what it was, and the rest is fitted without it.
  while (!rows.empty()) {
    std::vector<FreeParameter> free;
    Cluster start = cluster;
    for (const LinkRow* row : rows)
      free.push_back({row->of(start) / row->scale, row->low, row->high, row->step});
    fit = robust_fit(free, [&](const std::vector<double>& values) {
      return residuals_of(with_values(cluster, rows, values), samples);
    });
    size_t worst = 0;
    double share = 0;
    for (size_t i = 0; i < rows.size(); ++i)
      if (const double s = fit.standard_errors[i] / fit.values[i]; s > share) share = s, worst = i;
    if (share <= most_error && samples.size() > 2 * rows.size()) break;
    result.untold.emplace_back(rows[worst]->pointer);
    rows.erase(rows.begin() + static_cast<long>(worst));
  }
  if (rows.empty())
    throw Error("--collectives", "",
                fmt::format("nothing to fit: {} measurements tell no parameter of {}; sizes from "
                            "1 MiB to 1 GiB tell efficiencies, small ones latencies",
                            samples.size(), cluster.system));
  result.cluster = with_values(cluster, rows, fit.values);
  Cluster before = cluster;
  for (size_t i = 0; i < rows.size(); ++i)
    result.parameters.push_back({std::string(rows[i]->pointer), std::string(rows[i]->unit),
                                 rows[i]->of(before) / rows[i]->scale, fit.values[i],
                                 fit.standard_errors[i]});
  const std::vector<double> r0 = residuals_of(cluster, samples),
                            r1 = residuals_of(result.cluster, samples);
  std::map<std::string, std::vector<size_t>> groups;
  std::vector<size_t> all;
  for (size_t i = 0; i < samples.size(); ++i) {
    groups[fmt::format("{}, {} GPUs on {} node{}", operation_name(samples[i].op), samples[i].gpus,
                       samples[i].nodes, samples[i].nodes == 1 ? "" : "s")]
        .push_back(i);
    all.push_back(i);
  }
  for (const auto& [name, which] : groups)
    result.groups.push_back({name, link_errors(r0, which), link_errors(r1, which)});
  result.median_before = link_errors(r0, all).median_abs;
  result.median_after = link_errors(r1, all).median_abs;
  return result;
}

std::string calibration_text(const LinkCalibration& c) {
  std::string text = fmt::format(
      "{} measured collectives: median error {:.1f} % before, {:.1f} % after\n\n"
      "{:<44}{:>12}{:>12}{:>12}\n",
      c.rows, 100 * c.median_before, 100 * c.median_after, "parameter", "before", "after", "+-");
  for (const LinkParameter& p : c.parameters)
    text += fmt::format("{:<44}{:>12.4g}{:>12.4g}{:>12.2g} {}\n", p.pointer, p.before, p.after,
                        p.standard_error, p.unit);
  for (const std::string& pointer : c.untold)
    text += fmt::format("{:<44} stays: these rows do not tell it\n", pointer);
  text += fmt::format("\n{:<44}{:>12}{:>12}{:>12}{:>10}\n", "residuals (median error, bias)",
                      "rows", "before", "after", "bias");
  for (const CollectiveGroup& g : c.groups)
    text += fmt::format("{:<44.44}{:>12}{:>10.1f} %{:>10.1f} %{:>+8.1f} %\n", g.name, g.after.count,
                        100 * g.before.median_abs, 100 * g.after.median_abs, 100 * g.after.bias);
  return text;
}

}  // namespace stepsim
