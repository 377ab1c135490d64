// Which kernels and collectives a layer runs, in which order, and what waits for what.
#include "sim/lower/layer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

const std::string plain_forward = "norm qkv rope attn proj add norm fc1 act fc2 add";
const std::string plain_backward =
    "fc2'd fc2'w act fc1'd fc1'w norm add proj'd proj'w attn rope qkv'd qkv'w norm add";

Template forward(const Scenario& s) { return templates(s).layer_forward({.fp8 = false}, false); }
Template backward(const Scenario& s, bool again = false) {
  return templates(s).layer_backward({.fp8 = false}, again);
}
/// With these modules run again.
Scenario tiny_again(const Run& r, const std::string& modules, std::vector<std::string> words = {}) {
  words.push_back("model.recompute_granularity=selective");
  words.push_back("model.recompute_modules=[" + modules + "]");
  return tiny(r, words);
}

}  // namespace

TEST_CASE("without TP a layer communicates nothing") {
  const Scenario s = tiny({});
  CHECK(order(forward(s)) == plain_forward);
  CHECK(order(backward(s)) == plain_backward);
}

// Shoeybi et al. 2019, figure 4: one all-reduce after attention and one after the MLP, forward; two
// backward.
TEST_CASE(
    "TP without sequence parallelism: two all-reduces forward, two backward beside the weight "
    "gradients") {
  const Scenario s = tiny({.tp = 4});
  const Template f = forward(s), b = backward(s);
  CHECK(order(f) == "norm qkv rope attn proj [AR] add norm fc1 act fc2 [AR] add");
  CHECK(order(b) ==
        "fc2'd fc2'w act fc1'd [AR] fc1'w norm add proj'd proj'w attn rope qkv'd [AR] qkv'w norm "
        "add");
  // Forward exposed: the residual waits. Backward beside the weight gradient: the norm waits, the
  // GEMM does not.
  CHECK(waits(f, find(f, OpKind::residual), find(f, OpKind::tp_all_reduce)));
  const int32_t reduced = find(b, OpKind::tp_all_reduce), weight = find(b, OpKind::fc1_gemm, 1);
  CHECK(waits(b, reduced, find(b, OpKind::fc1_gemm)));
  CHECK_FALSE(waits(b, weight, reduced));
  CHECK(waits(b, find(b, OpKind::norm), reduced));
}

// Korthikanti et al. 2022, figure 5, with the input kept sharded and gathered again in backward.
TEST_CASE("sequence parallelism: 2 AG + 2 RS forward, 4 AG + 2 RS backward") {
  const Scenario s = tiny({.tp = 4, .sp = true});
  const Template f = forward(s), b = backward(s);
  CHECK(order(f) == "norm [AG] qkv rope attn proj [RS] add norm [AG] fc1 act fc2 [RS] add");
  CHECK(order(b) ==
        "[AG] fc2'd fc2'w act [AG] fc1'd [RS] fc1'w norm add [AG] proj'd proj'w attn rope [AG] "
        "qkv'd [RS] qkv'w norm add");
  CHECK(count(b, OpKind::tp_all_gather) == 4);
  CHECK(count(b, OpKind::tp_reduce_scatter) == 2);
  // Forward collectives are exposed.
  CHECK(waits(f, find(f, OpKind::qkv_gemm), find(f, OpKind::tp_all_gather)));
  CHECK(waits(f, find(f, OpKind::residual), find(f, OpKind::tp_reduce_scatter)));
  // The gradient of a row-parallel output is gathered before its data gradient.
  CHECK(waits(b, find(b, OpKind::fc2_gemm), find(b, OpKind::tp_all_gather)));
}

