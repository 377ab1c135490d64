// Attention that is not one qkv GEMM and a ring: latents, windows, heads exchanged, keys gathered.
#include <doctest/doctest.h>

#include "sim/lower/shards.h"
#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

using Words = std::vector<std::string>;

Template attention_forward_of(const Scenario& s) {
  return templates(s).layer_forward(layer_kind(s, 0), false);
}
Template attention_backward_of(const Scenario& s) {
  return templates(s).layer_backward(layer_kind(s, 0), false);
}
/// With Megatron-Core's default latents: q 512, kv 512, heads of 128 + 64, values of 128.
Scenario latent(const Run& r, Words words = {}) {
  words.push_back("model.multi_latent_attention=true");
  return tiny(r, words);
}
Scenario context(int cp, const std::string& kind, Words words = {}) {
  words.push_back("model.cp_comm_type=" + kind);
  return tiny({.cp = cp}, words);
}
const TemplateOp& op(const Template& t, OpKind kind, int which = 0) {
  return t.ops[static_cast<size_t>(find(t, kind, which))];
}
KernelModel kernels(const Scenario& s) { return {s.cluster.device, s.cluster.stack}; }
double seconds(const Scenario& s, const Gemm& g) {
  return kernels(s).gemm(g, Dtype::bf16).duration.value;
}
double seconds(const Scenario& s, Collective c, double bytes, int ranks) {
  return collective_cost(c, {bytes}, together(ranks), s.cluster).duration.value;
}
double total(const Template& t, OpKind kind) {
  double sum = 0;
  for (const TemplateOp& o : t.ops) sum += o.op == kind ? o.duration_seconds : 0;
  return sum;
}

}  // namespace

// Megatron-Core transformer/multi_latent_attention.py.
TEST_CASE("latent attention: down, norm, up for queries and for keys, then the rotation") {
  const Scenario s = latent({});
  CHECK(order(attention_forward_of(s)) ==
        "norm q_down kv_down norm q_up norm kv_up rope rope attn proj add norm fc1 act fc2 add");
  CHECK(order(attention_backward_of(s)) ==
        "fc2'd fc2'w act fc1'd fc1'w norm add proj'd proj'w attn rope rope kv_up'd kv_up'w norm "
        "q_up'd q_up'w norm kv_down'd kv_down'w q_down'd q_down'w add norm add");
  // Without a query latent the queries come straight from the normed input.
  CHECK(order(attention_forward_of(latent({}, {"model.q_lora_rank=0"}))) ==
        "norm kv_down q_up norm kv_up rope rope attn proj add norm fc1 act fc2 add");
}

TEST_CASE("latent attention under sequence parallelism gathers latents, not hidden states") {
  const Scenario s = latent({.tp = 4, .sp = true});
  const Template f = attention_forward_of(s), b = attention_backward_of(s);
  CHECK(order(f) ==
        "norm q_down kv_down [AG] norm [AG] q_up norm [AG] kv_up rope rope attn proj [RS] add "
        "norm [AG] fc1 act fc2 [RS] add");
  CHECK(
      order(b).ends_with("attn rope rope [AG] kv_up'd [RS] kv_up'w norm [AG] q_up'd [RS] q_up'w "
                         "norm [RS] kv_down'd kv_down'w q_down'd q_down'w add norm add"));
  // 2048 tokens, 512 here; 16 heads, 4 here. The down projections are whole on every rank.
  CHECK(op(f, OpKind::q_down_gemm).duration_seconds == seconds(s, Gemm{512, 512, 1024}));
  CHECK(op(f, OpKind::kv_down_gemm).duration_seconds == seconds(s, Gemm{512, 576, 1024}));
  CHECK(op(f, OpKind::q_up_gemm).duration_seconds == seconds(s, Gemm{2048, 4 * 192, 512}));
  CHECK(op(f, OpKind::kv_up_gemm).duration_seconds == seconds(s, Gemm{2048, 4 * 256, 512}));
  CHECK(op(f, OpKind::proj_gemm).duration_seconds == seconds(s, Gemm{2048, 1024, 4 * 128}));
  const auto gathered = [&](int which) {
    return op(f, OpKind::tp_all_gather, which).duration_seconds;
  };
  CHECK(gathered(0) == seconds(s, Collective::all_gather, 2048.0 * 64 * 2, 4));
  CHECK(gathered(1) == seconds(s, Collective::all_gather, 2048.0 * 512 * 2, 4));
  CHECK(gathered(2) == seconds(s, Collective::all_gather, 2048.0 * 512 * 2, 4));
  // Two products over half the square: 2 x 4 heads x 2048^2 / 2 x (192 + 128).
  const Attention a{.batch = 1,
                    .heads = 4,
                    .head_dim = 192,
                    .queries = 2048,
                    .keys = 2048,
                    .visible = 0.5,
                    .dtype = Dtype::bf16,
                    .value_dim = 128};
  CHECK(a.forward_flops().value == 2.0 * 4 * 2048 * 1024 * 320);
  CHECK(op(f, OpKind::attention).duration_seconds ==
        kernels(s).attention_forward(a).duration.value);
}

