#include "sim/study/calibrate.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/config/device_read.h"

namespace stepsim {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr double loss_scale = 0.05;
constexpr int rows_a_parameter = 3, most_iterations = 60;

/// A parameter that can be fitted, by its key; in its unit where it is a quantity.
struct ParameterRow {
  std::string_view key;
  double low, high, step;  ///< `step`: the digits that are written
  bool quantity;
};
constexpr std::array<ParameterRow, 9> parameter_rows{{
    {"ceiling", 0.05, 1, 0.001, false},
    {"half_k", 1, 5000, 1, false},
    {"forward", 1, 20000, 1, true},
    {"backward", 1, 20000, 1, true},
    {"half_sequence", 10, 8000, 10, false},
    {"backward_half_sequence", 10, 8000, 10, false},
    {"head_dim_64_factor", 0.05, 2, 0.01, false},
    {"wide_forward", 0.05, 2, 0.01, false},
    {"wide_backward", 0.05, 2, 0.01, false},
}};

/// As it is written: to the step, and to the nearest double of that decimal.
double written(double value, const ParameterRow& row) {
  if (row.step >= 1) return std::round(value / row.step) * row.step;
  const double parts = std::round(1 / row.step);
  return std::round(value * parts) / parts;
}

/// Numbers of a block in the file, and what the model says with others in their place.
class Block {
 public:
  Block(const Document& document, std::string pointer, std::string library,
        std::vector<const KernelRow*> rows)
      : document_(document),
        pointer_(std::move(pointer)),
        library_(std::move(library)),
        rows_(std::move(rows)) {
    const json& at = document.root->at(json::json_pointer(pointer_));
    for (const ParameterRow& row : parameter_rows) {
      if (!at.contains(row.key)) continue;
      known_.push_back(&row);
      values_.push_back(row.quantity ? std::stod(at[row.key].get<std::string>())
                                     : at[row.key].get<double>());
    }
    // A parameter that moves no row cannot be fitted.
    const std::vector<const KernelRow*> all = rows_;
    const VectorXd base = residuals(values_, all);
    for (size_t i = known_.size(); i-- > 0;) {
      std::vector<double> moved = values_;
      moved[i] *= 0.9;
      if ((residuals(moved, all) - base).cwiseAbs().maxCoeff() > 1e-9) continue;
      known_.erase(known_.begin() + static_cast<long>(i));
      values_.erase(values_.begin() + static_cast<long>(i));
    }
  }

  const std::vector<const KernelRow*>& rows() const { return rows_; }
  const std::vector<const ParameterRow*>& known() const { return known_; }
  const std::vector<double>& values() const { return values_; }
  const std::string& pointer() const { return pointer_; }

  void put(json& root, const std::vector<double>& values) const {
    json& at = root.at(json::json_pointer(pointer_));
    for (size_t i = 0; i < known_.size(); ++i) {
      const std::string key(known_[i]->key);
      if (known_[i]->quantity)
        at[key] = fmt::format("{} TFLOP/s", values[i]);
      else if (values[i] == std::floor(values[i]) && known_[i]->step >= 1)
        at[key] = static_cast<int64_t>(values[i]);
      else
        at[key] = values[i];
    }
  }

  /// log(predicted / measured).
  VectorXd residuals(const std::vector<double>& values,
                     const std::vector<const KernelRow*>& rows) const {
    Document trial{document_.file, std::make_shared<json>(*document_.root), {}};
    put(*trial.root, values);
    const Device device = with_library(read_device(Reader(trial, "")), library_);
    VectorXd r(static_cast<long>(rows.size()));
    for (size_t i = 0; i < rows.size(); ++i)
      r[static_cast<long>(i)] =
          std::log(kernel_seconds(*rows[i], device).value / rows[i]->measured_seconds);
    return r;
  }

