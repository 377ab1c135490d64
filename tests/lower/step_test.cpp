// A whole step: what the schedule keeps in memory, where buckets are, when gradients are reduced.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "sim/parallel/schedule.h"
#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// Most microbatch-chunks alive at once on a device, in schedule order.
int most_in_flight(const std::vector<MemoryEvent>& events) {
  int live = 0, most = 0;
  for (const MemoryEvent& e : events) most = std::max(most, live += e.bytes > 0 ? 1 : -1);
  CHECK(live == 0);
  return most;
}

/// A task of the step with what it is.
struct Found {
  uint32_t task;
  uint32_t device;
  Label label;
};
template <class Predicate>
std::vector<Found> tasks(const LoweredStep& step, Predicate keep) {
  std::vector<Found> found;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    if (step.graph.streams[t] == no_stream) continue;
    const Found f{t, device_of(step.graph.streams[t]), Label::unpack(step.graph.labels[t])};
    if (keep(f)) found.push_back(f);
  }
  return found;
}

bool is_reduction(const Label& l) {
  return l.op == OpKind::dp_reduce_scatter || l.op == OpKind::dp_all_reduce;
}

/// Backward virtual steps (microbatch, chunk) that device `d` begins before task `limit`.
int backwards_before(const LoweredStep& step, uint32_t d, uint32_t limit) {
  std::set<std::pair<int, int>> seen;
  for (const Found& f : tasks(step, [&](const Found& x) {
         return x.device == d && x.task < limit && x.label.microbatch != Label::no_microbatch &&
                (x.label.pass == Pass::backward || x.label.pass == Pass::backward_data ||
                 x.label.pass == Pass::backward_weight) &&
                row(x.label.op).task_class == TaskClass::compute;
       }))
    seen.insert({f.label.microbatch, f.label.chunk});
  return static_cast<int>(seen.size());
}

const std::vector<std::string> overlapped{"ddp.use_distributed_optimizer=true",
                                          "ddp.overlap_grad_reduce=true",
                                          "ddp.overlap_param_gather=true"};

}  // namespace

// Narayanan et al. 2021, section 2.2.1: stage p keeps the activations of at most P-p microbatches.
TEST_CASE("law: 1F1B keeps min(P-p, M) microbatches in flight on stage p, GPipe keeps M") {
  for (int p : {2, 3, 4, 8})
    for (int m : {1, 2, 3, 5, 8, 12}) {
      CAPTURE(p);
      CAPTURE(m);
      const LoweredStep step = lowered(tiny({.pp = p, .microbatches = m}));
      for (int stage = 0; stage < p; ++stage)
        CHECK(most_in_flight(step.memory_events[static_cast<size_t>(stage)]) ==
              std::min(p - stage, m));
      const LoweredStep all =
          lowered(tiny({.pp = p, .microbatches = m}, {"pipeline.schedule=gpipe"}));
      for (const auto& events : all.memory_events) CHECK(most_in_flight(events) == m);
    }
}

// Megatron-Core schedules.py: warm-up 2(P-1-p) + (VP-1)N forwards, then one forward more before
// each backward.
TEST_CASE("law: interleaved 1F1B keeps its warm-up and one chunk more in flight") {
  for (int p : {2, 3, 4})
    for (int v : {2, 3})
      for (int groups : {1, 2, 4}) {
        const Scenario s = tiny({.pp = p, .vp = v, .microbatches = groups * p});
        const LoweredStep step = lowered(s);
        for (int stage = 0; stage < p; ++stage) {
          CAPTURE(p);
          CAPTURE(v);
          CAPTURE(groups);
          CAPTURE(stage);
          const int warmup = 2 * (p - 1 - stage) + (v - 1) * p;
          CHECK(most_in_flight(step.memory_events[static_cast<size_t>(stage)]) ==
                std::min(warmup + 1, groups * p * v));
        }
      }
}

