// Packed sequences: attention works on each alone, everything else on all tokens.
#include <doctest/doctest.h>

#include "sim/base/error.h"
#include "sim/cost/model_flops.h"
#include "sim/lower/layer.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

Scenario packed(const Layout& l, const nlohmann::json& specs) {
  nlohmann::json json = scenario_json("llama3.2-1b", "dgx-h100", l);
  if (!specs.is_null()) json["dataset"]["packed_sequence_specs"] = specs;
  return read(json);
}

std::vector<Layout> packing_layouts() {
  return {{.layers = 2},
          {.tp = 2, .cp = 2, .layers = 2, .sp = true},
          {.dp = 2, .pp = 2, .layers = 2, .recompute = "core_attn"},
          {.dp = 2, .layers = 2, .precision = "bf16_with_fp8_current_scaling_mixed"}};
}

/// Core attention of one layer, forward and backward, where only its products take time.
double attention_seconds(Scenario s) {
  AttentionCurve& curve = s.cluster.device.attention.bf16;
  curve.half_sequence = curve.backward_half_sequence = 0;
  s.cluster.device.kernel_gap = {};
  const LayerTemplates make(s, {});
  double sum = 0;
  for (const Template& t :
       {make.layer_forward(layer_kind(s, 0), false), make.layer_backward(layer_kind(s, 0), false)})
    for (const TemplateOp& op : t.ops)
      if (op.op == OpKind::attention) sum += op.duration_seconds;
  return sum;
}

}  // namespace

TEST_CASE("law: one sequence of full length is the plain sample, to the bit") {
  for (const Layout& l : packing_layouts()) {
    CAPTURE(l);
    const double plain = seconds_of(packed(l, nullptr));
    for (const nlohmann::json& specs :
         {nlohmann::json{{"sequence_lengths", {l.sequence}}},
          nlohmann::json{{"token_sum", l.sequence}, {"square_sum", l.sequence * l.sequence}},
          nlohmann::json{{"packed_sequence_size", l.sequence}}}) {
      const Scenario s = packed(l, specs);
      CHECK(seconds_of(s) == plain);
      CHECK(model_flops(s).value == model_flops(packed(l, nullptr)).value);
    }
  }
}

TEST_CASE("law: attention costs the sum of squares, whatever the lengths") {
  const Layout l{.layers = 1};
  const double square = 2048.0 * 2048, whole = attention_seconds(packed(l, nullptr));
  for (const std::vector<int>& lengths : std::vector<std::vector<int>>{
           {1024, 1024}, {2000, 48}, {512, 512, 512, 512}, {700, 300, 48, 1000}, {1024, 512}}) {
    double squares = 0;
    for (const int n : lengths) squares += 1.0 * n * n;
    const Scenario s = packed(l, {{"sequence_lengths", lengths}});
    CHECK(attention_seconds(s) == doctest::Approx(whole * squares / square).epsilon(1e-9));
  }
}

TEST_CASE("law: shorter sequences shorten a step that the host does not bound") {
  for (Layout l : packing_layouts()) {
    l.sequence = 16384;
    CAPTURE(l);
    const double plain = seconds_of(packed(l, nullptr), apart);
    const double halves = seconds_of(packed(l, {{"sequence_lengths", {8192, 8192}}}), apart);
    const double half = seconds_of(packed(l, {{"sequence_lengths", {8192}}}), apart);
    CHECK(halves < plain);
    CHECK(half < halves);
  }
}

TEST_CASE("packed sequences: what is refused") {
  const auto refusal = [](const nlohmann::json& specs, const Layout& l = {}) {
    try {
      packed(l, specs);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  for (const auto& refused : std::vector<std::pair<nlohmann::json, std::string>>{
           {{{"sequence_lengths", {1024, 1025}}}, "add up to at most 2048"},
           {{{"sequence_lengths", {0}}}, "lengths from 1"},
           {{{"sequence_lengths", {1024}}, {"square_sum", 5}}, "follows from sequence_lengths"},
           {{{"token_sum", 2048}}, "square_sum: is missing"},
           {{{"token_sum", 2048}, {"square_sum", 2047}}, "square_sum"},
           {{{"packed_sequence_size", 4096}}, "at most seq_length 2048"}}) {
    CAPTURE(refused.first.dump());
    CHECK(refusal(refused.first).find(refused.second) != std::string::npos);
  }
  CHECK(refusal({{"sequence_lengths", {1024}}}, {.micro = 2}).find("must be 1 with packed") !=
        std::string::npos);
}
