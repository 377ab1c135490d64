// Parameters of one GPU fitted to measured kernels: robust least squares on the logarithm of
// predicted over measured time, by block of parameters that share rows (the GEMMs of one type,
// attention of one library in one type), within the bounds that the reader sets.
#pragma once

#include <string>
#include <vector>

#include "sim/study/validate_kernels.h"

namespace stepsim {

/// One parameter of a hardware file.
struct FittedParameter {
  std::string pointer;  ///< into the file
  std::string unit;     ///< "" or that of the quantity
  double before = 0, after = 0, standard_error = 0;
};
/// Residuals of one source; `without`: median when the block is fitted to the other sources (below
/// 0: there are too few).
struct SourceResiduals {
  std::string source;
  RelativeErrors errors;
  double without = -1;
};
/// Parameters that are fitted together.
struct FittedBlock {
  std::string pointer;
  int rows = 0;
  std::vector<FittedParameter> parameters;
  std::vector<SourceResiduals> sources;
  double median_before = 0, median_after = 0;
};
struct Calibration {
  std::string gpu;
  std::vector<FittedBlock> blocks;
  std::string file_text;  ///< the hardware file with what was fitted
};
/// `only`: pointers that blocks must begin with; empty: all. Blocks with fewer than three rows a
/// parameter stay as they are.
Calibration calibrate(const std::string& kernels_file, const std::string& gpu,
                      const std::string& only, const DataPaths& data);
std::string calibration_text(const Calibration& calibration);

}  // namespace stepsim
