// Which kernels and transfers a layer of experts runs, in which order, and where the host waits.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// 8 experts of 512, two a token, over `ep` ranks of one node.
Scenario tiny_experts(int ep, std::vector<std::string> words = {}) {
  words.insert(words.begin(),
               {"model.num_moe_experts=8", "model.moe_router_topk=2",
                "model.moe_ffn_hidden_size=512", "model.gated_linear_unit=true",
                "model.moe_grouped_gemm=true", "model.moe_token_dispatcher_type=alltoall",
                "model.expert_model_parallel_size=" + std::to_string(ep)});
  return tiny({.dp = 8}, words);
}

LayerTemplates expert_templates(const Scenario& s) {
  const GroupPlacement experts = together(s.parallel.ep);
  return {s,
          {.tp = together(s.parallel.tp),
           .cp = together(s.parallel.cp),
           .ep = experts,
           .etp = together(1),
           .etp_ep = experts}};
}
constexpr LayerKind moe_layer{.feed_forward = FeedForward::experts},
    moe_layer_fp8{.fp8 = true, .feed_forward = FeedForward::experts};

/// Positions of one kind, in issue order.
int32_t last(const Template& t, OpKind op) { return find(t, op, count(t, op) - 1); }

}  // namespace

// Megatron-Core moe_layer.py: dispatch, experts, combine one after the other, each exposed.
TEST_CASE("experts: two transfers forward, two backward, each waited for by what reads it") {
  const Scenario s = tiny_experts(4);
  const LayerTemplates make = expert_templates(s);
  const Template f = make.layer_forward(moe_layer, false),
                 b = make.layer_backward(moe_layer, false);
  for (const Template* t : {&f, &b}) {
    CHECK(count(*t, OpKind::ep_dispatch) == 1);
    CHECK(count(*t, OpKind::ep_combine) == 1);
  }
  CHECK(count(f, OpKind::ep_counts) == 1);
  CHECK(count(b, OpKind::ep_counts) == 0);
  CHECK(count(f, OpKind::expert_fc1) == 1);
  CHECK(count(b, OpKind::expert_fc1) == 2);
  CHECK(count(f, OpKind::fc1_gemm) == 0);
  const int32_t sent = find(f, OpKind::ep_dispatch), back = find(f, OpKind::ep_combine);
  CHECK(sent < find(f, OpKind::expert_fc1));
  CHECK(waits(f, find(f, OpKind::permute, 2), sent));  // sorting what arrived
  CHECK(waits(f, last(f, OpKind::unpermute), back));
}

// token_dispatcher.py, cuda_sync_point: the token counts are copied to the host, which waits for
// them once a forward; backward has the sizes already, and so has a padded layer.
TEST_CASE(
    "the host waits for the token counts once a forward, and only where sizes depend on them") {
  const auto segments = [](const Scenario& s, bool backward) {
    const LayerTemplates make = expert_templates(s);
    return backward ? make.layer_backward(moe_layer, false).segments.size()
                    : make.layer_forward(moe_layer, false).segments.size();
  };
  CHECK(segments(tiny_experts(4), false) == 2);
  CHECK(segments(tiny_experts(4), true) == 1);
  CHECK(segments(tiny_experts(4, {"model.moe_expert_capacity_factor=1.0",
                                  "model.moe_pad_expert_input_to_capacity=true"}),
                 false) == 1);
  const Scenario s = tiny_experts(4);
  const Template f = expert_templates(s).layer_forward(moe_layer, false);
  const LaunchSegment& second = f.segments[1];
  CHECK(second.first_op == find(f, OpKind::ep_dispatch));
  CHECK(f.ops[static_cast<size_t>(second.waits_for)].op == OpKind::router);
}

// Tokens x top-k copies over the experts of a rank; weight gradients put off are the same kernels.
TEST_CASE("experts' products: every rank works on as many copies as it sends") {
  const Scenario s = tiny_experts(4);
  const Template f = expert_templates(s).layer_forward(moe_layer, false);
  const KernelModel kernels(s.cluster.device, s.cluster.stack);
  // 2048 tokens x 2 over 2 local experts: 2048 rows each; fc1 makes two halves of 512.
  const Kernel fc1 = kernels.grouped_gemm({2048, 1024, 1024, 2}, Dtype::bf16);
  CHECK(f.ops[static_cast<size_t>(find(f, OpKind::expert_fc1))].duration_seconds ==
        doctest::Approx(fc1.duration.value));
  CHECK(f.ops[static_cast<size_t>(find(f, OpKind::expert_fc1))].launches == 2);
}