TEST_CASE(
    "sequence parallelism: the input's gather runs beside the data gradient, the scatter beside "
    "the weight's") {
  for (bool overlap : {false, true}) {
    const Scenario s = tiny({.tp = 4, .sp = true, .tp_overlap = overlap});
    const Template b = backward(s);
    const int32_t data = find(b, OpKind::qkv_gemm), weight = find(b, OpKind::qkv_gemm, 1);
    const int32_t gather = data - 1, scatter = data + 1;
    REQUIRE(b.ops[static_cast<size_t>(gather)].op == OpKind::tp_all_gather);
    REQUIRE(b.ops[static_cast<size_t>(scatter)].op == OpKind::tp_reduce_scatter);
    CHECK(waits(b, gather, find(b, OpKind::rope)));  // starts with the data gradient
    CHECK_FALSE(waits(b, data, gather));
    CHECK(waits(b, scatter, data));
    CHECK(waits(b, weight, gather));
    CHECK_FALSE(waits(b, weight, scatter));
    CHECK(waits(b, find(b, OpKind::norm, 1), scatter));
  }
}

// Transformer Engine userbuffers, ring exchange: T chunks of the GEMM, T-1 exchanges, each under
// the chunk before.
TEST_CASE("ring_exchange before a column-parallel GEMM: T chunks and T-1 exchanges") {
  for (int tp : {2, 4, 8}) {
    CAPTURE(tp);
    const Scenario s = tiny({.tp = tp, .sp = true, .tp_overlap = true}),
                   off = tiny({.tp = tp, .sp = true});
    const Template f = forward(s), plain = forward(off);
    CHECK(count(f, OpKind::qkv_gemm) == tp);
    CHECK(count(f, OpKind::fc1_gemm) == tp);
    CHECK(count(f, OpKind::tp_all_gather) == 0);
    CHECK(count(f, OpKind::tp_exchange) == 2 * (tp - 1));
    double chunks = 0;
    for (const TemplateOp& op : f.ops)
      chunks += op.op == OpKind::qkv_gemm ? op.duration_seconds : 0;
    CHECK(chunks ==
          doctest::Approx(
              plain.ops[static_cast<size_t>(find(plain, OpKind::qkv_gemm))].duration_seconds));
    // Chunk i+1 waits for exchange i, which waits for exchange i-1 and not for a GEMM.
    const int32_t source = find(f, OpKind::norm);
    CHECK(waits(f, find(f, OpKind::tp_exchange), source));
    for (int i = 0; i + 1 < tp; ++i) {
      CHECK(waits(f, find(f, OpKind::qkv_gemm, i + 1), find(f, OpKind::tp_exchange, i)));
      if (i > 0)
        CHECK(waits(f, find(f, OpKind::tp_exchange, i), find(f, OpKind::tp_exchange, i - 1)));
    }
    CHECK_FALSE(waits(f, find(f, OpKind::qkv_gemm), find(f, OpKind::tp_exchange)));
  }
}

TEST_CASE("pipeline after a row-parallel GEMM: num_splits pieces, each scattered under the next") {
  for (int splits : {1, 2, 4}) {
    CAPTURE(splits);
    const Scenario s =
        tiny({.tp = 4, .sp = true, .tp_overlap = true},
             {R"(model.tp_comm_overlap_cfg={"proj_fprop": {"method": "pipeline", "num_splits": )" +
              std::to_string(splits) + "}}"});
    const Template f = forward(s);
    CHECK(count(f, OpKind::proj_gemm) == splits);
    CHECK(count(f, OpKind::tp_reduce_scatter) == splits + 4);  // fc2 keeps its built-in 4
    for (int i = 0; i < splits; ++i) {
      CHECK(waits(f, find(f, OpKind::tp_reduce_scatter, i), find(f, OpKind::proj_gemm, i)));
      if (i > 0)
        CHECK_FALSE(
            waits(f, find(f, OpKind::proj_gemm, i), find(f, OpKind::tp_reduce_scatter, i - 1)));
    }
    CHECK(waits(f, find(f, OpKind::residual), find(f, OpKind::tp_reduce_scatter, splits - 1)));
  }
}

