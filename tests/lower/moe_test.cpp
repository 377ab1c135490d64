// Which kernels and transfers a layer of experts runs, in which order, and where the host waits.
#include <doctest/doctest.h>

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
constexpr LayerKind moe_layer{.feed_forward = FeedForward::experts};

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
TEST_CASE("many small experts: the same FLOPs, seven times the bytes and a slower layer") {
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