TEST_CASE("a backward in halves is the same kernels as the whole one") {
  for (const LayerKind kind : {LayerKind{}, moe_layer}) {
    const Scenario s = tiny_experts(4);
    const LayerTemplates make = expert_templates(s);
    const auto busy = [](const Template& t) {
      double sum = 0;
      for (const TemplateOp& op : t.ops)
        if (op.stream == Stream::compute) sum += op.duration_seconds;
      return sum;
    };
    const Template input = make.layer_backward_input(kind, false),
                   weight = make.layer_backward_weight(kind, false),
                   whole = make.layer_backward(kind, false);
    CHECK(busy(input) + busy(weight) == doctest::Approx(busy(whole)).epsilon(1e-12));
    for (const TemplateOp& op : weight.ops) CHECK(op.pass == Pass::backward_weight);
    for (const TemplateOp& op : input.ops) CHECK(op.pass != Pass::backward_weight);
  }
}

// Megatron-Core model_chunk_schedule_plan.py, TransformerLayerSchedulePlan.run: what each transfer
// runs beside.
TEST_CASE("a merged pair of layers: each transfer waits for its own microbatch only") {
  const Scenario s = tiny_experts(8, {"model.overlap_moe_expert_parallel_comm=true"});
  const Template t = expert_templates(s).layer_pair(moe_layer, false, moe_layer);
  CHECK(count(t, OpKind::ep_dispatch) == 2);
  CHECK(count(t, OpKind::ep_combine) == 2);
  const int32_t combine_back = find(t, OpKind::ep_combine), dispatch = find(t, OpKind::ep_dispatch),
                dispatch_back = find(t, OpKind::ep_dispatch, 1),
                combine = find(t, OpKind::ep_combine, 1);
  CHECK(t.ops[static_cast<size_t>(combine_back)].other);
  CHECK_FALSE(t.ops[static_cast<size_t>(dispatch)].other);
  CHECK(t.ops[static_cast<size_t>(dispatch_back)].other);
  CHECK_FALSE(t.ops[static_cast<size_t>(combine)].other);
  // Combine's gradient first, under the forward's attention; the dispatch under the experts'
  // backward; its gradient under the experts' forward; the combine under attention's backward.
  const int32_t attention = find(t, OpKind::attention),
                attention_back = find(t, OpKind::attention, 1);
  CHECK(combine_back < attention);
  CHECK(attention < dispatch);
  CHECK(dispatch < dispatch_back);
  CHECK(combine < attention_back);
  const auto source = [&](int32_t op) {
    return t.ops[static_cast<size_t>(t.ops[static_cast<size_t>(op)].after[0])];
  };
  CHECK_FALSE(source(dispatch).other);
  CHECK(source(dispatch_back).other);
}

// Shared case of an issue of MaxText: seven times the copies of seven times narrower experts.
TEST_CASE("many small experts: the same FLOPs, no faster, and seven times the bytes") {
  const auto layer = [](const char* experts, const char* top, const char* width) {
    const Scenario s = tiny({.dp = 8}, {std::string("model.num_moe_experts=") + experts,
                                        std::string("model.moe_router_topk=") + top,
                                        std::string("model.moe_ffn_hidden_size=") + width,
                                        "model.moe_token_dispatcher_type=alltoall",
                                        "model.expert_model_parallel_size=8"});
    const Template t = expert_templates(s).layer_forward(moe_layer, false);
    double experts_seconds = 0, moves = 0;
    for (const TemplateOp& op : t.ops) {
      if (op.op == OpKind::expert_fc1 || op.op == OpKind::expert_fc2)
        experts_seconds += op.duration_seconds;
      if (op.op == OpKind::permute || op.op == OpKind::unpermute) moves += op.duration_seconds;
    }
    return std::pair(experts_seconds, moves);
  };
  const auto few = layer("8", "2", "14336"), many = layer("56", "14", "2048");
  CHECK(many.first >= few.first);  // equal where the power limit holds both down
  CHECK(many.second > 5 * few.second);
}

