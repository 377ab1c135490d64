#include "sim/lower/pipeline.h"

#include <algorithm>

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
      shape_(schedule_shape(scenario)) {}

const StageChunk& PipelineWriter::stage_chunk(int chunk) const {
  return split_[static_cast<size_t>(chunk * s_.parallel.pp + stage_)];
}

bool PipelineWriter::head_deferred(const StageChunk& chunk, int microbatch) const {
  return chunk.head && stepsim::head_deferred(s_, microbatch);
}

void PipelineWriter::make_templates(uint32_t device) {
  const LayerTemplates make(s_,
                            {w_.placement(device, Meeting::tp), w_.placement(device, Meeting::cp)},
                            w_.fault(device).slowdown);
  templates_ = std::make_unique<Templates>();
  const bool cast = s_.precision.fp8 != Fp8Recipe::none && !s_.precision.fp8_param_gather;
  for (bool fp8 : {false, true}) {
    if (fp8 && s_.precision.fp8 == Fp8Recipe::none) continue;
    templates_->layer_forward[fp8][0] = make.layer_forward(fp8, false);
    templates_->layer_forward[fp8][1] = make.layer_forward(fp8, cast);
    for (bool again : {false, true})
      templates_->layer_backward[fp8][again] = make.layer_backward(fp8, again);
  }
  templates_->embedding_forward = make.embedding_forward();
  templates_->embedding_backward = make.embedding_backward();
  templates_->head_forward = make.head_forward();
  for (bool deferred : {false, true})
    templates_->head_backward[deferred] = make.head_backward(deferred);
  templates_->head_weight_gradient = make.head_weight_gradient();
}

void PipelineWriter::reserve() {
  // Decoder layers are nearly all of a graph; a twentieth more covers the ends, the messages and
  // the optimizer.
  const bool fp8 = s_.precision.fp8 != Fp8Recipe::none;
  const bool full = s_.recompute == Recompute::full_uniform;
  double tasks = 2, edges = 2, starts = 0;
  for (const Template* t :
       {&templates_->layer_forward[fp8][0], &templates_->layer_backward[fp8][full]}) {
    for (const TemplateOp& op : t->ops) {
      ++tasks, ++edges;
      for (int32_t a : op.after) edges += a != TemplateOp::none;
      starts += op.launch_edge;
    }
  }
  const double stamps = 1.05 * s_.model.layers * static_cast<double>(s_.batch.microbatches) *
                        static_cast<double>(w_.device_count()) / s_.parallel.pp;
  w_.builder().reserve(static_cast<size_t>(stamps * tasks), static_cast<size_t>(stamps * edges),
                       static_cast<size_t>(stamps * starts));
}

namespace {
Label computation(Pass pass, int chunk, int microbatch) {
  return {.op = OpKind::given,
          .pass = pass,
          .chunk = static_cast<uint8_t>(chunk),
          .part = 0,
          .layer = Label::no_layer,
          .microbatch = saturated_microbatch(microbatch)};
}
}  // namespace

TaskId PipelineWriter::forward(uint32_t device, int chunk, int microbatch) {
  const StageChunk& c = stage_chunk(chunk);
  Label label = computation(Pass::forward, chunk, microbatch);
  w_.delay(device, w_.fault(device).delay_per_forward, label);
  if (s_.costs) {
    const auto stage = static_cast<size_t>(chunk * s_.parallel.pp + stage_);
    return w_.kernel(device,
                     given_kernel({s_.costs->forward_seconds[stage] * w_.fault(device).slowdown}),
                     label);
  }
  TaskId first = no_task;
  const auto stamp = [&](int owner, const Template& t) {
    if (microbatch == 0) dp_->need(device, chunk, owner);
    const TaskId kernel = w_.stamp(device, t, label);
    if (first == no_task) first = kernel;
  };
  if (c.embedding) stamp(0, templates_->embedding_forward);
  for (int i = 0; i < c.layer_count; ++i) {
    label.layer = static_cast<uint16_t>(c.first_layer + i);
    stamp(i + 1, templates_->layer_forward[quantised(s_, label.layer)][microbatch == 0]);
  }
  label.layer = Label::no_layer;
  if (c.head) stamp(c.layer_count + 1, templates_->head_forward);
  return first;
}