 private:
  const Document& document_;
  std::string pointer_, library_;
  std::vector<const KernelRow*> rows_;
  std::vector<const ParameterRow*> known_;
  std::vector<double> values_;
};

struct Fit {
  std::vector<double> values, standard_errors;
};

/// Levenberg-Marquardt in logarithms of the parameters, reweighted by the loss; its result is
/// written with few digits, from which it starts again to the same.
Fit fit_block(const Block& block, const std::vector<const KernelRow*>& rows) {
  const auto& known = block.known();
  const long n = static_cast<long>(known.size());
  const auto bounded = [&](const std::vector<double>& from, const VectorXd& step) {
    std::vector<double> to = from;
    for (long i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      to[at] = std::clamp(from[at] * std::exp(std::clamp(step[i], -0.5, 0.5)), known[at]->low,
                          known[at]->high);
    }
    return to;
  };
  const auto loss = [](const VectorXd& r) {
    return (r / loss_scale).array().square().log1p().sum();
  };
  Fit fit{block.values(), {}};
  VectorXd r = block.residuals(fit.values, rows);
  double damping = 1e-2;
  MatrixXd normal = MatrixXd::Identity(n, n);
  VectorXd weights;
  for (int iteration = 0; iteration < most_iterations && damping < 1e8; ++iteration) {
    MatrixXd jacobian(r.size(), n);
    constexpr double nudge = 1e-3;
    for (long i = 0; i < n; ++i) {
      std::vector<double> up = fit.values, down = fit.values;
      up[static_cast<size_t>(i)] *= std::exp(nudge);
      down[static_cast<size_t>(i)] *= std::exp(-nudge);
      jacobian.col(i) = (block.residuals(bounded(up, VectorXd::Zero(n)), rows) -
                         block.residuals(bounded(down, VectorXd::Zero(n)), rows)) /
                        (2 * nudge);
    }
    weights = (1 + (r / loss_scale).array().square()).inverse().matrix();
    normal = jacobian.transpose() * weights.asDiagonal() * jacobian;
    const VectorXd gradient = jacobian.transpose() * weights.asDiagonal() * r;
    MatrixXd damped = normal;
    damped.diagonal() += damping * (normal.diagonal().array() + 1e-9).matrix();
    const std::vector<double> next = bounded(fit.values, -damped.ldlt().solve(gradient));
    const VectorXd trial = block.residuals(next, rows);
    const double gain = loss(r) - loss(trial);
    if (gain <= 0) {
      damping *= 10;
      continue;
    }
    fit.values = next;
    r = trial;
    damping = std::max(1e-6, damping / 5);
    if (gain < 1e-7 * loss(r)) break;
  }
  const double freedom = std::max(1.0, static_cast<double>(r.size() - n));
  const double spread =
      weights.size() > 0 ? (weights.array() * r.array().square()).sum() / freedom : 0.0;
  MatrixXd regular = normal;
  regular.diagonal().array() += 1e-12;
  const VectorXd variance = regular.inverse().diagonal() * spread;
  for (long i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    fit.standard_errors.push_back(fit.values[at] * std::sqrt(std::max(0.0, variance[i])));
    fit.values[at] = written(fit.values[at], *known[at]);
  }
  return fit;
}

std::vector<double> errors_of(const VectorXd& r) {
  std::vector<double> errors;
  for (const double x : r) errors.push_back(std::exp(x) - 1);
  return errors;
}

/// Pointer of the block that a row helps to fit; "": none.
std::string block_of(const KernelRow& row, const json& root) {
  static constexpr std::array<const char*, dtype_count> names{
      "fp32", "tf32", "bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4"};
  const std::string type = names.at(static_cast<size_t>(row.dtype));
  const std::string library = row.library.empty() ? "" : "/libraries/" + row.library;
  std::vector<std::string> places;
  if (row.kind == KernelKind::gemm) {
    places = {library + "/gemm/" + type, "/gemm/" + type};
  } else if (row.kind == KernelKind::attention) {
    if (type == "fp8" || type == "mxfp8") places = {library + "/attention/" + type};
    places.push_back(library + "/attention");
  }
  for (const std::string& place : places)
    if (root.contains(json::json_pointer(place))) return place;
  return "";
}

FittedBlock fitted(const Block& block, json& root) {
  FittedBlock result{block.pointer(), static_cast<int>(block.rows().size()), {}, {}, 0, 0};
  const Fit fit = fit_block(block, block.rows());
  for (size_t i = 0; i < block.known().size(); ++i)
    result.parameters.push_back({block.pointer() + "/" + std::string(block.known()[i]->key),
                                 block.known()[i]->quantity ? "TFLOP/s" : "", block.values()[i],
                                 fit.values[i], fit.standard_errors[i]});
  result.median_before =
      statistics_of(errors_of(block.residuals(block.values(), block.rows()))).median_abs;
  result.median_after =
      statistics_of(errors_of(block.residuals(fit.values, block.rows()))).median_abs;
  std::set<std::string> sources;
  for (const KernelRow* row : block.rows()) sources.insert(row->source);
  for (const std::string& source : sources) {
    std::vector<const KernelRow*> own, others;
    for (const KernelRow* row : block.rows()) (row->source == source ? own : others).push_back(row);
    SourceResiduals line{source, statistics_of(errors_of(block.residuals(fit.values, own))), -1};
    if (others.size() >= rows_a_parameter * block.known().size())
      line.without = statistics_of(errors_of(block.residuals(fit_block(block, others).values, own)))
                         .median_abs;
    result.sources.push_back(std::move(line));
  }
  block.put(root, fit.values);
  return result;
}

}  // namespace

