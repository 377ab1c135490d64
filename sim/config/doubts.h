// What a predicted step leaves open, by kind: relative standard deviations, read from
// hardware/measurements/doubts.json, where the fit that they come from is named.
#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "sim/config/doubt_shares.h"

namespace stepsim {

enum class Doubt {
  gemm,
  low_precision,
  grouped_gemm,
  attention,
  scan,
  memory,
  collectives,
  sharded,
  dispatch,
  host,
  contention,
  whole
};

struct DoubtRow {
  Doubt doubt;
  std::string_view key, name;
};
inline constexpr std::array<DoubtRow, doubt_count> doubt_rows{{
    {Doubt::gemm, "gemm", "GEMM rates"},
    {Doubt::low_precision, "low_precision", "rates and casts of 8 and 4 bits"},
    {Doubt::grouped_gemm, "grouped_gemm", "rates of experts' GEMMs"},
    {Doubt::attention, "attention", "attention rates"},
    {Doubt::scan, "scan", "rates of state-space and delta mixers"},
    {Doubt::memory, "memory", "sustained memory bandwidth"},
    {Doubt::collectives, "collectives", "rates of collectives"},
    {Doubt::sharded, "sharded", "hooks, copies and gathers of sharded parameters"},
    {Doubt::dispatch, "dispatch", "rates of expert dispatch"},
    {Doubt::host, "host", "the host's time per operator"},
    {Doubt::contention, "contention", "what kernels and transfers take from each other"},
    {Doubt::whole, "whole", "clocks and releases"},
}};

/// Empty without the file: no interval then.
Doubts read_doubts(const std::filesystem::path& root);

}  // namespace stepsim