TEST_CASE(
    "activations peak at microbatches in flight times what one keeps; recompute keeps the layer's "
    "input") {
  // Middle stage of 3, two layers each: 2 in flight. 2048 x 1024 words of 2 bytes an input.
  const double input = 2048.0 * 1024 * 2;
  const LoweredStep full =
      lowered(tiny({.pp = 3, .microbatches = 6, .layers = 2},
                   {"model.recompute_granularity=full", "model.recompute_method=uniform",
                    "model.recompute_num_layers=1"}));
  const std::vector<MemoryEvent>& events = full.memory_events[1];
  CHECK(events.front().bytes == 2 * input);
  const LoweredStep kept = lowered(tiny({.pp = 3, .microbatches = 6, .layers = 2}));
  // Per layer 32 sbh and 4 bytes a head and token (tests/cost/model_test.cpp), two layers, two
  // microbatches.
  const double layer = 2048.0 * 1024 * 32 + 2048 * 16 * 4.0;
  CHECK(kept.memory[1].activations == 2 * 2 * layer);
  CHECK(kept.memory[0].activations == 3 * 2 * layer);
  // Recompute: the inputs of both, and one layer at a time in full.
  CHECK(full.memory[1].activations == 2 * 2 * input + layer);
}

TEST_CASE("memory events pair up: allocated by a forward, freed by its backward") {
  const LoweredStep step = lowered(tiny({.pp = 2, .vp = 2, .microbatches = 4}));
  for (const auto& events : step.memory_events) {
    double live = 0;
    for (const MemoryEvent& e : events) {
      CHECK(index(e.task) < step.graph.task_count());
      live += e.bytes;
      CHECK(live >= 0);
    }
    CHECK(live == 0);
    CHECK(events.size() == 2 * 4 * 2);
  }
}

// Megatron-Core ddp.py: `disable_bucketing` on every pipeline rank but the first and every chunk
// but the first.
TEST_CASE("many buckets exist only on pipeline rank 0, chunk 0") {
  std::vector<std::string> words = overlapped;
  words.push_back("ddp.bucket_size=5000000");
  const LoweredStep step = lowered(tiny({.dp = 2, .pp = 2, .vp = 2, .layers = 3}, words));
  REQUIRE(step.buckets.size() == 4);
  for (const BucketRow& b : step.buckets) {
    if (b.stage == 0 && b.chunk == 0)
      CHECK(b.count > 1);
    else
      CHECK(b.count == 1);
  }
  // Without overlap there is one each.
  for (const BucketRow& b : lowered(tiny({.dp = 2, .pp = 2, .vp = 2, .layers = 3})).buckets)
    CHECK(b.count == 1);
}

TEST_CASE("law: every bucket is reduced and gathered exactly once a step") {
  for (bool overlap : {false, true})
    for (const Run& r :
         {Run{.dp = 4}, Run{.cp = 2, .dp = 2}, Run{.dp = 2, .pp = 2},
          Run{.dp = 2, .pp = 2, .vp = 2}, Run{.dp = 2, .pp = 4, .vp = 3, .microbatches = 8}}) {
      std::vector<std::string> words{"ddp.use_distributed_optimizer=true",
                                     "ddp.bucket_size=3000000"};
      if (overlap) words = overlapped, words.push_back("ddp.bucket_size=3000000");
      const LoweredStep step = lowered(tiny(r, words));
      for (OpKind op : {OpKind::dp_reduce_scatter, OpKind::dp_all_gather}) {
        std::map<std::tuple<uint32_t, int, int>, int> times;
        for (const Found& f : tasks(step, [&](const Found& x) { return x.label.op == op; }))
          ++times[{f.device, f.label.chunk, f.label.part}];
        size_t expected = 0;
        for (const BucketRow& b : step.buckets) expected += static_cast<size_t>(b.count);
        CHECK(times.size() == expected);
        for (const auto& [key, n] : times) CHECK(n == 1);
      }
    }
}

TEST_CASE("without data-parallel peers nothing is reduced or gathered") {
  const LoweredStep step = lowered(tiny({.tp = 2, .pp = 2}, overlapped));
  CHECK(tasks(step, [](const Found& f) {
          return is_reduction(f.label) || f.label.op == OpKind::dp_all_gather;
        }).empty());
  // The norm is reduced over the world nevertheless.
  CHECK(tasks(step, [](const Found& f) { return f.label.op == OpKind::norm_all_reduce; }).size() ==
        2);
}