TEST_CASE(
    "ring_exchange after a row-parallel GEMM: T chunks, T-1 sends under the next chunk, then the "
    "sum") {
  const int tp = 4;
  const Scenario s =
      tiny({.tp = tp, .sp = true, .tp_overlap = true},
           {R"(model.tp_comm_overlap_cfg={"proj_fprop": {"method": "ring_exchange"}})"});
  const Template f = forward(s);
  const int32_t first = find(f, OpKind::proj_gemm), sum = find(f, OpKind::reduce_chunks);
  CHECK(count(f, OpKind::proj_gemm) == tp);
  CHECK(order(f).find("proj [x] proj [x] proj [x] proj sum add") != std::string::npos);
  // The last chunk is the owner's own and needs no transfer: the sum waits for the last send, the
  // GEMM does not.
  const int32_t last_send = first + 2 * (tp - 2) + 1, last_chunk = last_send + 1;
  CHECK(waits(f, last_send, last_send - 1));
  CHECK_FALSE(waits(f, last_chunk, last_send));
  CHECK(waits(f, sum, last_send));
}

TEST_CASE("row-parallel data gradients gather by ring_exchange") {
  const Scenario s = tiny({.tp = 4, .sp = true, .tp_overlap = true});
  const Template b = backward(s);
  CHECK(count(b, OpKind::fc2_gemm) == 4 + 1);
  CHECK(count(b, OpKind::proj_gemm) == 4 + 1);
  CHECK(count(b, OpKind::tp_exchange) == 2 * 3);
  CHECK(count(b, OpKind::tp_all_gather) == 2);
  CHECK(count(b, OpKind::tp_reduce_scatter) == 2);
}

// Liu et al. 2023, Ring Attention; Megatron-Core's cp_comm_type p2p.
TEST_CASE("context parallelism: C attention steps over C-1 exchanges forward, C backward") {
  for (int cp : {2, 4, 8}) {
    CAPTURE(cp);
    const Scenario s = tiny({.cp = cp}), alone = tiny({});
    const Template f = forward(s), b = backward(s);
    CHECK(count(f, OpKind::attention) == cp);
    CHECK(count(f, OpKind::cp_exchange) == cp - 1);
    CHECK(count(b, OpKind::attention) == cp);
    CHECK(count(b, OpKind::cp_exchange) == cp);
    // Step i+1 works on what exchange i brought; exchange i runs beside step i.
    for (int i = 0; i + 1 < cp; ++i) {
      CHECK(waits(f, find(f, OpKind::attention, i + 1), find(f, OpKind::cp_exchange, i)));
      CHECK_FALSE(waits(f, find(f, OpKind::attention, i), find(f, OpKind::cp_exchange, i)));
      CHECK(waits(b, find(b, OpKind::attention, i + 1), find(b, OpKind::cp_exchange, i)));
    }
    // Gradients come home before they are rotated.
    CHECK(waits(b, find(b, OpKind::rope), find(b, OpKind::cp_exchange, cp - 1)));
    // Exchanges carry keys and values, or those and their gradients.
    const auto seconds = [](const Template& t, int32_t i) {
      return t.ops[static_cast<size_t>(i)].duration_seconds;
    };
    CHECK(seconds(b, find(b, OpKind::cp_exchange)) == seconds(f, find(f, OpKind::cp_exchange)));
    if (cp > 2)
      CHECK(seconds(b, find(b, OpKind::cp_exchange, 1)) > seconds(b, find(b, OpKind::cp_exchange)));
  }
}

TEST_CASE("full recompute runs the forward again before the backward, its communication included") {
  for (const Run& r : {Run{}, Run{.tp = 4}, Run{.tp = 4, .sp = true},
                       Run{.tp = 4, .sp = true, .tp_overlap = true}, Run{.cp = 4}}) {
    const Scenario s = tiny(r);
    const Template f = forward(s), b = backward(s), full = backward(s, true);
    CHECK(order(full) == order(f) + " " + order(b));
    for (size_t i = 0; i < f.ops.size(); ++i) {
      CHECK(full.ops[i].pass == Pass::recompute);
      CHECK(full.ops[i].duration_seconds == f.ops[i].duration_seconds);
      CHECK(full.ops[i].stream == f.ops[i].stream);
    }
  }
}