// Megatron-Core experts.py, TEGroupedMLP: the bias behind fc2 is applied in fp32, 28 bytes an
// element forward and 40 backward; fused_bias_geglu.py: the clamp is a pass of its own and the host
// waits for the copy of the offset. Transformer Engine's operation fuser takes both.
TEST_CASE("experts with biases and clamps: passes of their own, unless fused") {
  const std::vector<std::string> words{"model.add_bias_linear=true",
                                       "model.activation_func_clamp_value=7.0"};
  const Scenario plain = tiny_experts(4), s = tiny_experts(4, words);
  const LayerTemplates make = expert_templates(s);
  const Template f = make.layer_forward(moe_layer, false),
                 b = make.layer_backward(moe_layer, false),
                 without = expert_templates(plain).layer_forward(moe_layer, false);
  const KernelModel kernels(s.cluster.device, s.cluster.stack);
  // 2048 tokens x 2 copies of 1024.
  const double elements = 4096 * 1024;
  const auto seconds = [](const Template& t, OpKind op) {
    return t.ops[static_cast<size_t>(find(t, op))].duration_seconds;
  };
  CHECK(seconds(f, OpKind::expert_bias) ==
        doctest::Approx(kernels.streaming({28 * elements}).duration.value));
  CHECK(seconds(b, OpKind::expert_bias) ==
        doctest::Approx(kernels.streaming({40 * elements}).duration.value));
  CHECK(count(f, OpKind::expert_activation) == count(without, OpKind::expert_activation) + 1);
  CHECK(f.segments.size() == without.segments.size() + 1);
  CHECK(f.ops[static_cast<size_t>(f.segments.back().waits_for)].op == OpKind::expert_fc1);

  std::vector<std::string> fused = words;
  fused.emplace_back("model.use_transformer_engine_op_fuser=true");
  const Template one = expert_templates(tiny_experts(4, fused)).layer_forward(moe_layer, false);
  CHECK(count(one, OpKind::expert_activation) == count(without, OpKind::expert_activation));
  CHECK(seconds(one, OpKind::expert_bias) ==
        doctest::Approx(kernels.streaming({4 * elements}).duration.value));
}

// Each expert's tensor has its own scales: one operator each, four kernels with per-tensor current
// scaling. The fused grouped MLP of MXFP8 on Blackwell casts its activation in the epilogue.
TEST_CASE("experts' casts: one by one, or in the epilogue of the grouped GEMM") {
  const Scenario hopper =
      tiny_experts(4, {"mixed_precision.recipe=bf16_with_fp8_current_scaling_mixed",
                       "mixed_precision.first_last_layers_bf16=false"});
  const Template f = expert_templates(hopper).layer_forward(moe_layer_fp8, false);
  const auto expert_cast =
      std::find_if(f.ops.begin() + find(f, OpKind::ep_dispatch), f.ops.end(),
                   [](const TemplateOp& op) { return op.op == OpKind::quantize; });
  REQUIRE(expert_cast != f.ops.end());
  CHECK(expert_cast->operators == 2);
  CHECK(expert_cast->launches == 8);

  const std::vector<std::string> blackwell{"cluster.system=dgx-b200",
                                           "mixed_precision.recipe=bf16_with_mxfp8_mixed",
                                           "model.use_transformer_engine_op_fuser=true"};
  std::vector<std::string> interleaved = blackwell;
  interleaved.emplace_back("model.moe_mlp_glu_interleave_size=32");
  const auto kinds = [&](const std::vector<std::string>& words, OpKind op) {
    const LayerTemplates make = expert_templates(tiny_experts(4, words));
    return count(make.layer_forward(moe_layer_fp8, false), op) +
           count(make.layer_backward(moe_layer_fp8, false), op);
  };
  CHECK(kinds(blackwell, OpKind::expert_activation) == 2);
  CHECK(kinds(interleaved, OpKind::expert_activation) == 0);
  CHECK(kinds(blackwell, OpKind::quantize) - kinds(interleaved, OpKind::quantize) == 2);
}

// One copy of a token comes for all experts of a rank: it is read once and written to each.
TEST_CASE("a permutation behind a deduplicating dispatcher reads what came") {
  const Scenario s = tiny_experts(4, {"model.moe_token_dispatcher_type=flex"});
  const Template f = expert_templates(s).layer_forward(moe_layer, false);
  const KernelModel kernels(s.cluster.device, s.cluster.stack);
  // 2 of 8 experts over 4 ranks of 2: 4 (1 - C(6,2)/C(8,2)) = 13/7 distinct ranks of 2 copies.
  const double came = 2048 * 13.0 / 7, copies = 4096;
  CHECK(f.ops[static_cast<size_t>(find(f, OpKind::permute))].duration_seconds ==
        doctest::Approx(kernels.gather({(came + copies) * 1024 * 2}).duration.value));
}