TEST_CASE("latent attention: whole down projections and norms are summed over TP at the end") {
  const Scenario s = latent({.tp = 4, .sp = true});
  const auto split = split_layers(s.parallel, s.model.layers);
  // LayerNorms of 1024, 512, 512, 1024 and the final 1024 hold two vectors each.
  const int64_t norms = 2 * (1024 + 512 + 512 + 1024 + 1024);
  CHECK(chunk_shards(s, split, 0)[0].replicated == norms + 1024 * 512 + 1024 * (512 + 64));
}

// Megatron-Core multi_latent_attention.py (qkv_up_checkpoint), transformer_layer.py.
TEST_CASE("recompute of latent attention's modules runs what each covers, gathers included") {
  const auto again = [](const std::string& modules) {
    return order(attention_backward_of(latent(
        {.tp = 4, .sp = true},
        {"model.recompute_granularity=selective", "model.recompute_modules=[" + modules + "]"})));
  };
  const std::string up = "norm [AG] q_up norm [AG] kv_up rope rope ";
  CHECK(again("mla_up_proj").find("proj'd proj'w " + up + "attn rope") != std::string::npos);
  CHECK(again("mla_up_proj,core_attn").find("proj'w " + up + "attn attn rope") !=
        std::string::npos);
  CHECK(again("layernorm").find("norm add norm [AG] proj'd") != std::string::npos);
  CHECK(again("core_attn").find("proj'w attn attn rope") != std::string::npos);
}

// Transformer Engine context_parallel.py: AttnFuncWithCPAndQKVOA2A.
TEST_CASE("a2a: every tensor is exchanged before attention, its output after; backward mirrors") {
  const Scenario s = context(4, "a2a");
  const Template f = attention_forward_of(s), b = attention_backward_of(s);
  const std::string three = "permute [A2A] permute [A2A] permute [A2A] permute permute permute";
  CHECK(order(f).find("rope " + three + " attn permute [A2A] permute proj") != std::string::npos);
  CHECK(order(b).find("proj'w permute [A2A] permute attn " + three + " rope") != std::string::npos);
  // 512 tokens of 16 heads of 64 each way, and all 2048 tokens of 4 heads.
  CHECK(op(f, OpKind::cp_all_to_all).duration_seconds ==
        seconds(s, Collective::all_to_all, 512.0 * 1024 * 2, 4));
  CHECK(op(f, OpKind::attention).duration_seconds == kernels(s)
                                                         .attention_forward({.batch = 1,
                                                                             .heads = 4,
                                                                             .head_dim = 64,
                                                                             .queries = 2048,
                                                                             .keys = 2048,
                                                                             .visible = 0.5,
                                                                             .dtype = Dtype::bf16})
                                                         .duration.value);
  // A tensor is sent while the next is put in order.
  CHECK_FALSE(waits(f, find(f, OpKind::permute, 1), find(f, OpKind::cp_all_to_all)));
  CHECK(waits(f, find(f, OpKind::permute, 3), find(f, OpKind::cp_all_to_all)));
}

// AttnFuncWithCPAndKVAllGather.
TEST_CASE("all_gather: keys and values gathered, twice; sums of their gradients scattered") {
  const Scenario s = context(4, "all_gather");
  const Template f = attention_forward_of(s), b = attention_backward_of(s);
  CHECK(order(f).find("rope [cp AG] [cp AG] permute attn attn proj") != std::string::npos);
  CHECK(order(b).find("proj'w [cp AG] [cp AG] permute attn attn permute [cp RS] [cp RS] rope") !=
        std::string::npos);
  CHECK(waits(f, find(f, OpKind::permute), find(f, OpKind::cp_all_gather, 1)));
  CHECK(op(f, OpKind::cp_all_gather).duration_seconds ==
        seconds(s, Collective::all_gather, 2048.0 * 1024 * 2, 4));
  CHECK(waits(b, find(b, OpKind::rope), find(b, OpKind::cp_reduce_scatter, 1)));
}