TEST_CASE("core-attention recompute runs attention again and nothing else") {
  CHECK(order(backward(tiny_again({}, "core_attn"))) ==
        "fc2'd fc2'w act fc1'd fc1'w norm add proj'd proj'w attn attn rope qkv'd qkv'w norm add");
  const Scenario ring = tiny_again({.cp = 4}, "core_attn");
  CHECK(count(backward(ring), OpKind::cp_exchange) == 3 + 4);
}

// Megatron-Core transformer_layer.py checkpoints the whole MLP, whose norm is part of fc1's module;
// the residual, and with dropout its backward, are outside.
TEST_CASE("MLP recompute runs norm, fc1, activation and fc2 again, just before their backward") {
  CHECK(order(backward(tiny_again({}, "mlp"))) == "norm fc1 act fc2 " + plain_backward);
  CHECK(order(backward(tiny_again({.tp = 4}, "mlp")))
            .starts_with("norm fc1 act fc2 [AR] fc2'd fc2'w act fc1'd [AR] fc1'w norm add"));
  const Template b = backward(tiny_again({.tp = 4, .sp = true}, "mlp"));
  CHECK(order(b).starts_with(
      "norm [AG] fc1 act fc2 [RS] [AG] fc2'd fc2'w act [AG] fc1'd [RS] fc1'w norm add"));
  // Nothing reads the second output, but its reduction is a blocking one.
  CHECK(waits(b, find(b, OpKind::fc2_gemm, 1), find(b, OpKind::tp_reduce_scatter)));
  CHECK(order(backward(tiny_again({}, "mlp", {"model.hidden_dropout=0.1"})))
            .starts_with("add norm fc1 act fc2 fc2'd"));
  CHECK(order(templates(tiny_again({}, "mlp",
                                   {"mixed_precision=bf16_with_fp8_current_scaling_"
                                    "mixed"}))
                  .layer_backward({.fp8 = true}, false))
            .starts_with("norm quantize fc1 act quantize fc2 quantize fc2'd"));
}

TEST_CASE("modules are run again one by one; a dense layer's norms are no modules") {
  CHECK(order(backward(tiny_again({}, "core_attn,mlp"))) ==
        "norm fc1 act fc2 fc2'd fc2'w act fc1'd fc1'w norm add proj'd proj'w attn attn rope qkv'd "
        "qkv'w norm add");
  CHECK(order(backward(tiny_again({}, "layernorm"))) == plain_backward);
}

// Law: what runs again is what the forward runs, to the bit, and the rest of the backward stays.
TEST_CASE("law: a backward with MLP recompute is the forward's MLP and the backward without it") {
  const std::string fp8 = "mixed_precision=bf16_with_fp8_current_scaling_mixed";
  for (const Run& r : {Run{}, Run{.tp = 4}, Run{.tp = 4, .sp = true},
                       Run{.tp = 8, .sp = true, .tp_overlap = true}, Run{.tp = 2, .cp = 2}})
    for (bool in8 : {false, true}) {
      const std::vector<std::string> words = in8 ? std::vector{fp8} : std::vector<std::string>{};
      const Scenario plain = tiny(r, words), again = tiny_again(r, "mlp", words);
      const Template f = templates(plain).layer_forward({.fp8 = in8}, false),
                     b = templates(plain).layer_backward({.fp8 = in8}, false),
                     with = templates(again).layer_backward({.fp8 = in8}, false);
      std::vector<TemplateOp> expected(f.ops.begin() + find(f, OpKind::norm, 1), f.ops.end() - 1);
      const size_t repeated = expected.size();
      expected.insert(expected.end(), b.ops.begin(), b.ops.end());
      REQUIRE(with.ops.size() == expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        CHECK(with.ops[i].op == expected[i].op);
        CHECK(with.ops[i].duration_seconds == expected[i].duration_seconds);
        CHECK(with.ops[i].stream == expected[i].stream);
        CHECK(with.ops[i].pass == (i < repeated ? Pass::recompute : expected[i].pass));
      }
      CHECK(order(templates(again).layer_forward({.fp8 = in8}, false)) == order(f));
    }
}

