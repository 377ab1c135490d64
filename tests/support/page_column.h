// Reads the columns of a page's data as sim/report/page/data.js does.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace stepsim::test {

inline std::vector<int64_t> page_column(const nlohmann::json& packed) {
  if (packed.is_array()) return packed;
  const size_t lag = packed.at("lag");
  const std::vector<int64_t> runs = packed.at("runs");
  std::vector<int64_t> out;
  for (size_t r = 0; r < runs.size(); r += 2)
    for (int64_t n = runs[r]; n > 0; --n)
      out.push_back(runs[r + 1] + (lag > 0 && out.size() >= lag ? out[out.size() - lag] : 0));
  return out;
}

}  // namespace stepsim::test
