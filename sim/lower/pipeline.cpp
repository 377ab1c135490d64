#include "sim/lower/pipeline.h"

#include <algorithm>

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

const StageChunk& PipelineWriter::stage_chunk(uint32_t, int chunk) const {
  return split_[static_cast<size_t>(chunk * s_.parallel.pp + stage_)];
}

bool PipelineWriter::quantised(int layer) const {
  return s_.precision.fp8 != Fp8Recipe::none && layer >= s_.precision.bf16_first_layers &&
         layer < s_.model.layers - s_.precision.bf16_last_layers;
}

bool PipelineWriter::recomputed(int layer_in_chunk) const {
  return s_.recompute == Recompute::full_uniform ||
         (s_.recompute == Recompute::full_block && layer_in_chunk < s_.recompute_layers);
}

void PipelineWriter::make_templates(uint32_t device) {
  const LayerTemplates make(s_,
                            {w_.placement(device, Meeting::tp), w_.placement(device, Meeting::cp)});
  templates_ = std::make_unique<Templates>();
  const Recompute light =
      s_.recompute == Recompute::core_attention ? Recompute::core_attention : Recompute::none;
  const bool cast = s_.precision.fp8 != Fp8Recipe::none && !s_.precision.fp8_param_gather;
  for (bool fp8 : {false, true}) {
    if (fp8 && s_.precision.fp8 == Fp8Recipe::none) continue;
    templates_->layer_forward[fp8][0] = make.layer_forward(fp8, false);
    templates_->layer_forward[fp8][1] = make.layer_forward(fp8, cast);
    templates_->layer_backward[fp8][0] = make.layer_backward(fp8, light);
    templates_->layer_backward[fp8][1] = make.layer_backward(fp8, Recompute::full_uniform);
  }
  templates_->embedding_forward = make.embedding_forward();
  templates_->embedding_backward = make.embedding_backward();
  templates_->head_forward = make.head_forward();
  templates_->head_backward = make.head_backward();
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

double PipelineWriter::chunk_activation_bytes(const StageChunk& chunk) const {
  const LayerSizes z = layer_sizes(s_);
  const double input = z.local_tokens * z.hidden * 2;
  double bytes = 0;
  for (int i = 0; i < chunk.layer_count; ++i)
    bytes += recomputed(i)
                 ? input / (s_.recompute == Recompute::full_uniform ? s_.recompute_layers : 1)
                 : layer_activation_bytes(s_, quantised(chunk.first_layer + i));
  if (chunk.head) bytes += 2 * input;
  return bytes;
}

void PipelineWriter::forward(uint32_t device, int chunk, int microbatch) {
  const StageChunk& c = stage_chunk(device, chunk);
  Label label{.op = OpKind::given,
              .pass = Pass::forward,
              .chunk = static_cast<uint8_t>(chunk),
              .part = 0,
              .layer = Label::no_layer,
              .microbatch = static_cast<uint16_t>(std::min(microbatch, 65534))};
  if (s_.costs) {
    w_.kernel(device,
              {s_.costs->forward_seconds[static_cast<size_t>(chunk * s_.parallel.pp + stage_)]},
              label);
    return;
  }
  const auto need = [&](int owner) {
    if (microbatch == 0) dp_->need(device, chunk, owner);
  };
  if (c.embedding) {
    need(0);
    w_.stamp(device, templates_->embedding_forward, label);
  }
  for (int i = 0; i < c.layer_count; ++i) {
    need(i + 1);
    label.layer = static_cast<uint16_t>(c.first_layer + i);
    w_.stamp(device, templates_->layer_forward[quantised(label.layer)][microbatch == 0], label);
  }
  if (c.head) {
    need(c.layer_count + 1);
    label.layer = Label::no_layer;
    w_.stamp(device, templates_->head_forward, label);
  }
}

void PipelineWriter::backward(uint32_t device, int chunk, int microbatch) {
  const StageChunk& c = stage_chunk(device, chunk);
  Label label{.op = OpKind::given,
              .pass = Pass::backward,
              .chunk = static_cast<uint8_t>(chunk),
              .part = 0,
              .layer = Label::no_layer,
              .microbatch = static_cast<uint16_t>(std::min(microbatch, 65534))};
  if (s_.costs) {
    w_.kernel(device,
              {s_.costs->backward_seconds[static_cast<size_t>(chunk * s_.parallel.pp + stage_)]},
              label);
    return;
  }
  const bool last = microbatch + 1 == s_.batch.microbatches;
  const auto ready = [&](int owner) {
    if (last) dp_->gradient_ready(device, chunk, owner);
  };
  if (c.head) {
    w_.stamp(device, templates_->head_backward, label);
    ready(c.layer_count + 1);
  }
  for (int i = c.layer_count; i-- > 0;) {
    label.layer = static_cast<uint16_t>(c.first_layer + i);
    w_.stamp(device, templates_->layer_backward[quantised(label.layer)][recomputed(i)], label);
    ready(i + 1);
  }
  if (c.embedding) {
    label.layer = Label::no_layer;
    w_.stamp(device, templates_->embedding_backward, label);
    ready(0);
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
  std::vector<double> bytes;
  for (int c = 0; c < s_.parallel.chunks(); ++c)
    bytes.push_back(s_.costs ? 0 : chunk_activation_bytes(stage_chunk(device, c)));
  int forwards = 0, backwards = 0;
  for (const Action& a : schedule_row(s_.schedule).program(shape_, stage_)) {
    switch (a.kind) {
      case ActionKind::forward: {
        if (dp_) dp_->before_forward(device, forwards);
        ++forwards;
        const TaskId before{w_.builder().task_count()};
        forward(device, a.chunk, a.microbatch);
        if (bytes[a.chunk] > 0) memory.push_back({before, bytes[a.chunk]});
        break;
      }
      case ActionKind::backward:
        backward(device, a.chunk, a.microbatch);
        if (bytes[a.chunk] > 0) memory.push_back({w_.compute_tail(device), -bytes[a.chunk]});
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
}

}  // namespace stepsim
