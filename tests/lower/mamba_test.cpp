// Layers that are not attention and an MLP: recurrences, halves alone, branches beside each other.
#include <doctest/doctest.h>

#include "sim/cost/layer_sizes.h"
#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

constexpr LayerKind mamba_layer{.mixer = Mixer::mamba, .feed_forward = FeedForward::none};
constexpr LayerKind delta_layer{.mixer = Mixer::delta_net, .feed_forward = FeedForward::none};

/// 32 heads of 64, 8 groups of 128 states: 2 * 2048 + 2 * 8 * 128 + 32 = 6176 features in.
Scenario with_mamba(const Run& r, std::vector<std::string> words = {}) {
  Scenario s = tiny(r, std::move(words));
  s.model.mamba = {.heads = 32, .head_dim = 64, .groups = 8, .state = 128, .conv = 4};
  s.model.delta_net = {
      .key_heads = 8, .value_heads = 16, .key_dim = 64, .value_dim = 128, .conv = 4};
  return s;
}

double op_seconds(const Template& t, OpKind op) {
  return t.ops[static_cast<size_t>(find(t, op))].duration_seconds;
}

}  // namespace

TEST_CASE("a Mamba layer: projection, convolution, scan, gated norm, projection") {
  const Scenario s = with_mamba({.tp = 4, .sp = true}), alone = with_mamba({});
  const Template f = templates(s).layer_forward(mamba_layer, false);
  const std::string forward = "norm mamba in gemm mamba conv mamba scan norm mamba out gemm add";
  const std::string backward =
      "mamba out gemm mamba out gemm norm mamba scan mamba conv mamba in gemm mamba in "
      "gemm norm add";
  CHECK(order(templates(alone).layer_forward(mamba_layer, false)) == forward);
  CHECK(order(templates(alone).layer_backward(mamba_layer, false)) == backward);
  CHECK(order(templates(alone).layer_backward(mamba_layer, true)) == forward + " " + backward);
  CHECK(order(f) == "norm [AG] mamba in gemm mamba conv mamba scan norm mamba out gemm [RS] add");
  CHECK(order(templates(s).layer_backward(mamba_layer, false)) ==
        "[AG] mamba out gemm mamba out gemm norm mamba scan mamba conv [AG] mamba in gemm "
        "[RS] mamba in gemm norm add");
  const Template b = templates(alone).layer_backward(mamba_layer, false);
  for (OpKind gemm : {OpKind::mamba_in, OpKind::mamba_out}) {
    CHECK(b.ops[static_cast<size_t>(find(b, gemm))].pass == Pass::backward_data);
    CHECK(b.ops[static_cast<size_t>(find(b, gemm, 1))].pass == Pass::backward_weight);
  }
  // Features cut over four ranks; the convolution's are 2048 + 2 * 8 * 128.
  const KernelModel k(s.cluster.device, s.cluster.stack);
  CHECK(op_seconds(f, OpKind::mamba_in) ==
        k.gemm({2048, 6176 / 4, 1024}, Dtype::bf16).duration.value);
  CHECK(op_seconds(f, OpKind::mamba_out) ==
        k.gemm({2048, 1024, 2048 / 4}, Dtype::bf16).duration.value);
  CHECK(op_seconds(f, OpKind::mamba_conv) == k.streaming({2048.0 * 1024 * 4}).duration.value);
  CHECK(op_seconds(f, OpKind::mamba_scan) == k.scan_forward({2048, 512, 128}).duration.value);
}

TEST_CASE("context parallelism swaps tokens against heads around convolution and scan") {
  const Scenario s = with_mamba({.cp = 2});
  CHECK(order(templates(s).layer_forward(mamba_layer, false)) ==
        "norm mamba in gemm permute [A2A] permute mamba conv mamba scan permute [A2A] permute norm "
        "mamba out gemm add");
  CHECK(count(templates(s).layer_backward(mamba_layer, false), OpKind::cp_all_to_all) == 2);
}

