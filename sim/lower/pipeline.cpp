#include "sim/lower/pipeline.h"

#include <cassert>

#include "sim/lower/memory.h"

namespace stepsim {

PipelineWriter::PipelineWriter(const Scenario& scenario, const Mesh& mesh, const Folding& folding,
                               const std::vector<StageChunk>& split, StepWriter& writer,
                               DataParallelWriter* data_parallel)
    : s_(scenario),
      mesh_(mesh),
      folding_(folding),
      split_(split),
      w_(writer),
      dp_(data_parallel),
      shape_(schedule_shape(scenario, weight_memory(scenario))),
      pipeline_(scenario.parallel.pipeline()),
      programs_(schedule_row(scenario.schedule).programs(shape_)) {
  if (!dp_) return;
  bool halves = false;
  for (const Program& program : programs_)
    for (const Action& a : program) halves |= a.kind == ActionKind::backward_weight;
  chunks_ = std::make_unique<ChunkWriter>(s_, w_, *dp_, halves);
  if (s_.parallel.experts)
    load_ = routing_load(s_.moe_routing, s_.model.moe.experts, s_.parallel.ep, s_.model.moe.top_k);
}

double PipelineWriter::expert_load(uint32_t device) const {
  if (load_.by_rank.empty()) return 1;
  return load_.by_rank[static_cast<size_t>(expert_rank(s_.parallel, folding_.ranks[device]))];
}

const StageChunk& PipelineWriter::stage_chunk(int chunk) const {
  return split_[static_cast<size_t>(chunk * s_.parallel.pp + stage_)];
}

bool PipelineWriter::head_deferred(const StageChunk& chunk, int microbatch) const {
  return chunk.head && stepsim::head_deferred(s_, microbatch);
}

double PipelineWriter::given_seconds(const Action& a) const {
  const GivenCosts& given = *s_.costs;
  const auto at = static_cast<size_t>(pipeline_.virtual_stage({stage_, a.chunk}));
  if (a.overlapped && !given.forward_backward_seconds.empty()) {
    // The two of a block end together; each is drawn with its share of it.
    const auto other = static_cast<size_t>(pipeline_.virtual_stage({stage_, 1 - a.chunk}));
    const bool forward = a.kind == ActionKind::forward;
    const double block = given.forward_backward_seconds[forward ? at : other];
    const double f = given.forward_seconds[forward ? at : other],
                 b = given.backward_seconds[forward ? other : at];
    if (!(f + b > 0)) return forward ? block : 0;
    return block * (forward ? f : b) / (f + b);
  }
  switch (a.kind) {
    case ActionKind::forward:
      return given.forward_seconds[at];
    case ActionKind::backward_input:
      return given.backward_input_seconds[at];
    case ActionKind::backward_weight:
      return given.backward_weight_seconds[at];
    default:
      return given.backward_seconds[at];
  }
}

TaskId PipelineWriter::forward(uint32_t device, const Action& a) {
  const Label label = pass_label(Pass::forward, a.chunk, a.microbatch);
  w_.delay(device, w_.fault(device).delay_per_forward, label);
  if (chunks_) return chunks_->forward({stage_chunk(a.chunk), a.chunk}, a.microbatch);
  return w_.kernel(device, given_kernel({given_seconds(a) * w_.fault(device).slowdown}), label);
}

void PipelineWriter::backward(uint32_t device, const Action& a) {
  const Pass pass = a.kind == ActionKind::backward_input    ? Pass::backward_data
                    : a.kind == ActionKind::backward_weight ? Pass::backward_weight
                                                            : Pass::backward;
  const Label label = pass_label(pass, a.chunk, a.microbatch);
  if (a.kind != ActionKind::backward_weight)
    w_.delay(device, w_.fault(device).delay_per_backward, label);
  if (!chunks_) {
    w_.kernel(device, given_kernel({given_seconds(a) * w_.fault(device).slowdown}), label);
    return;
  }
  const DeviceChunk chunk{stage_chunk(a.chunk), a.chunk};
  if (a.kind == ActionKind::backward_weight) return chunks_->backward_weight(chunk, a.microbatch);
  chunks_->backward(chunk, a.microbatch, a.kind == ActionKind::backward_input);
}

TaskId PipelineWriter::forward_backward(uint32_t device, const Action& f, const Action& b) {
  const RankFault& fault = w_.fault(device);
  w_.delay(device, fault.delay_per_forward + fault.delay_per_backward,
           pass_label(Pass::forward, f.chunk, f.microbatch));
  return chunks_->forward_backward({stage_chunk(f.chunk), f.chunk}, f.microbatch,
                                   {stage_chunk(b.chunk), b.chunk}, b.microbatch);
}

void PipelineWriter::drain_head(uint32_t device, std::vector<MemoryEvent>& memory) {
  for (int chunk = 0; chunk < s_.parallel.chunks(); ++chunk) {
    const auto all = static_cast<int>(s_.batch.microbatches);
    const MicrobatchRange range = pipeline_.microbatches(chunk, all);
    for (int m = range.first; m <= range.last() && head_deferred(stage_chunk(chunk), m); ++m) {
      chunks_->head_weight_gradient({stage_chunk(chunk), chunk}, m);
      memory.push_back({w_.compute_tail(device), -deferred_head_bytes(s_)});
    }
  }
}

void PipelineWriter::message(uint32_t device, const Action& a) {
  const bool forward = a.kind == ActionKind::send_forward || a.kind == ActionKind::recv_forward ||
                       a.kind == ActionKind::wait_send_forward ||
                       a.kind == ActionKind::wait_recv_forward;
  const bool sends = a.kind == ActionKind::send_forward || a.kind == ActionKind::send_backward ||
                     a.kind == ActionKind::wait_send_forward ||
                     a.kind == ActionKind::wait_send_backward;
  MessageKey key{.forward = forward,
                 .to_next = pipeline_.to_next_rank(a.chunk, forward),
                 .chunk = a.chunk,
                 .microbatch = a.microbatch};
  if (sends) {
    const Place here{stage_, a.chunk};
    key.sender = device;
    key.receiver = key.to_next ? next_ : previous_;
    key.chunk = (forward ? pipeline_.next(here) : pipeline_.previous(here))->chunk;
  } else {
    key.receiver = device;
    key.sender = key.to_next ? previous_ : next_;
  }
  const bool asynchronous = shape_.style == P2pStyle::asynchronous;
  switch (a.kind) {
    case ActionKind::send_forward:
    case ActionKind::send_backward:
      w_.post_send(key, asynchronous);
      break;
    case ActionKind::recv_forward:
    case ActionKind::recv_backward:
      if (!asynchronous) w_.post_receive(key);
      break;
    default:
      w_.wait(device, w_.transfer(key));
  }
}

void PipelineWriter::write(uint32_t device, std::vector<MemoryEvent>& memory) {
  stage_ = mesh_.coordinates(folding_.ranks[device]).pp;
  next_ = neighbour(mesh_, folding_, device, 1);
  previous_ = neighbour(mesh_, folding_, device, -1);
  if (chunks_) chunks_->begin(device, expert_load(device));
  std::vector<Kept> kept;
  for (int c = 0; c < s_.parallel.chunks(); ++c)
    kept.push_back(s_.costs ? Kept{} : kept_by(s_, stage_chunk(c)));
  int forwards = 0, backwards = 0;
  const Program& program = programs_[static_cast<size_t>(stage_)];
  /// The forward at i and the backward behind it run layer by layer, as one.
  const auto merges = [&](size_t i) {
    if (!chunks_ || i + 1 >= program.size()) return false;
    const Action &f = program[i], &b = program[i + 1];
    return (shape_.combined || f.overlapped) && f.kind == ActionKind::forward &&
           b.kind == ActionKind::backward && (f.microbatch != b.microbatch || f.chunk != b.chunk);
  };
  for (size_t i = 0; i < program.size(); ++i) {
    const Action& a = program[i];
    const Kept& k = kept[a.chunk];
    switch (a.kind) {
      case ActionKind::forward: {
        if (dp_) dp_->before_forward(device, forwards);
        if (forwards == 0)
          w_.delay(device, w_.fault(device).delay_per_step,
                   pass_label(Pass::forward, a.chunk, a.microbatch));
        ++forwards;
        const TaskId first =
            merges(i) ? forward_backward(device, a, program[i + 1]) : forward(device, a);
        if (k.activations > 0) memory.push_back({first, k.activations, k.logits});
        break;
      }
      case ActionKind::backward:
      case ActionKind::backward_input:
      case ActionKind::backward_weight: {
        if (i == 0 || !merges(i - 1)) backward(device, a);
        if (a.kind == ActionKind::backward_input) {  // the rest stays for the other half
          if (k.input_half > 0) memory.push_back({w_.compute_tail(device), -k.input_half});
          break;
        }
        if (k.activations > 0) {
          const double rest = a.kind == ActionKind::backward_weight ? k.input_half : 0;
          memory.push_back({w_.compute_tail(device), rest - k.activations, -k.logits});
        }
        if (!s_.costs && head_deferred(stage_chunk(a.chunk), a.microbatch))
          memory.push_back({w_.compute_tail(device), deferred_head_bytes(s_)});
        if (dp_) dp_->after_backward(device, backwards);
        ++backwards;
        break;
      }
      case ActionKind::sync:
        w_.device_sync(device, {.op = OpKind::sync,
                                .pass = Pass::step,
                                .chunk = 0,
                                .part = 0,
                                .layer = Label::no_layer,
                                .microbatch = Label::no_microbatch});
        break;
      default:
        message(device, a);
    }
  }
  if (!s_.costs) drain_head(device, memory);
}

}  // namespace stepsim
