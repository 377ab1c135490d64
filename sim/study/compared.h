// A recording beside the prediction for the same rank, by one set of definitions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/simulate.h"
#include "sim/study/recording.h"

namespace stepsim {

/// The prediction in the terms of a recording, for one simulated device.
struct PredictedDevice {
  int rank = 0, stage = 0;  ///< of the device
  double step_seconds = 0;
  CommunicationTable communication;
  std::array<double, kernel_class_count> kernel_seconds{};
  double compute_seconds = 0;
  std::vector<RecordedStream> streams;  ///< `mostly`: the stream's name
};
/// Of the device that is the recorded rank, or one of its stage; the first without a rank. Weighs
/// the other devices of `simulation` 0.
PredictedDevice predicted_device(const Scenario& scenario, Simulation& simulation,
                                 std::optional<int> rank);

/// By class, what the layout communicates.
std::array<bool, comm_class_count> present_classes(const CommunicationTable& table);

std::string compared_text(const Recording& measured, const PredictedDevice& predicted);
nlohmann::ordered_json compared_json(const Recording& measured, const PredictedDevice& predicted);

}  // namespace stepsim