// Megatron-Core schedules.py, align_grad_reduce: rank p's grad_sync comes p virtual steps after its
// last microbatch.
TEST_CASE(
    "interleaved: rank p reduces a chunk p backward steps after the chunk's last microbatch") {
  for (int p : {2, 4})
    for (int v : {2, 3}) {
      const int m = 2 * p, total = m * v;
      const LoweredStep step =
          lowered(tiny({.dp = 2, .pp = p, .vp = v, .microbatches = m}, overlapped));
      const std::vector<VirtualStep> order = interleaved_order(v, m, p);
      for (const Found& f : tasks(step, [](const Found& x) { return is_reduction(x.label); })) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(f.device);
        CAPTURE(int{f.label.chunk});
        int last = 0;  // the virtual step that is this chunk's backward of the last microbatch
        for (int k = 0; k < total; ++k)
          if (order[static_cast<size_t>(k)] == VirtualStep{m - 1, v - 1 - f.label.chunk}) last = k;
        const int stage = step.devices[f.device].stage;
        CHECK(backwards_before(step, f.device, f.task) == std::min(last + stage + 1, total));
      }
    }
}

TEST_CASE("plain 1F1B: only the first stage reduces inside its last backward") {
  std::vector<std::string> words = overlapped;
  words.push_back("ddp.bucket_size=3000000");
  const LoweredStep step = lowered(tiny({.dp = 2, .pp = 3, .microbatches = 4, .layers = 3}, words));
  for (uint32_t d = 0; d < 3; ++d) {
    uint32_t last_backward = 0, first_reduction = UINT32_MAX;
    for (const Found& f : tasks(step, [&](const Found& x) { return x.device == d; })) {
      if (f.label.pass == Pass::backward || f.label.pass == Pass::backward_weight)
        if (row(f.label.op).task_class == TaskClass::compute)
          last_backward = std::max(last_backward, f.task);
      if (is_reduction(f.label)) first_reduction = std::min(first_reduction, f.task);
    }
    CHECK((first_reduction < last_backward) == (d == 0));
    // And never before the last microbatch's backward has begun.
    CHECK(backwards_before(step, d, first_reduction) == 4);
  }
}

TEST_CASE("each microbatch crosses each stage boundary once each way") {
  const int p = 3, v = 2, m = 6;
  const LoweredStep step = lowered(tiny({.pp = p, .vp = v, .microbatches = m}));
  std::map<OpKind, int> messages;
  for (const Found& f :
       tasks(step, [](const Found& x) { return row(x.label.op).comm == CommClass::pp; }))
    ++messages[f.label.op];
  CHECK(messages[OpKind::pp_forward] == m * (p * v - 1));
  CHECK(messages[OpKind::pp_backward] == m * (p * v - 1));
}

// Megatron-Core recompute: `block` recomputes a layer at a time, `uniform` a block of layers; the
// last block of a chunk may be shorter.
TEST_CASE("recompute holds one unit in full: a layer of block, a block of uniform") {
  const double input = 2048.0 * 1024 * 2, layer = 2048.0 * 1024 * 32 + 2048 * 16 * 4.0;
  const auto activations = [&](const char* method, const char* n) {
    return lowered(tiny({.pp = 3, .microbatches = 6, .layers = 5},
                        {"model.recompute_granularity=full",
                         std::string("model.recompute_method=") + method,
                         std::string("model.recompute_num_layers=") + n}))
        .memory[1]
        .activations;
  };
  // Middle stage of 3: two microbatches in flight, five layers each.
  CHECK(activations("uniform", "2") == 2 * 3 * input + 2 * layer);
  CHECK(activations("uniform", "64") == 2 * input + 5 * layer);
  CHECK(activations("block", "2") == 2 * (2 * input + 3 * layer) + layer);
  CHECK(activations("block", "64") == 2 * 5 * input + layer);
}

// Kept without its inside (tests/cost/model_test.cpp: 18 of 32 sbh), which one layer at a time has.
TEST_CASE("MLP recompute holds the inside of one MLP") {
  const double sbh = 2048.0 * 1024, layer = sbh * 32 + 2048 * 16 * 4.0, mlp = sbh * 18;
  const auto activations = [](const char* modules) {
    return lowered(tiny({.pp = 3, .microbatches = 6, .layers = 5},
                        {"model.recompute_granularity=selective",
                         std::string("model.recompute_modules=") + modules}))
        .memory[1]
        .activations;
  };
  // Middle stage of 3: two microbatches in flight, five layers each.
  CHECK(activations("[mlp]") == 2 * 5 * (layer - mlp) + mlp);
  CHECK(activations("[mlp,core_attn,layernorm]") == activations("[mlp]"));
  CHECK(activations("[core_attn]") == 2 * 5 * layer);  // fused: no scores
}

