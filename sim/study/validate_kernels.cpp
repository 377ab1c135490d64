#include "sim/study/validate_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

namespace stepsim {
namespace {

using nlohmann::ordered_json;

std::string kernel_cell_name(const KernelCell& cell) {
  return cell.kind + " " + cell.gpu + " " + cell.dtype;
}

ordered_json kernel_statistics(const RelativeErrors& s) {
  if (s.count == 0) return nullptr;
  return {{"count", s.count},     {"mean_abs", s.mean_abs}, {"median_abs", s.median_abs},
          {"p90_abs", s.p90_abs}, {"max_abs", s.max_abs},   {"bias", s.bias}};
}

}  // namespace

KernelValidation validate_kernels(const std::string& file, const DataPaths& data) {
  KernelValidation result;
  MeasuredDevices devices(data);
  std::map<std::tuple<KernelKind, std::string, std::string>, std::vector<double>> cells;
  for (KernelRow& row : read_kernel_rows(file, data)) {
    PredictedKernel& kernel = result.rows.emplace_back();
    kernel.row = std::move(row);
    const KernelRow& r = kernel.row;
    if (!r.failure.empty()) continue;
    kernel.seconds = kernel_seconds(r, devices.at(r.device, r.library)).value;
    cells[{r.kind, r.gpu, r.dtype_said}].push_back(kernel.error());
  }
  std::vector<std::pair<KernelKind, KernelCell>> sorted;
  for (const auto& [key, errors] : cells)
    sorted.push_back({std::get<0>(key),
                      {std::string(kernel_kind_name(std::get<0>(key))), std::get<1>(key),
                       std::get<2>(key), statistics_of(errors)}});
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, -a.second.errors.median_abs) <
           std::pair(b.first, -b.second.errors.median_abs);
  });
  for (auto& [kind, cell] : sorted) result.cells.push_back(std::move(cell));
  return result;
}

std::string validation_text(const KernelValidation& v) {
  std::string text = fmt::format("{:<20}{:<34}{:<24}{:>6}{:>9}{:>9}{:>9}\n", "kind", "GPU", "type",
                                 "rows", "median", "bias", "p90");
  std::vector<double> all;
  for (const KernelCell& cell : v.cells)
    text +=
        fmt::format("{:<20.19}{:<34.33}{:<24.23}{:>6}{:>7.1f} %{:>+7.1f} %{:>7.1f} %\n", cell.kind,
                    cell.gpu, cell.dtype, cell.errors.count, 100 * cell.errors.median_abs,
                    100 * cell.errors.bias, 100 * cell.errors.p90_abs);
  std::map<std::string, int> failures;
  for (const PredictedKernel& kernel : v.rows)
    if (!kernel.row.failure.empty()) ++failures[kernel.row.failure];
  int failed = 0;
  for (const auto& [reason, count] : failures) failed += count;
  text += "median, p90: of absolute relative errors; bias: mean of signed ones\n";
  if (failed > 0) text += fmt::format("{} of {} rows are not predicted\n", failed, v.rows.size());
  for (const auto& [reason, count] : failures)
    text += fmt::format("{:>6}  {:.90}\n", count, reason);
  return text;
}

std::string validation_json(const KernelValidation& v) {
  ordered_json rows = ordered_json::array();
  std::vector<double> errors;
  for (const PredictedKernel& kernel : v.rows) {
    const KernelRow& r = kernel.row;
    const bool placed = r.failure.empty();
    if (placed) errors.push_back(kernel.error());
    rows.push_back(
        {{"id", fmt::format("line {}", r.line)},
         {"group", placed ? std::string(kernel_kind_name(r.kind)) + " " + r.gpu + " " + r.dtype_said
                          : r.op + " " + r.gpu + " " + r.dtype_said},
         {"tier", nullptr},
         {"measured_seconds", r.measured_seconds > 0 ? ordered_json(r.measured_seconds) : nullptr},
         {"predicted_seconds", placed ? ordered_json(kernel.seconds) : nullptr},
         {"relative_error", placed ? ordered_json(kernel.error()) : nullptr},
         {"failure", placed ? ordered_json(nullptr) : ordered_json(r.failure)}});
  }
  ordered_json groups = ordered_json::object();
  for (const KernelCell& cell : v.cells)
    groups[kernel_cell_name(cell)] = kernel_statistics(cell.errors);
  const ordered_json body{
      {"rows", rows},
      {"statistics",
       {{"overall", kernel_statistics(statistics_of(errors))}, {"by_group", groups}}}};
  return body.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stepsim