TEST_CASE("a2a+p2p: heads among neighbours, keys and values round the outer ring") {
  const Scenario s = context(8, "a2a+p2p", {"model.hierarchical_context_parallel_sizes=[2,4]"});
  const Template f = attention_forward_of(s);
  CHECK(count(f, OpKind::attention) == 4);
  CHECK(count(f, OpKind::cp_exchange) == 3);
  CHECK(count(f, OpKind::cp_all_to_all) == 4);
  for (const TemplateOp& o : f.ops) {
    if (o.op == OpKind::cp_all_to_all) CHECK(o.group == Meeting::cp_inner);
    if (o.op == OpKind::cp_exchange) CHECK(o.group == Meeting::cp_outer);
  }
  CHECK(op(f, OpKind::cp_exchange).duration_seconds ==
        seconds(s, Collective::send_recv, 256.0 * 2 * 1024 * 2, 4));
  // One of the sizes 1: the other kind alone.
  const auto same = [](const Template& a, const Template& b) {
    REQUIRE(a.ops.size() == b.ops.size());
    for (size_t i = 0; i < a.ops.size(); ++i)
      CHECK(a.ops[i].duration_seconds == b.ops[i].duration_seconds);
  };
  same(attention_forward_of(
           context(8, "a2a+p2p", {"model.hierarchical_context_parallel_sizes=[1,8]"})),
       attention_forward_of(context(8, "p2p")));
  same(attention_forward_of(
           context(8, "a2a+p2p", {"model.hierarchical_context_parallel_sizes=[8,1]"})),
       attention_forward_of(context(8, "a2a")));
}

TEST_CASE("kinds of exchange may differ by layer; without context parallelism they are one") {
  const Scenario s = tiny({.cp = 2, .layers = 2}, {R"(model.cp_comm_type=["a2a","all_gather"])"});
  CHECK(layer_kind(s, 0).context == ContextKind::a2a);
  CHECK(layer_kind(s, 1).context == ContextKind::all_gather);
  const Scenario one = tiny({.layers = 2}, {R"(model.cp_comm_type=["a2a","all_gather"])"});
  CHECK(layer_kind(one, 0) == layer_kind(one, 1));
}

TEST_CASE("a window bounds the keys of its layers") {
  const Words words{"model.window_size=[255,0]", "model.window_attn_skip_freq=2"};
  const Scenario s = tiny({.layers = 2}, words);
  CHECK(layer_kind(s, 0).window);
  CHECK_FALSE(layer_kind(s, 1).window);
  const auto of = [&](int layer) {
    return templates(s).layer_forward(layer_kind(s, layer), false);
  };
  // 256 keys, fewer at the start: 256 - 256 x 255 / (2 x 2048) in the mean.
  const Attention a = causal_attention(1, 16, 64, 2048, 2048, Dtype::bf16, 256);
  CHECK(a.forward_flops().value ==
        doctest::Approx(2.0 * 16 * 2048 * 128 * (256 - 256.0 * 255 / 4096)));
  CHECK(op(of(0), OpKind::attention).duration_seconds ==
        kernels(s).attention_forward(a).duration.value);
  CHECK(total(of(0), OpKind::attention) < total(of(1), OpKind::attention));
  // As long as the sequence it limits nothing.
  CHECK_FALSE(layer_kind(tiny({}, {"model.window_size=[2047,0]"}), 0).window);
}

// Megatron-Core multi_token_prediction.py.
TEST_CASE("multi-token prediction: embedding, two norms, projection, a layer, a norm; own logits") {
  const Scenario s = tiny({.tp = 4, .sp = true}, {"model.mtp_num_layers=2"}),
                 plain = tiny({.tp = 4, .sp = true});
  const std::vector<LayerKind> kind = prediction_kinds(s);
  const Template f = templates(s).prediction_forward(kind, false);
  CHECK(order(f).starts_with(
      "embedding [RS] embedding norm norm add [AG] mtp [AG] add norm [AG] qkv"));
  CHECK(order(f).ends_with("fc2 [RS] add norm"));
  CHECK(op(f, OpKind::mtp_projection).duration_seconds == seconds(s, Gemm{2048, 256, 2048}));
  const Template b = templates(s).prediction_backward(kind, false);
  CHECK(
      order(b).ends_with("[AG] add [AG] mtp'd [RS] mtp'w add norm norm add [AG] embedding "
                         "gradient accumulate"));
  CHECK(count(templates(s).head_forward(), OpKind::output_gemm) == 3);
  CHECK(count(templates(s).head_backward(false), OpKind::output_gemm) == 6);
  CHECK(count(templates(plain).head_forward(), OpKind::output_gemm) == 1);
}
