// Model FLOPs and parameters against published figures and each other.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/config/model_gaps.h"
#include "sim/config/read.h"
#include "sim/cost/layer_sizes.h"
#include "sim/cost/model_flops.h"
#include "sim/cost/parameters.h"

using namespace stepsim;

namespace {

Scenario training(const std::string& model, int64_t sequence) {
  Scenario s;
  s.model = read_model(model, find_data());
  s.batch = {.global = 4, .micro = 1, .sequence = sequence, .microbatches = 4};
  return s;
}

double per_token(const Scenario& s) {
  return model_flops(s).value / static_cast<double>(s.batch.global * s.batch.sequence);
}

int64_t sum(const std::vector<ParameterTensor>& v) {
  return std::accumulate(v.begin(), v.end(), int64_t{0},
                         [](int64_t n, const ParameterTensor& p) { return n + p.elements; });
}

int64_t parts(const Model& m) {
  const bool output_weight = !m.tied_embeddings;
  int64_t layers = 0;
  for (int i = 0; i < m.layers; ++i) layers += sum(layer_parameters(m, i, {}));
  return sum(embedding_parameters(m, 1)) + layers + sum(head_parameters(m, 1, output_weight));
}

/// One layer of 16 heads and a plain MLP; two samples of 512 tokens.
Scenario layer_by_hand() {
  Scenario s;
  s.model = {.name = "hand",
             .layers = 1,
             .hidden = 1024,
             .ffn_hidden = 4096,
             .heads = 16,
             .query_groups = 16,
             .head_dim = 64,
             .vocab = 1000,
             .gated_mlp = false};
  s.batch = {.global = 1, .micro = 2, .sequence = 512, .microbatches = 1};
  s.precision.fp8 = Fp8Recipe::delayed;
  return s;
}

}  // namespace

// Megatron-Bridge's published TFLOP/s over tokens/s per GPU (docs/performance-summary.md): 51.5,
// 449.3 and 2524 GFLOPs a token at sequence 8192.
TEST_CASE("model FLOPs a token are Megatron-Bridge's") {
  CHECK(std::abs(per_token(training("llama3-8b", 8192)) / 51.5e9 - 1) < 2e-3);
  CHECK(std::abs(per_token(training("llama3-70b", 8192)) / 449.3e9 - 1) < 2e-3);
  CHECK(std::abs(per_token(training("llama3.1-405b", 8192)) / 2524e9 - 1) < 2e-3);
}

TEST_CASE("model FLOPs by hand: six a weight and token, causal attention, the padded vocabulary") {
  Scenario s;
  s.model = {.name = "hand",
             .layers = 3,
             .hidden = 10,
             .ffn_hidden = 40,
             .heads = 2,
             .query_groups = 1,
             .head_dim = 5,
             .vocab = 100,
             .gated_mlp = true};
  s.batch = {.global = 7, .micro = 1, .sequence = 11, .microbatches = 7};
  // A layer: qkv 10*(10 + 2*5), proj 10*10, mlp 3*10*40 weights; attention 2 products of s*s*10
  // halved.
  const double layer = 2 * (200 + 100 + 1200) + 2 * 10 * 11, head = 2 * 10 * 128;
  CHECK(model_flops(s).value == doctest::Approx(3 * 77 * (3 * layer + head)).epsilon(1e-14));
  CHECK(hardware_flops(s, 0) == model_flops(s));
  CHECK(hardware_flops(s, 2).value - model_flops(s).value == doctest::Approx(77 * 2 * layer));
  s.recompute_modules.core_attn = true;
  CHECK(hardware_flops(s, 0).value - model_flops(s).value == doctest::Approx(77 * 3 * 220.0));
  // The MLP's three products of 10 x 40 weights, beside attention and without it.
  s.recompute_modules.mlp = true;
  CHECK(hardware_flops(s, 0).value - model_flops(s).value ==
        doctest::Approx(77 * 3 * (220.0 + 2 * 1200)));
  s.recompute_modules.core_attn = false;
  CHECK(hardware_flops(s, 0).value - model_flops(s).value == doctest::Approx(77 * 3 * 2 * 1200.0));
  // A norm is no product.
  s.recompute_modules = {.layernorm = true};
  CHECK(hardware_flops(s, 0) == model_flops(s));
}

