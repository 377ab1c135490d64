#include "sim/study/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/config/device_read.h"
#include "sim/study/robust_fit.h"

namespace stepsim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int rows_a_parameter = 3;

/// A parameter that can be fitted, by its key; in its unit where it is a quantity.
struct ParameterRow {
  std::string_view key;
  double low, high, step;  ///< `step`: the digits that are written
  bool quantity;
};
constexpr std::array<ParameterRow, 10> parameter_rows{{
    {"ceiling", 0.05, 1, 0.001, false},
    {"half_k", 1, 5000, 1, false},
    {"tile_reuse", 0, 4096, 1, false},
    {"forward", 1, 20000, 1, true},
    {"backward", 1, 20000, 1, true},
    {"half_sequence", 10, 8000, 10, false},
    {"backward_half_sequence", 10, 8000, 10, false},
    {"head_dim_64_factor", 0.05, 2, 0.01, false},
    {"wide_forward", 0.05, 2, 0.01, false},
    {"wide_backward", 0.05, 2, 0.01, false},
}};

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
    const std::vector<double> base = residuals(values_, all);
    for (size_t i = known_.size(); i-- > 0;) {
      std::vector<double> moved = values_;
      moved[i] *= 0.9;
      const std::vector<double> other = residuals(moved, all);
      if (!std::equal(base.begin(), base.end(), other.begin(),
                      [](double a, double b) { return std::abs(a - b) <= 1e-9; }))
        continue;
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
  std::vector<double> residuals(const std::vector<double>& values,
                                const std::vector<const KernelRow*>& rows) const {
    Document trial{document_.file, std::make_shared<json>(*document_.root), {}};
    put(*trial.root, values);
    const Device device = with_library(read_device(Reader(trial, "")), library_);
    std::vector<double> r;
    for (const KernelRow* row : rows)
      r.push_back(std::log(kernel_seconds(*row, device).value / row->measured_seconds));
    return r;
  }

 private:
  const Document& document_;
  std::string pointer_, library_;
  std::vector<const KernelRow*> rows_;
  std::vector<const ParameterRow*> known_;
  std::vector<double> values_;
};

RobustFit fit_block(const Block& block, const std::vector<const KernelRow*>& rows) {
  std::vector<FreeParameter> parameters;
  for (size_t i = 0; i < block.known().size(); ++i)
    parameters.push_back(
        {block.values()[i], block.known()[i]->low, block.known()[i]->high, block.known()[i]->step});
  return robust_fit(
      parameters, [&](const std::vector<double>& values) { return block.residuals(values, rows); });
}

std::vector<double> errors_of(const std::vector<double>& r) {
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
  const RobustFit fit = fit_block(block, block.rows());
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