TEST_CASE("a gated delta net runs the same kernels; its norm may run again") {
  Scenario s = with_mamba({});
  CHECK(order(templates(s).layer_forward(delta_layer, false)) ==
        order(templates(s).layer_forward(mamba_layer, false)));
  const std::string plain = order(templates(s).layer_backward(delta_layer, false));
  s.recompute_modules.gdn_norm_out = true;
  CHECK(order(templates(s).layer_backward(delta_layer, false)) == "norm " + plain);
  CHECK(order(templates(s).layer_backward(mamba_layer, false)) == plain);
}

TEST_CASE("fp8: the projections of a Mamba layer are quantised, its scan is not") {
  const Scenario s = with_mamba({}, {"mixed_precision=bf16_with_fp8_current_scaling_mixed"});
  LayerKind kind = mamba_layer;
  kind.fp8 = true;
  CHECK(order(templates(s).layer_forward(kind, true)) ==
        "quantize norm quantize mamba in gemm mamba conv mamba scan norm quantize mamba out gemm "
        "add");
}

TEST_CASE("a layer that is one half runs that half") {
  const Scenario s = with_mamba({});
  const LayerTemplates t = templates(s);
  CHECK(order(t.layer_forward({.feed_forward = FeedForward::none}, false)) ==
        "norm qkv rope attn proj add");
  CHECK(order(t.layer_forward({.mixer = Mixer::none}, false)) == "norm fc1 act fc2 add");
  CHECK(order(t.layer_backward({.mixer = Mixer::none}, false)) ==
        "fc2'd fc2'w act fc1'd fc1'w norm add");
  CHECK(order(t.layer_forward({.mixer = Mixer::mamba}, false)) ==
        order(t.layer_forward(mamba_layer, false)) + " norm fc1 act fc2 add");
}

// 16 heads of 64 three ways and their gates: 4096 features.
TEST_CASE("an output gate is a pass behind attention and as many features as the queries") {
  Scenario s = tiny({});
  s.model.attention_gate = true;
  const Template f = templates(s).layer_forward({}, false);
  CHECK(order(f).starts_with("norm qkv rope attn act proj add"));
  CHECK(order(templates(s).layer_backward({}, false)).find("proj'w act attn") != std::string::npos);
  CHECK(op_seconds(f, OpKind::qkv_gemm) == KernelModel(s.cluster.device, s.cluster.stack)
                                               .gemm({2048, 4096, 1024}, Dtype::bf16)
                                               .duration.value);
}

// GPT-NeoX, gpt_j_residual: one reduction for both branches; each gathers its own normed input.
TEST_CASE("parallel residual: one reduction forward, and one gather of the gradient") {
  const auto parallel = [](const Run& r) {
    Scenario s = tiny(r);
    s.model.parallel_residual = true;
    return s;
  };
  const Scenario sharded = parallel({.tp = 4, .sp = true}), whole = parallel({.tp = 4}),
                 alone = parallel({});
  CHECK(order(templates(whole).layer_forward({}, false)) ==
        "norm qkv rope attn proj norm fc1 act fc2 add [AR] add");
  CHECK(order(templates(sharded).layer_forward({}, false)) ==
        "norm [AG] qkv rope attn proj norm [AG] fc1 act fc2 add [RS] add");
  CHECK(order(templates(sharded).layer_backward({}, false)) ==
        "[AG] fc2'd fc2'w act [AG] fc1'd [RS] fc1'w norm add proj'd proj'w attn rope [AG] qkv'd "
        "[RS] qkv'w norm add");
  CHECK(order(templates(alone).layer_forward({}, false)) ==
        "norm qkv rope attn proj add norm fc1 act fc2 add");
}

// Tokens 2048, hidden 1024, 16 bits: input, normed input; projected features, the scan's output
// and out's input.
TEST_CASE("activations that the halves of a layer keep") {
  const Scenario s = with_mamba({});
  const double stream = 2048.0 * 1024 * 2;
  const double mamba = 2 * stream + 2048.0 * (6176 * 2 + 2048 * 4);
  const double mlp = 2 * stream + 2048.0 * 4096 * 4;
  CHECK(layer_activation_bytes(s, {Mixer::mamba, FeedForward::none}, false) == mamba);
  CHECK(layer_activation_bytes(s, {Mixer::none, FeedForward::dense}, false) == mlp);
  CHECK(layer_activation_bytes(s, {Mixer::mamba, FeedForward::dense}, false) == mamba + mlp);
}