TEST_CASE("fp8: each GEMM's input is quantised, weights once a step") {
  const Scenario s = tiny({}, {"mixed_precision=bf16_with_fp8_current_scaling_mixed"});
  const LayerTemplates t = templates(s);
  CHECK(order(t.layer_forward({.fp8 = true}, false)) ==
        "norm quantize qkv rope attn quantize proj add norm quantize fc1 act quantize fc2 add");
  CHECK(count(t.layer_forward({.fp8 = true}, true), OpKind::quantize) == 5);
  CHECK(count(t.layer_backward({.fp8 = true}, false), OpKind::quantize) == 4);
  CHECK(count(t.layer_forward({.fp8 = false}, false), OpKind::quantize) == 0);
  // Gathers move one byte an element where bf16 moves two.
  const Scenario sharded =
      tiny({.tp = 4, .sp = true}, {"mixed_precision=bf16_with_fp8_current_scaling_mixed"});
  const Template in8 = templates(sharded).layer_forward({.fp8 = true}, false),
                 in16 = forward(sharded);
  const auto moving = [](const Template& x, OpKind op) {
    const TemplateOp& o = x.ops[static_cast<size_t>(find(x, op))];
    return o.duration_seconds - o.latency_seconds;
  };
  CHECK(moving(in8, OpKind::tp_all_gather) ==
        doctest::Approx(moving(in16, OpKind::tp_all_gather) / 2));
  CHECK(moving(in8, OpKind::tp_reduce_scatter) ==
        doctest::Approx(moving(in16, OpKind::tp_reduce_scatter)));
}

TEST_CASE("the ends: vocabulary-parallel embedding and loss") {
  const Scenario s = tiny({.tp = 4, .sp = true});
  const LayerTemplates t = templates(s);
  CHECK(order(t.embedding_forward()) == "embedding [RS] embedding");
  CHECK(order(t.embedding_backward()) == "[AG] embedding gradient accumulate");
  // Fused cross entropy reduces the maximum, then the sum with the target's logit (Megatron-Core,
  // native fusion).
  CHECK(order(t.head_forward()) ==
        "norm [AG] output gemm cross entropy [AR] cross entropy [AR] cross entropy");
  CHECK(order(t.head_backward(false)) ==
        "cross entropy [AG] output gemm'd [RS] output gemm'w norm add");
  CHECK(order(templates(tiny({})).head_forward()) == "norm output gemm cross entropy");
  CHECK(order(templates(tiny({.tp = 4})).embedding_forward()) == "embedding [AR] embedding");
}

// Megatron-Core attention.py: with fewer groups than TP the QKV output is gathered and sliced, and
// its gradient reduce-scattered.
TEST_CASE("fewer key-value groups than TP: QKV is gathered forward and reduce-scattered backward") {
  const Scenario s = tiny({.tp = 4, .sp = true}, {"model.num_query_groups=2"});
  CHECK(order(forward(s)).starts_with("norm [AG] qkv [AG] rope attn"));
  CHECK(order(backward(s)).ends_with("attn rope [RS] [AG] qkv'd [RS] qkv'w norm add"));
}

TEST_CASE("q and k norms are kernels of their own, forward and backward") {
  const Scenario s = tiny({}, {"model.qk_layernorm=true"});
  CHECK(order(forward(s)).starts_with("norm qkv norm norm rope attn"));
  CHECK(order(backward(s)).ends_with("attn rope norm norm qkv'd qkv'w norm add"));
}

TEST_CASE("without rotary positions nothing rotates q and k") {
  CHECK(order(forward(tiny({}, {"model.position_embedding_type=none"})))
            .starts_with("norm qkv attn"));
}
