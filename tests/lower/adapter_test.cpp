// Low-rank adapters beside frozen weights: kernels and collectives by hand, what is trained and
// what only held.
#include "sim/lower/adapter.h"

#include <doctest/doctest.h>

#include "sim/engine/engine.h"
#include "sim/lower/inventory.h"
#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

Scenario adapted_tiny(const Run& r, std::vector<std::string> words = {}) {
  words.emplace_back("peft.scheme=lora");
  return tiny(r, std::move(words));
}

template <class Backward>
Template written(Pass pass, Backward backward) {
  TemplateWriter w(pass);
  backward(w);
  return std::move(w).finish({});
}

/// The adapter of tiny's fc1 or fc2 alone; TP groups of one NVLink domain.
struct Alone {
  explicit Alone(const Scenario& scenario)
      : s(scenario),
        groups{together(s.parallel.tp), {}},
        kernels(s.cluster.device, s.cluster.stack),
        block(s, groups, kernels) {}
  const Scenario& s;
  LayerGroups groups;
  KernelModel kernels;
  AdapterBlock block;
};

double optimizer_state(const Scenario& s) { return lowered(s).memory[0].optimizer; }

}  // namespace

// Megatron-Bridge lora_layers.py: the module first, its adapter, the sum; backward the other way.
TEST_CASE("frozen modules have data gradients only, adapters have both") {
  const Scenario s = adapted_tiny({}, {"peft.target_modules=[linear_qkv]"});
  const LayerTemplates make = templates(s);
  const LayerKind kind = layer_kind(s, 0);
  CHECK(order(make.layer_forward(kind, false)) ==
        "norm qkv adapter gemm adapter gemm adapter gemm add rope attn proj add "
        "norm fc1 act fc2 add");
  const Template back = make.layer_backward(kind, false);
  CHECK(order(back) ==
        "fc2'd act fc1'd norm add proj'd attn rope "
        "adapter gemm adapter gemm adapter gemm adapter gemm adapter gemm add qkv'd norm add");
  int weights = 0;
  for (const TemplateOp& op : back.ops) weights += op.pass == Pass::backward_weight;
  CHECK(weights == 2);
  CHECK(count(make.head_backward(false), OpKind::output_gemm) == 1);
}

// in -> 8 -> out of a column-parallel module on 4 ranks: 2048 x 2 x 1024 and 2048 x 1024 x 8.
TEST_CASE("an adapter's products and collectives are Bridge's") {
  const Scenario s = adapted_tiny({.tp = 4}, {"peft.dim=8"});
  const Alone a(s);
  const Gemm fc1{2048, 1024, 1024}, fc2{2048, 1024, 1024};
  const auto gemm = [&](const Gemm& g) { return a.kernels.gemm(g, Dtype::bf16).duration.value; };
  const auto moves = [&](Collective op, double bytes) {
    return collective_cost(op, {bytes}, together(4), s.cluster).duration.value;
  };
  Template t = written(Pass::forward, [&](TemplateWriter& w) { a.block.column_forward(w, fc1); });
  CHECK(order(t) == "adapter gemm [AG] adapter gemm adapter gemm add");
  CHECK(t.ops[0].duration_seconds == gemm({2048, 2, 1024}));
  CHECK(t.ops[1].duration_seconds == moves(Collective::all_gather, 2048 * 8 * 2));
  CHECK(t.ops[3].duration_seconds == gemm({2048, 1024, 8}));
  t = written(Pass::forward, [&](TemplateWriter& w) { a.block.row_forward(w, fc2); });
  CHECK(order(t) == "adapter gemm [AR] adapter gemm adapter gemm [AG] add");
  CHECK(t.ops[0].duration_seconds == gemm({2048, 8, 1024}));
  CHECK(t.ops[1].duration_seconds == moves(Collective::all_reduce, 2048 * 8 * 2));
  CHECK(t.ops[3].duration_seconds == gemm({2048, 256, 8}));
  CHECK(t.ops[4].duration_seconds == moves(Collective::all_gather, 2048 * 1024 * 2));
  t = written(Pass::backward, [&](TemplateWriter& w) { a.block.column_backward(w, fc1); });
  CHECK(order(t) ==
        "adapter gemm [AR] adapter gemm adapter gemm adapter gemm [AR] adapter gemm add");
  t = written(Pass::backward, [&](TemplateWriter& w) { a.block.row_backward(w, fc2); });
  CHECK(order(t) == "adapter gemm [AR] adapter gemm adapter gemm adapter gemm adapter gemm add");
}

TEST_CASE("sequence parallelism: the module's gather serves the adapter, userbuffers' does not") {
  const Gemm fc1{2048, 1024, 1024}, fc2{2048, 1024, 1024};
  const auto column = [&](const Scenario& s, bool back) {
    const Alone a(s);
    return order(written(Pass::forward, [&](TemplateWriter& w) {
      back ? a.block.column_backward(w, fc1) : a.block.column_forward(w, fc1);
    }));
  };
  const Scenario plain = adapted_tiny({.tp = 4, .sp = true});
  const Scenario under = adapted_tiny({.tp = 4, .sp = true, .tp_overlap = true});
  CHECK(column(plain, false) == "adapter gemm [AG] adapter gemm adapter gemm add");
  CHECK(column(under, false) == "[AG] adapter gemm [AG] adapter gemm adapter gemm add");
  CHECK(column(plain, true) ==
        "adapter gemm [AR] adapter gemm adapter gemm adapter gemm adapter gemm add");
  CHECK(column(under, true) ==
        "adapter gemm [AR] adapter gemm adapter gemm adapter gemm adapter gemm [RS] add");
  const Alone a(plain);
  CHECK(order(written(Pass::backward, [&](TemplateWriter& w) { a.block.row_backward(w, fc2); })) ==
        "[AG] adapter gemm [AR] adapter gemm adapter gemm adapter gemm adapter gemm add");
}