TEST_CASE("GPipe keeps the logits of every microbatch, 1F1B those of one") {
  const double logits = 2048.0 * 32000 * 6;  // 16-bit logits and an fp32 softmax
  CHECK(lowered(tiny({.pp = 2, .microbatches = 4})).memory[1].logits == logits);
  CHECK(lowered(tiny({.pp = 2, .microbatches = 4}, {"pipeline.schedule=gpipe"})).memory[1].logits ==
        4 * logits);
}

TEST_CASE("a chunk's activations appear with its first kernel, not with its launch") {
  const LoweredStep step = lowered(tiny({.pp = 2, .microbatches = 2}));
  for (const auto& events : step.memory_events)
    for (const MemoryEvent& e : events)
      CHECK(stream_of(step.graph.streams[index(e.task)]) == Stream::compute);
}

// Transformer Engine keeps fp8 copies of linear weights only; everything else is gathered in 16
// bit.
TEST_CASE("fp8 parameters are gathered at one byte where they are fp8") {
  // One bucket each: the start of a collective is paid once.
  const std::string sharded = "ddp.use_distributed_optimizer=true";
  const auto gathered = [](const LoweredStep& step, uint32_t device) {
    double bytes = 0;
    for (const Found& f : tasks(step, [&](const Found& x) {
           return x.device == device && x.label.op == OpKind::dp_all_gather;
         }))
      bytes += step.graph.durations_seconds[f.task];
    return bytes;
  };
  // One layer of 12 h^2 weights between an embedding and a head of 32000 h: the ends dominate, so
  // the gather is nowhere near half of the 16-bit one's.
  const LoweredStep fp8 =
      lowered(tiny({.dp = 8}, {sharded, "mixed_precision=bf16_with_fp8_delayed_scaling_mixed"}));
  const LoweredStep bf16 = lowered(tiny({.dp = 8}, {sharded}));
  const double weights = 12.0 * 1024 * 1024, ends = 2 * 32000.0 * 1024;
  const double expected = (weights + 2 * ends) / (2 * weights + 2 * ends);
  CHECK(gathered(fp8, 0) / gathered(bf16, 0) == doctest::Approx(expected).epsilon(0.01));
}

// What the host does between steps delays the device even when one graph launches everything else.
TEST_CASE("the step's host work comes before its first kernel, captured or not") {
  for (const char* graphs : {"none", "full_iteration"}) {
    Scenario s = tiny({}, {std::string("model.cuda_graph_impl=") + graphs});
    s.cluster.stack.step_overhead = {1.0};
    const LoweredStep step = lowered(s);
    const auto timeline = std::get<Timeline>(run(step.graph, {}));
    double first = 1e9;
    for (const Found& f : tasks(step, [](const Found& x) {
           return row(x.label.op).task_class == TaskClass::compute ||
                  row(x.label.op).task_class == TaskClass::optimizer;
         }))
      first = std::min(first, timeline.start_seconds[f.task]);
    CHECK(first >= 1.0);
  }
}

// A blocking exchange is waited for before the next one is posted, although no kernel runs between:
// the middle of three ranks sends its warm-up forward and then asks for the next.
TEST_CASE("blocking p2p without batching: an exchange is posted after the one before has moved") {
  const LoweredStep step =
      lowered(tiny({.pp = 3, .microbatches = 4},
                   {"model.batch_p2p_comm=false", "model.overlap_p2p_comm=false"}));
  const auto timeline = std::get<Timeline>(run(step.graph, {}));
  double sent = 0, asked = 0;
  for (const RendezvousMember& m : step.members) {
    const Label l = Label::unpack(step.graph.labels[index(m.transfer)]);
    if (device_of(m.stream) != 1 || m.arrival == no_task || l.op != OpKind::pp_forward) continue;
    if (stream_of(m.stream) == Stream::pp_send_next && l.microbatch == 0)
      sent = timeline.finish_seconds[index(m.transfer)];
    if (stream_of(m.stream) == Stream::pp_recv_prev && l.microbatch == 1)
      asked = timeline.start_seconds[index(m.arrival)];
  }
  CHECK(sent > 0);
  CHECK(asked >= sent);
}
