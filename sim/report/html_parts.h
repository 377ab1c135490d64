// Parts of the data that the HTML page draws from, as JSON.
//
// Times are whole ticks, each list counted from the time before it, so that the text stays small;
// the page adds them up again (page/data.js). Lists of equal length under one key are columns.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "sim/report/blocks.h"
#include "sim/report/json_parts.h"

namespace stepsim {

/// What all parts draw from.
struct Drawing {
  const Scenario& scenario;
  const LoweredStep& step;
  const Timeline& timeline;
  StepEnd end;
  Blocks blocks;
  std::vector<uint32_t> devices;                 ///< that are drawn, ascending
  double tick_seconds = 1e-9;                    ///< of blocks; a step has 1e7 to 1e8 of them
  double start_seconds = 0, finish_seconds = 0;  ///< of what is drawn
};

/// Whole ticks since the drawing's start.
int64_t ticks(const Drawing& drawing, double seconds);

/// A list as it is, or, where that is shorter, as {"lag", "runs"}: runs are counts and values in
/// turn, of the differences to the entry `lag` places before (0: of the entries themselves; before
/// the first stands 0). Steady pipelines alternate, so that lag 2 leaves hardly anything of them.
Json column_json(const std::vector<int64_t>& values);

/// Devices, blocks, idle stretches between them and the critical path.
Json timeline_json(const Drawing& drawing);
/// Every task of some stretches of time, or of the whole step when there are few.
Json detail_json(const Drawing& drawing);
/// How busy each stream of transfers is and how much of it is under compute, in equal parts of the
/// step.
Json activity_json(const Drawing& drawing);
/// Bytes over time of each device; null without a model.
Json memory_series_json(const Drawing& drawing);
/// Where the ranks are, and the groups among them; null without a cluster.
Json placement_json(const Drawing& drawing);

}  // namespace stepsim
