// pipeline.order: a schedule spelled out, one line a pipeline rank.
#pragma once

#include <string>
#include <vector>

#include "sim/config/resolve.h"

namespace stepsim {

/// A line of an order: computations in time, "F0 F1.1 B0 ..." with microbatch and, behind a dot,
/// chunk. F: forward, B: whole backward, I and W: its input and weight half. `problem` says what
/// cannot be read; "" when all can.
struct OrderLine {
  std::vector<OrderEntry> entries;
  std::string problem;
};
OrderLine parse_order_line(std::string_view line);

/// What breaks the order of computations, or who waits for whom; "" when it can run. Each forward,
/// and each backward or its halves, exactly once on its place.
std::string order_problem(const std::vector<std::vector<OrderEntry>>& order,
                          const PipelineShape& shape, int microbatches);

/// Replaces the schedule; the one that was named says where stages lie.
void resolve_order(const ScenarioSections& sections, Scenario& scenario);

}  // namespace stepsim
