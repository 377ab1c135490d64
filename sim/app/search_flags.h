// Flags and help of the commands that simulate many scenarios.
#pragma once

#include <CLI/CLI.hpp>

#include "sim/app/options.h"

namespace stepsim::app {

void add_sweep_flags(CLI::App* command, SweepOptions& options);
void add_plan_flags(CLI::App* command, PlanOptions& options);

}  // namespace stepsim::app
