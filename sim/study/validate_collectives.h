// Predicted against measured collectives: rows of a CSV file, placed on systems that
// hardware/measurements/collectives.json names, with error statistics by system and operation.
//
// Columns: system, gpu, n_gpus, n_nodes, fabric, op, algo, msg_bytes, time_us; algbw_GBps,
// busbw_GBps, nccl_version and notes where there are any. time_us is the time of one operation, or
// empty where a bandwidth says it; msg_bytes counts as nccl-tests do.
#pragma once

#include <string>
#include <vector>

#include "sim/config/read.h"

namespace stepsim {

/// One measurement and what the model makes of it.
struct MeasuredCollective {
  int line = 0;
  std::string system, op, algorithm_named;
  int gpus = 0, nodes = 0;
  double bytes = 0, measured_seconds = 0;
  double algorithm_rate = 0, bus_rate = 0;  ///< bytes per second, as printed; 0: not
  double predicted_seconds = 0;             ///< 0 when `failure` says why there is none
  std::string algorithm, protocol;          ///< predicted
  std::string failure;

  double error() const { return predicted_seconds / measured_seconds - 1; }
};

/// Statistics of relative errors.
struct RelativeErrors {
  int count = 0;
  double mean_abs = 0, median_abs = 0, p90_abs = 0, max_abs = 0, bias = 0;
};
RelativeErrors statistics_of(const std::vector<double>& errors);

/// The errors of one system and operation, or of all.
struct CollectiveCell {
  std::string system, op;
  RelativeErrors large, small;  ///< messages from 1 MiB on; below it
  int beyond_double = 0;        ///< of the small ones, those off by more than a factor of 2
};
struct CollectiveValidation {
  std::vector<MeasuredCollective> rows;
  std::vector<CollectiveCell> cells;  ///< worst median error of large messages first
  CollectiveCell overall;
  int agreed = 0, named = 0;  ///< rows whose source says which algorithm ran; where ours is that
  double timing_factor = 1;   ///< of rows that a framework timed
};
CollectiveValidation validate_collectives(const std::string& file, const DataPaths& data);

std::string validation_text(const CollectiveValidation& validation);
std::string validation_json(const CollectiveValidation& validation);

}  // namespace stepsim
