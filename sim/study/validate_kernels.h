// Predicted against measured kernels, with error statistics by kind, GPU and type.
#pragma once

#include "sim/study/kernel_rows.h"
#include "sim/study/validate_collectives.h"

namespace stepsim {

/// Errors of one kind on one GPU in one type, as the rows name them.
struct KernelCell {
  std::string kind, gpu, dtype;
  RelativeErrors errors;
};
/// A measurement and what the model makes of it; 0 seconds when the row has a failure.
struct PredictedKernel {
  KernelRow row;
  double seconds = 0;
  double error() const { return seconds / row.measured_seconds - 1; }
};
struct KernelValidation {
  std::vector<PredictedKernel> rows;
  std::vector<KernelCell> cells;  ///< by kind, the worst median error first
};
KernelValidation validate_kernels(const std::string& file, const DataPaths& data);
std::string validation_text(const KernelValidation& validation);
std::string validation_json(const KernelValidation& validation);

}  // namespace stepsim
