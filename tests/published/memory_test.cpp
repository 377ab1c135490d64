// Peak memory against published peaks, and activations against the closed formulas of a paper.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/cost/layer_sizes.h"
#include "sim/report/check.h"
#include "tests/published/rows.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

std::vector<nlohmann::json> lines(const std::string& file) {
  std::vector<nlohmann::json> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

/// Everything that matters is known (memory.md): nothing, or only how many GPUs beyond the ranks
/// that share the optimizer.
bool scored(const nlohmann::json& row) {
  return std::ranges::all_of(row.at("unknown"),
                             [](const nlohmann::json& key) { return key == "cluster.gpus"; });
}

}  // namespace

// What torch allocated at the peak; context and communication libraries are the reserve, not in it.
TEST_CASE("published memory peaks: every fully known row within 10%") {
  int compared = 0;
  double sum = 0;
  for (const nlohmann::json& row : lines("tests/published/memory.jsonl")) {
    if (!scored(row)) continue;
    const Scenario s = read_scenario_text(row.at("scenario").dump(), row.at("id"), {}, "",
                                          published_data(), Strictness::collect);
    const CheckReport check = make_check(s);
    CAPTURE(row.at("id").get<std::string>());
    REQUIRE(check.memory.has_value());
    const bool last = row.at("rank").get<std::string>().starts_with("last");
    const double predicted = last ? check.stages.back().memory.peak() : check.memory->peak_bytes();
    const double error = predicted / row.at("peak_bytes").get<double>() - 1;
    fmt::print("{:<28} measured {:6.2f} GiB  predicted {:6.2f} GiB  {:+5.1f} %\n",
               row.at("id").get<std::string>(), row.at("peak_bytes").get<double>() / (1 << 30),
               predicted / (1 << 30), error * 100);
    CHECK(std::abs(error) <= 0.10);
    sum += std::abs(error);
    ++compared;
  }
  CHECK(compared >= 22);
  fmt::print("{} rows: mean {:.1f} %\n", compared, sum / compared * 100);
}

// Korthikanti et al. 2022, table 2: fp16, dropout on, attention not fused.
TEST_CASE("activations a layer keeps are Korthikanti's table 2") {
  int compared = 0;
  for (const nlohmann::json& row : lines("tests/published/activation_memory.jsonl")) {
    if (row.at("recompute") == "full") continue;
    Scenario s;
    s.model = read_model(row.at("hf_config"), published_data());
    s.model.hidden_dropout = true;
    s.parallel.tp = row.at("t");
    s.parallel.sequence_parallel = row.at("sequence_parallel");
    s.batch = {.global = 1, .micro = row.at("b"), .sequence = row.at("s"), .microbatches = 1};
    s.cluster.stack.fused_attention = false;
    s.recompute_modules.core_attn = row.at("selective").get<bool>();
    CAPTURE(row.at("id").get<std::string>());
    const double ours = layer_activation_bytes(s, 0, false);
    CHECK(ours == doctest::Approx(row.at("bytes_per_layer").get<double>()).epsilon(1e-3));
    ++compared;
  }
  CHECK(compared >= 16);
}