// Per layer, rank 32, hidden 1024, MLP 4096: qkv 1024 -> 3072, proj 1024 -> 1024, fc1 1024 -> 4096,
// fc2 4096 -> 1024.
TEST_CASE("law: gradients and optimizer state are of adapters alone, parameters of everything") {
  constexpr int64_t layer = 32 * (1024 + 3072 + 1024 + 1024 + 1024 + 4096 + 4096 + 1024);
  const Run run{.dp = 2, .layers = 3};
  const std::vector<std::string> sharded{"ddp.use_distributed_optimizer=true",
                                         "comm_overlap.overlap_grad_reduce=true"};
  const Scenario s = adapted_tiny(run, sharded);
  const LoweredStep step = lowered(s);
  REQUIRE(step.buckets.size() == 1);
  CHECK(step.buckets[0].elements == 3 * layer);
  CHECK(step.memory[0].gradients == 3.0 * layer * 4);
  CHECK(step.memory[0].optimizer == 3.0 * layer / 2 * 12);
  const DeviceMemory trained = lowered(tiny(run, sharded)).memory[0];
  // Padding of buckets apart.
  CHECK(step.memory[0].parameters - trained.parameters ==
        doctest::Approx(3.0 * layer * 2).epsilon(1e-3));
  // Split over TP there is a quarter of each.
  CHECK(optimizer_state(adapted_tiny({.tp = 4, .layers = 3})) ==
        optimizer_state(adapted_tiny({.layers = 3})) / 4);
  // One module of four.
  CHECK(optimizer_state(adapted_tiny({}, {"peft.target_modules=linear_fc2", "peft.dim=4"})) ==
        4 * (4096 + 1024) * 12.0);
}

TEST_CASE("law: FSDP gathers frozen weights as ever and reduces adapters only") {
  const std::vector<std::string> fsdp{"ddp.use_megatron_fsdp=true",
                                      "ddp.data_parallel_sharding_strategy=optim_grads_params"};
  const Run run{.dp = 4, .layers = 2};
  const auto of = [](const LoweredStep& step, OpKind op) {
    std::pair<int, double> found{0, 0};
    for (uint32_t t = 0; t < step.graph.task_count(); ++t)
      if (step.graph.streams[t] != no_stream && Label::unpack(step.graph.labels[t]).op == op)
        ++found.first, found.second += step.graph.durations_seconds[t];
    return found;
  };
  const LoweredStep frozen = lowered(adapted_tiny(run, fsdp)), trained = lowered(tiny(run, fsdp));
  CHECK(of(frozen, OpKind::dp_all_gather).first == of(trained, OpKind::dp_all_gather).first);
  CHECK(of(frozen, OpKind::dp_all_gather).second > of(trained, OpKind::dp_all_gather).second);
  CHECK(of(frozen, OpKind::dp_reduce_scatter).second <
        of(trained, OpKind::dp_reduce_scatter).second);
  // The embedding and the head have nothing to reduce: 2 of 4 units are left.
  CHECK(of(frozen, OpKind::dp_reduce_scatter).first * 2 ==
        of(trained, OpKind::dp_reduce_scatter).first);
}

// Wide enough for a weight gradient to take longer than an adapter.
TEST_CASE("law: a frozen step is shorter, its size is checked as it is run") {
  const std::vector<std::string> wide{"model.hidden_size=4096", "model.num_attention_heads=32"};
  for (const Run& r : {Run{.layers = 2}, Run{.tp = 2, .dp = 2, .layers = 2, .sp = true},
                       Run{.pp = 2, .vp = 2}, Run{.tp = 2, .cp = 2, .sp = true}}) {
    std::vector<std::string> words = wide;
    const Scenario trained = tiny(r, words);
    words.emplace_back("peft.target_modules=linear_qkv");
    const Scenario frozen = adapted_tiny(r, words);
    const auto seconds = [](const Scenario& s) {
      const LoweredStep step = lowered(s);
      return std::get<Timeline>(run(step.graph)).makespan_seconds;
    };
    CHECK(seconds(frozen) < seconds(trained));
    const DeviceMemory sized = inventory(frozen)[0].memory, ran = lowered(frozen).memory[0];
    CHECK(sized.activations == ran.activations);
    CHECK(sized.gradients == ran.gradients);
  }
}

// Transformer Engine pytorch/module/linear.py: without a weight gradient neither an input nor a
// gradient is written in the second layout.
TEST_CASE("frozen fp8 modules quantise into one layout") {
  const std::vector<std::string> fp8{"mixed_precision=bf16_with_fp8_current_scaling_mixed"};
  const Scenario s = adapted_tiny({}, fp8);
  CHECK(quantize_bytes(s.precision, Operand::input, true) ==
        quantize_bytes(s.precision, Operand::input) - 1);
  CHECK(quantize_bytes(s.precision, Operand::weight, true) ==
        quantize_bytes(s.precision, Operand::weight));
}