Calibration calibrate(const std::string& kernels_file, const std::string& gpu,
                      const std::string& only, const DataPaths& data) {
  const std::filesystem::path path = data.root / "hardware/gpus" / (gpu + ".json");
  const Document document = load_document(path);
  read_device(Reader(document, ""));
  std::map<std::string, std::pair<std::string, std::vector<const KernelRow*>>> blocks;
  const std::vector<KernelRow> rows = read_kernel_rows(kernels_file, data);
  for (const KernelRow& row : rows) {
    if (!row.failure.empty() || row.device != gpu) continue;
    const std::string pointer = block_of(row, *document.root);
    if (pointer.empty() || !pointer.starts_with(only)) continue;
    auto& [library, own] = blocks[pointer];
    library = row.library;
    own.push_back(&row);
  }
  Calibration result{gpu, {}, {}};
  ordered_json written = ordered_json::parse(read_text(path));
  json root = *document.root;
  for (const auto& [pointer, block] : blocks) {
    const Block numbers(document, pointer, block.first, block.second);
    if (block.second.size() < rows_a_parameter * numbers.known().size()) continue;
    result.blocks.push_back(fitted(numbers, root));
    for (const FittedParameter& p : result.blocks.back().parameters) {
      ordered_json& at = written.at(ordered_json::json_pointer(p.pointer));
      at = json::parse(root.at(json::json_pointer(p.pointer)).dump());
    }
  }
  if (result.blocks.empty())
    throw Error(path.string(), "",
                "nothing to fit: no block has three measured kernels for each of its parameters");
  result.file_text = written.dump(2) + "\n";
  return result;
}

std::string calibration_text(const Calibration& calibration) {
  std::string text;
  for (const FittedBlock& block : calibration.blocks) {
    text +=
        fmt::format("{} {}: {} rows, median error {:.1f} % -> {:.1f} %\n", calibration.gpu,
                    block.pointer, block.rows, 100 * block.median_before, 100 * block.median_after);
    for (const FittedParameter& p : block.parameters)
      text += fmt::format("  {:<58}{:>10.6g} -> {:>10.6g} +- {:.2g} {}\n", p.pointer, p.before,
                          p.after, p.standard_error, p.unit);
    for (const SourceResiduals& s : block.sources)
      text += fmt::format(
          "  {:<58.58}{:>5} rows, median {:.1f} %, bias {:+.1f} %{}\n", s.source, s.errors.count,
          100 * s.errors.median_abs, 100 * s.errors.bias,
          s.without < 0 ? std::string() : fmt::format(", held out {:.1f} %", 100 * s.without));
  }
  return text;
}

}  // namespace stepsim
