// The examples of Megatron-Bridge's guide on parallelism strategies (skills/ of its repository):
// how many GPUs a mixture of experts needs at least, and what more of them become.
#include <doctest/doctest.h>

#include <algorithm>

#include "sim/config/read.h"
#include "sim/parallel/mesh.h"

using namespace stepsim;

namespace {

struct Sizes {
  int pp, tp, cp, ep, etp;
};

/// A mixture of 8 experts with `s` on `gpus` GPUs, eight microbatches.
Scenario on(const Sizes& s, int gpus) {
  const auto word = [](const char* key, int value) {
    return "model." + std::string(key) + "=" + std::to_string(value);
  };
  const int dp = std::max(1, gpus / (s.pp * s.tp * s.cp));
  const std::vector<std::string> words{word("pipeline_model_parallel_size", s.pp),
                                       word("tensor_model_parallel_size", s.tp),
                                       word("context_parallel_size", s.cp),
                                       word("expert_model_parallel_size", s.ep),
                                       word("expert_tensor_parallel_size", s.etp),
                                       "model.sequence_parallel=true",
                                       "cluster.gpus=" + std::to_string(gpus),
                                       "train.global_batch_size=" + std::to_string(8 * dp)};
  return read_scenario_text(
      R"({"cluster": {"system": "dgx-h100"}, "model": {"hf_config": "mixtral-8x7b"},
          "dataset": {"seq_length": 4096}})",
      "sizing.json", words, "", find_data(), Strictness::collect);
}

int errors(const Scenario& s) {
  return static_cast<int>(std::count_if(s.findings.begin(), s.findings.end(), [](const Finding& f) {
    return f.kind == Finding::Kind::error;
  }));
}

}  // namespace

// min_gpus = PP x max(TP x CP, EP x ETP), and never the product of all five.
TEST_CASE("the guide's six examples of a minimum (B6)") {
  struct Row {
    Sizes sizes;
    int least;
  };
  for (const Row& row : {Row{{1, 2, 1, 8, 1}, 8},
                         {{1, 4, 1, 8, 1}, 8},
                         {{1, 2, 2, 8, 1}, 8},
                         {{1, 2, 4, 8, 1}, 8},
                         {{2, 2, 1, 8, 1}, 16},
                         {{1, 2, 1, 4, 2}, 8}}) {
    const Sizes& z = row.sizes;
    CAPTURE(z.tp);
    CAPTURE(z.cp);
    const Scenario least = on(z, row.least);
    CHECK(Mesh(least.parallel).min_gpus() == row.least);
    CHECK(least.parallel.world() == row.least);
    CHECK(errors(least) == 0);
    // Tight: half as many, the next smaller world that PP divides evenly, are refused.
    CHECK(errors(on(z, row.least / 2)) > 0);
    CHECK(z.pp * z.tp * z.cp * z.ep * z.etp > row.least);
  }
}

// DP = world / (TP x PP x CP), expert DP = world / (PP x EP x ETP).
TEST_CASE("the guide's three examples above the minimum (B5, B7)") {
  struct Row {
    int gpus, dp, edp;
  };
  for (const Row& row : {Row{8, 4, 1}, {16, 8, 2}, {32, 16, 4}}) {
    CAPTURE(row.gpus);
    const Scenario s = on({1, 2, 1, 8, 1}, row.gpus);
    CHECK(s.parallel.dp == row.dp);
    CHECK(s.parallel.edp() == row.edp);
    CHECK(Mesh(s.parallel).min_gpus() == 8);
    CHECK(errors(s) == 0);
  }
}