void PipelineWriter::backward(uint32_t device, int chunk, int microbatch) {
  const StageChunk& c = stage_chunk(chunk);
  Label label = computation(Pass::backward, chunk, microbatch);
  w_.delay(device, w_.fault(device).delay_per_backward, label);
  if (s_.costs) {
    const auto stage = static_cast<size_t>(chunk * s_.parallel.pp + stage_);
    w_.kernel(device, given_kernel({s_.costs->backward_seconds[stage] * w_.fault(device).slowdown}),
              label);
    return;
  }
  const bool last = microbatch + 1 == s_.batch.microbatches;
  const auto ready = [&](int owner) {
    if (last) dp_->gradient_ready(device, chunk, owner);
  };
  if (c.head) {
    w_.stamp(device, templates_->head_backward[head_deferred(c, microbatch)], label);
    ready(c.layer_count + 1);
  }
  for (int i = c.layer_count; i-- > 0;) {
    label.layer = static_cast<uint16_t>(c.first_layer + i);
    w_.stamp(device, templates_->layer_backward[quantised(s_, label.layer)][recomputed(s_, i)],
             label);
    ready(i + 1);
  }
  if (c.embedding) {
    label.layer = Label::no_layer;
    w_.stamp(device, templates_->embedding_backward, label);
    ready(0);
  }
}

void PipelineWriter::drain_head(uint32_t device, std::vector<MemoryEvent>& memory) {
  const int chunk = s_.parallel.chunks() - 1;
  for (int m = 0; m < s_.batch.microbatches && head_deferred(stage_chunk(chunk), m); ++m) {
    w_.stamp(device, templates_->head_weight_gradient,
             computation(Pass::backward_weight, chunk, m));
    memory.push_back({w_.compute_tail(device), -deferred_head_bytes(s_)});
  }
}

void PipelineWriter::message(uint32_t device, const Action& a) {
  const int ranks = s_.parallel.pp;
  const bool forward = a.kind == ActionKind::send_forward || a.kind == ActionKind::recv_forward ||
                       a.kind == ActionKind::wait_send_forward ||
                       a.kind == ActionKind::wait_recv_forward;
  const bool sends = a.kind == ActionKind::send_forward || a.kind == ActionKind::send_backward ||
                     a.kind == ActionKind::wait_send_forward ||
                     a.kind == ActionKind::wait_send_backward;
  MessageKey key{.forward = forward, .chunk = a.chunk, .microbatch = a.microbatch};
  if (sends) {
    key.sender = device;
    key.receiver = forward ? next_ : previous_;
    if (forward && stage_ == ranks - 1) ++key.chunk;
    if (!forward && stage_ == 0) --key.chunk;
  } else {
    key.receiver = device;
    key.sender = forward ? previous_ : next_;
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
  if (!s_.costs) {
    const bool first = !templates_;
    make_templates(device);
    if (first) reserve();
  }
  std::vector<Kept> kept;
  for (int c = 0; c < s_.parallel.chunks(); ++c)
    kept.push_back(s_.costs ? Kept{} : kept_by(s_, stage_chunk(c)));
  int forwards = 0, backwards = 0;
  for (const Action& a : schedule_row(s_.schedule).program(shape_, stage_)) {
    const Kept& k = kept[a.chunk];
    switch (a.kind) {
      case ActionKind::forward: {
        if (dp_) dp_->before_forward(device, forwards);
        if (forwards == 0)
          w_.delay(device, w_.fault(device).delay_per_step,
                   computation(Pass::forward, a.chunk, a.microbatch));
        ++forwards;
        const TaskId first = forward(device, a.chunk, a.microbatch);
        if (k.activations > 0) memory.push_back({first, k.activations, k.logits});
        break;
      }
      case ActionKind::backward:
        backward(device, a.chunk, a.microbatch);
        if (k.activations > 0)
          memory.push_back({w_.compute_tail(device), -k.activations, -k.logits});
        if (!s_.costs && head_deferred(stage_chunk(a.chunk), a.microbatch))
          memory.push_back({w_.compute_tail(device), deferred_head_bytes(s_)});
        if (dp_) dp_->after_backward(device, backwards);
        ++backwards;
        break;
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