TEST_CASE("law: a model's parameters are the sum over its embedding, layers and head") {
  for (const CatalogueRow& row : list_models(find_data())) {
    CAPTURE(row.name);
    const Model m = read_model(row.name, find_data());
    if (!simulates(m)) continue;
    CHECK(parts(m) == parameter_count(m, 1));
  }
  Model m{.name = "biases",
          .layers = 2,
          .hidden = 64,
          .ffn_hidden = 256,
          .heads = 4,
          .query_groups = 2,
          .head_dim = 16,
          .vocab = 1000};
  for (int bits = 0; bits < 256; ++bits) {
    m.linear_bias = (bits & 1) != 0;
    m.qkv_bias = (bits & 2) != 0;
    m.qk_norm = (bits & 4) != 0;
    m.tied_embeddings = (bits & 8) != 0;
    m.normalization = (bits & 16) != 0 ? Normalization::layer_norm : Normalization::rms_norm;
    m.qk_norm_whole = (bits & 32) != 0;
    m.post_norms = (bits & 64) != 0;
    m.attention_sinks = (bits & 128) != 0;
    CAPTURE(bits);
    CHECK(parts(m) == parameter_count(m, 1));
  }
}

// Every model file states its published size, counted without vocabulary padding.
TEST_CASE("parameter counts equal the published ones") {
  int counted = 0;
  for (const CatalogueRow& row : list_models(find_data())) {
    std::ifstream in("models/" + row.name + ".json");
    const auto json = nlohmann::json::parse(in);
    if (!json.contains("parameters_billion")) continue;
    Model m = read_model(row.name, find_data());
    m.vocab_padding = false;
    CAPTURE(row.name);
    const double published = json["parameters_billion"].get<double>() * 1e9;
    CHECK(std::abs(static_cast<double>(parameter_count(m, 1)) / published - 1) < 1e-3);
    ++counted;
  }
  CHECK(counted >= 40);
  // Meta's own counts.
  CHECK(parameter_count(read_model("llama3-8b", find_data()), 1) == 8'030'261'248);
  CHECK(parameter_count(read_model("llama3-70b", find_data()), 1) == 70'553'706'496);
}

TEST_CASE(
    "law: TP splits every matrix and replicates norms and the biases of row-parallel layers") {
  for (const char* name : {"llama3-8b", "gpt3-5b", "llama3-70b"}) {
    const Model m = read_model(name, find_data());
    const int64_t norms = 2 * m.hidden * (m.normalization == Normalization::layer_norm ? 2 : 1);
    const int64_t whole = norms + (m.linear_bias ? 2 * m.hidden : 0);
    for (int tp : {2, 4, 8}) {
      CAPTURE(name);
      CAPTURE(tp);
      CHECK((sum(layer_parameters(m, 0, {.tp = tp})) - whole) * tp + whole ==
            sum(layer_parameters(m, 0, {})));
    }
  }
}

TEST_CASE("shapes of one rank: tokens over CP, sequence-parallel tokens and features over TP") {
  Scenario s = training("llama3-8b", 8192);
  s.parallel = {.tp = 4, .cp = 2, .sequence_parallel = true};
  const LayerSizes z = layer_sizes(s);
  CHECK(z.tokens == 4096);
  CHECK(z.local_tokens == 1024);
  const auto is = [](const Gemm& g, double m, double n, double k) {
    return g.m == m && g.n == n && g.k == k;
  };
  CHECK(is(z.qkv(), 4096, (32 + 2 * 8) * 128 / 4.0, 4096));
  CHECK(is(z.proj(), 4096, 4096, 1024));
  CHECK(is(z.fc1(), 4096, 2 * 14336 / 4.0, 4096));
  CHECK(is(z.fc2(), 4096, 4096, 14336 / 4.0));
  CHECK(is(z.output(), 4096, 128512 / 4.0, 4096));  // 128256 padded to 512
  // Law: both gradients of a GEMM cost its FLOPs.
  for (const Gemm& g : {z.qkv(), z.proj(), z.fc1(), z.fc2(), z.output()}) {
    CHECK(dgrad(g).flops() == g.flops());
    CHECK(wgrad(g).flops() == g.flops());
  }
  CHECK(is(dgrad(z.fc2()), 4096, 3584, 4096));
  CHECK(is(wgrad(z.fc2()), 4096, 3584, 4096));
}

// Korthikanti et al. 2022, table 2, without attention scores and dropout: sbh (10 + 24) of 16-bit
// words for a plain MLP, where ours keeps 2 residual inputs, 2 norm outputs, q k v, output, fc1 and
// its activation: 4+4+6+2+16 = 32 sbh and 4 bytes of log-sum-exp a head.
TEST_CASE("activations kept by a layer, by hand") {
  Scenario s = layer_by_hand();
  const double sbh = 512.0 * 2 * 1024;
  CHECK(layer_activation_bytes(s, 0, false) == sbh * (4 + 4 + 6 + 2 + 16) + 512 * 2 * 16 * 4.0);
  // GEMM inputs (norm outputs, attention output, activation output) kept in one byte.
  CHECK(layer_activation_bytes(s, 0, true) == sbh * (4 + 2 + 6 + 1 + 12) + 512 * 2 * 16 * 4.0);
  s.cluster.stack.fused_attention = false;
  CHECK(layer_activation_bytes(s, 0, false) == sbh * 32 + 512.0 * 2 * 512 * 16 * 5);
  s.recompute_modules.core_attn = true;
  CHECK(layer_activation_bytes(s, 0, false) == sbh * 32);
  // q and k before their norms are kept too.
  s.model.qk_norm = true;
  CHECK(layer_activation_bytes(s, 0, false) == sbh * 36);
}

// Run again, an MLP keeps its input only, which is the residual: gone are its norm's output (2
// sbh), fc1's output (8) and the activation's (8); quantised GEMM inputs are half.
TEST_CASE("activations without the MLP, and what it holds while it runs again, by hand") {
  Scenario s = layer_by_hand();
  const double sbh = 512.0 * 2 * 1024, log_sum_exp = 512 * 2 * 16 * 4.0;
  CHECK(mlp_bytes(s, 0, false) == sbh * (2 + 8 + 8));
  CHECK(mlp_bytes(s, 0, true) == sbh * (1 + 8 + 4));
  for (bool fp8 : {false, true}) {
    s.recompute_modules = {};
    const double all = layer_activation_bytes(s, 0, fp8);
    s.recompute_modules.layernorm = true;  // part of fc1's and qkv's modules: nothing to free
    CHECK(layer_activation_bytes(s, 0, fp8) == all);
    s.recompute_modules.mlp = true;
    CHECK(layer_activation_bytes(s, 0, fp8) == all - mlp_bytes(s, 0, fp8));
  }
  CHECK(layer_activation_bytes(s, 0, false) == sbh * (4 + 2 + 6 + 2) + log_sum_exp);
  // Gated, and cut over four ranks: twice the width of fc1, a quarter of everything.
  s.model.gated_mlp = true;
  s.parallel.tp = 4;
  s.parallel.sequence_parallel = true;
  CHECK(mlp_bytes(s, 0, false) == sbh * (2 + 16 + 8) / 4);
}

// Qi et al. 2023, arXiv 2401.10241, table 1: of (34h + 5as) sb bytes of a layer the weight half of
// its backward needs 32h sb. Without masks and materialised scores only the log-sum-exp goes, 4
// bytes a head of the 32h.
TEST_CASE("what the weight half of a backward still needs of the activations") {
  Scenario s;
  s.model.layers = 22;
  s.model.hidden = 2304;
  s.model.heads = s.model.query_groups = 24;
  s.model.head_dim = 96;
  s.model.ffn_hidden = 9216;
  s.model.gated_mlp = false;
  s.model.hidden_dropout = true;
  s.batch = {.global = 1, .micro = 1, .sequence = 1024, .microbatches = 1};
  s.cluster.stack.fused_attention = false;
  constexpr double h = 2304, scores = 5.0 * 24 * 1024;
  CHECK(weight_half_share(s) == doctest::Approx(32 * h / (34 * h + scores)).epsilon(1e-12));
  s.parallel.tp = 8;  // all of it is sharded
  s.parallel.sequence_parallel = true;
  CHECK(weight_half_share(s) == doctest::Approx(32 * h / (34 * h + scores)).epsilon(1e-12));
  s.recompute_modules.core_attn = true;
  CHECK(weight_half_share(s) == doctest::Approx(32.0 / 34).epsilon(1e-12));
  s.recompute_modules.core_attn = false;
  s.cluster.stack.fused_attention = true;
  s.model.hidden_dropout = false;
  CHECK(weight_half_share(s) == doctest::Approx(32 * h / (32 * h + 4 * 24)).epsilon(1e-12));
  s.recompute = Recompute::full_uniform;  // the weight half reads what was made again
  CHECK(weight_half_share(s) == 1);
  CHECK(weight_half_share(Scenario{}) == 1);
}
