// The few numbers of hardware files that only whole steps can tell: the sustained clock of a GPU,
// the host's time per operator, the achieved rate of memory-bound kernels of a software stack.
// hardware/measurements/steps.json lists the shipped ones, with every place that holds each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/config/files.h"
#include "sim/config/read.h"

namespace stepsim {

struct StepParameterRow;

/// Where a hardware file holds it, and which devices or profiles are meant by that.
struct StepPlace {
  std::string file;     ///< below hardware/, or the user's own system
  std::string pointer;  ///< into it
  std::string device;   ///< name of the GPU; empty: a stack
  std::string system, stack;
};
/// One number, in the unit of its row, wherever it stands.
struct StepParameter {
  std::string name;  ///< "sustained of h100, h200"
  const StepParameterRow* row = nullptr;
  std::vector<StepPlace> places;
  double value = 0;

  bool decides(const Scenario& scenario) const;
  void set(Cluster& cluster, double value) const;
};
/// How a key is read, bounded and written.
struct StepParameterRow {
  std::string_view key, unit;
  double low, high, step;
  double scale;  ///< of the unit in SI
  void (*set)(Cluster&, double);
};
const StepParameterRow* step_parameter_row(std::string_view key);

/// Those of hardware/measurements/steps.json; one number that differs between its places is an
/// Error.
std::vector<StepParameter> shipped_step_parameters(const DataPaths& data);
/// Those of one system that is written with its GPU: the sustained clock, and the host's time per
/// operator of its stacks in `stacks`, with the seconds that hold there now.
std::vector<StepParameter> system_step_parameters(const Located& system,
                                                  const std::map<std::string, double>& stacks,
                                                  const DataPaths& data);

}  // namespace stepsim
