#include "sim/lower/chunk.h"

#include <algorithm>

#include "sim/lower/memory.h"

namespace stepsim {

Label pass_label(Pass pass, int chunk, int microbatch) {
  return {.op = OpKind::given,
          .pass = pass,
          .chunk = static_cast<uint8_t>(chunk),
          .part = 0,
          .layer = Label::no_layer,
          .microbatch = saturated_microbatch(microbatch)};
}

ChunkWriter::ChunkWriter(const Scenario& scenario, StepWriter& writer,
                         DataParallelWriter& data_parallel, bool halves)
    : s_(scenario),
      w_(writer),
      dp_(data_parallel),
      offload_(scenario, writer),
      module_offload_(scenario, writer),
      templates_(writer.device_count()),
      of_layer_(static_cast<size_t>(scenario.model.layers)),
      halves_(halves) {}

void ChunkWriter::begin(uint32_t device, double expert_load) {
  device_ = device;
  const auto at = [&](Meeting m) { return w_.placement(device, m); };
  make_ = std::make_unique<LayerTemplates>(
      s_,
      LayerGroups{at(Meeting::tp), at(Meeting::cp), at(Meeting::ep), at(Meeting::etp),
                  at(Meeting::etp_ep), at(Meeting::cp_inner), at(Meeting::cp_outer), expert_load},
      w_.fault(device).slowdown);
  const LayerTemplates& make = *make_;
  const bool first = now_ == nullptr;
  templates_[device] = std::make_unique<Templates>();
  Templates& t = *templates_[device];
  now_ = &t;
  const bool cast = casts_weights(s_.precision);
  for (int layer = 0; layer < s_.model.layers; ++layer) {
    const LayerKind kind = layer_kind(s_, layer);
    const auto [found, added] = t.layers.try_emplace(kind);
    of_layer_[static_cast<size_t>(layer)] = &found->second;
    if (!added) continue;
    found->second.forward[0] = make.layer_forward(kind, false);
    found->second.forward[1] = make.layer_forward(kind, cast && kind.fp8);
    for (bool again : {false, true}) {
      found->second.backward[again] = make.layer_backward(kind, again);
      if (!halves_) continue;
      found->second.backward_input[again] = make.layer_backward_input(kind, again);
      found->second.backward_weight[again] = make.layer_backward_weight(kind, again);
    }
  }
  if (s_.model.mtp_layers > 0) {
    const std::vector<LayerKind> kinds = prediction_kinds(s_);
    for (bool later : {false, true}) {
      t.prediction.forward[later] = make.prediction_forward(kinds, later && cast);
      t.prediction.backward[later] = make.prediction_backward(kinds, later);
    }
  }
  t.embedding_forward = make.embedding_forward();
  t.embedding_backward = make.embedding_backward();
  t.head_forward = make.head_forward();
  for (bool deferred : {false, true}) t.head_backward[deferred] = make.head_backward(deferred);
  t.head_weight_gradient = make.head_weight_gradient();
  if (first) reserve();
}

void ChunkWriter::reserve() {
  // Decoder layers are nearly all of a graph; a fifth more covers the ends, the messages and the
  // optimizer. Room that is not used costs nothing, growing copies everything.
  const bool full = s_.recompute == Recompute::full_uniform;
  double tasks = 0, edges = 0, starts = 0;
  for (const LayerSet* layer : of_layer_) {
    for (const Template* t : {&layer->forward[0], &layer->backward[full]}) {
      tasks += static_cast<double>(t->segments.size()), ++edges;
      for (const TemplateOp& op : t->ops) {
        ++tasks, ++edges;
        for (int32_t a : op.after) edges += a != TemplateOp::none;
        starts += op.launch_edge + !op.captured;  // behind its launch, and in the launch queue
      }
    }
  }
  const double stamps = 1.2 * static_cast<double>(s_.batch.microbatches) *
                        static_cast<double>(w_.device_count()) / s_.parallel.pp;
  w_.builder().reserve(static_cast<size_t>(stamps * tasks), static_cast<size_t>(stamps * edges),
                       static_cast<size_t>(stamps * starts));
}

/// Of those that this chunk runs, the first; with two pipelines each chunk runs half of them.
bool ChunkWriter::is_first(DeviceChunk chunk, int microbatch) const {
  const auto all = static_cast<int>(s_.batch.microbatches);
  return microbatch == s_.parallel.pipeline().microbatches(chunk.number, all).first;
}

/// A microbatch's place among those that its chunk runs, as data parallelism counts them: 0 is the
/// first of a step, microbatches - 1 the last.
int ChunkWriter::place(DeviceChunk chunk, int microbatch) const {
  const auto all = static_cast<int>(s_.batch.microbatches);
  const auto own = s_.parallel.pipeline().microbatches(chunk.number, all);
  return microbatch == own.last() ? all - 1 : microbatch - own.first;
}

void ChunkWriter::need(DeviceChunk chunk, Visit visit, int owner) {
  visit.microbatch = place(chunk, visit.microbatch);
  dp_.need(device_, chunk.number, owner, visit);
}

void ChunkWriter::ready(DeviceChunk chunk, int microbatch, int owner) {
  dp_.gradient_ready(device_, chunk.number, owner, place(chunk, microbatch));
}

void ChunkWriter::forward_unit(DeviceChunk chunk, int microbatch, int owner, TaskId& first) {
  const StageChunk& c = chunk.layers;
  Label label = pass_label(Pass::forward, chunk.number, microbatch);
  const Template* t = &now_->embedding_forward;
  if (owner > c.layer_count) {
    t = &now_->head_forward;
  } else if (owner > 0) {
    label.layer = static_cast<uint16_t>(c.first_layer + owner - 1);
    t = &set(label.layer).forward[is_first(chunk, microbatch)];
  }
  need(chunk, {.forward = true, .microbatch = microbatch}, owner);
  const TaskId kernel = w_.stamp(device_, *t, label);
  if (first == no_task) first = kernel;
  if (owner > 0 && owner <= c.layer_count) {
    offload_.after_forward(device_, c, owner - 1, label);
    module_offload_.after_forward(device_, c, owner - 1, label);
  }
}

void ChunkWriter::backward_unit(DeviceChunk chunk, int microbatch, int owner, bool input_only) {
  const StageChunk& c = chunk.layers;
  Label label = pass_label(Pass::backward, chunk.number, microbatch);
  const Template* t = &now_->embedding_backward;
  if (owner > c.layer_count) {
    t = &now_->head_backward[input_only || head_deferred(s_, microbatch)];
  } else if (owner > 0) {
    label.layer = static_cast<uint16_t>(c.first_layer + owner - 1);
    const bool again = recomputed(s_, owner - 1);
    offload_.before_backward(device_, c, owner - 1, label);
    module_offload_.before_backward(device_, c, owner - 1, label);
    t = input_only ? &set(label.layer).backward_input[again] : &set(label.layer).backward[again];
  }
  need(chunk, {.forward = false, .microbatch = microbatch}, owner);
  // Nobody asks for the gradient of a frozen embedding.
  if (owner > 0 || !s_.adapters.present()) w_.stamp(device_, *t, label);
  if (!input_only) ready(chunk, microbatch, owner);
}

/// The embedding's gradient has no other half.
void ChunkWriter::backward_weight(DeviceChunk chunk, int microbatch) {
  const StageChunk& c = chunk.layers;
  Label label = pass_label(Pass::backward_weight, chunk.number, microbatch);
  if (c.head && !head_deferred(s_, microbatch) && !s_.adapters.present())
    w_.stamp(device_, now_->head_weight_gradient, label);
  if (c.head) ready(chunk, microbatch, c.layer_count + 1);
  for (int i = c.layer_count; i-- > 0;) {
    label.layer = static_cast<uint16_t>(c.first_layer + i);
    w_.stamp(device_, set(label.layer).backward_weight[recomputed(s_, i)], label);
    ready(chunk, microbatch, i + 1);
  }
  // The embedding's bucket may hold layers, too.
  if (c.embedding) ready(chunk, microbatch, 0);
}

/// Their parameters are numbered with the chunk's last layer.
void ChunkWriter::predictions_forward(DeviceChunk chunk, int microbatch, TaskId& first) {
  const StageChunk& c = chunk.layers;
  if (c.mtp > 0 && c.layer_count == 0 && !c.embedding)
    need(chunk, {.forward = true, .microbatch = microbatch}, 0);
  for (int depth = 0; depth < c.mtp; ++depth) {
    const TaskId kernel = w_.stamp(device_, now_->prediction.forward[is_first(chunk, microbatch)],
                                   pass_label(Pass::forward, chunk.number, microbatch));
    if (first == no_task) first = kernel;
  }
}

void ChunkWriter::predictions_backward(DeviceChunk chunk, int microbatch) {
  const StageChunk& c = chunk.layers;
  // Of whole layers only uniform recompute reaches prediction modules.
  const bool again = s_.recompute == Recompute::full_uniform;
  if (c.mtp > 0 && c.layer_count > 0)
    need(chunk, {.forward = false, .microbatch = microbatch}, c.layer_count);
  for (int depth = 0; depth < c.mtp; ++depth)
    w_.stamp(device_, now_->prediction.backward[again],
             pass_label(Pass::backward, chunk.number, microbatch));
  if (c.mtp > 0 && c.layer_count == 0 && !c.embedding) ready(chunk, microbatch, 0);
}

TaskId ChunkWriter::forward(DeviceChunk chunk, int microbatch) {
  const StageChunk& c = chunk.layers;
  TaskId first = no_task;
  for (int owner = c.embedding ? 0 : 1; owner <= c.layer_count; ++owner)
    forward_unit(chunk, microbatch, owner, first);
  predictions_forward(chunk, microbatch, first);
  if (c.head) forward_unit(chunk, microbatch, c.layer_count + 1, first);
  return first;
}

void ChunkWriter::backward(DeviceChunk chunk, int microbatch, bool input_only) {
  const StageChunk& c = chunk.layers;
  if (c.head) backward_unit(chunk, microbatch, c.layer_count + 1, input_only);
  predictions_backward(chunk, microbatch);
  for (int owner = c.layer_count; owner >= (c.embedding ? 0 : 1); --owner)
    backward_unit(chunk, microbatch, owner, input_only);
}

const Template& ChunkWriter::pair(int f, bool first, int b) {
  const PairKind kind{layer_kind(s_, f), layer_kind(s_, b), first && casts_weights(s_.precision)};
  const auto [found, added] = now_->pairs.try_emplace(kind);
  if (added)
    found->second = make_->layer_pair(std::get<0>(kind), std::get<2>(kind), std::get<1>(kind));
  return found->second;
}

TaskId ChunkWriter::forward_backward(DeviceChunk forward, int forward_microbatch,
                                     DeviceChunk backward, int backward_microbatch) {
  const StageChunk &f = forward.layers, &b = backward.layers;
  TaskId first = no_task;
  if (f.embedding) forward_unit(forward, forward_microbatch, 0, first);
  if (b.head) backward_unit(backward, backward_microbatch, b.layer_count + 1, false);
  predictions_backward(backward, backward_microbatch);
  const int pairs = std::min(f.layer_count, b.layer_count);
  Label sent = pass_label(Pass::forward, forward.number, forward_microbatch);
  Label returned = pass_label(Pass::backward, backward.number, backward_microbatch);
  for (int i = 0; i < pairs; ++i) {
    const int owner = i + 1, other = b.layer_count - i;
    sent.layer = static_cast<uint16_t>(f.first_layer + i);
    returned.layer = static_cast<uint16_t>(b.first_layer + other - 1);
    need(forward, {.forward = true, .microbatch = forward_microbatch}, owner);
    offload_.before_backward(device_, b, other - 1, returned);
    module_offload_.before_backward(device_, b, other - 1, returned);
    need(backward, {.forward = false, .microbatch = backward_microbatch}, other);
    const TaskId kernel =
        w_.stamp(device_, pair(sent.layer, is_first(forward, forward_microbatch), returned.layer),
                 sent, returned);
    if (first == no_task) first = kernel;
    offload_.after_forward(device_, f, i, sent);
    module_offload_.after_forward(device_, f, i, sent);
    ready(backward, backward_microbatch, other);
  }
  // What has no partner runs alone.
  for (int owner = pairs + 1; owner <= f.layer_count; ++owner)
    forward_unit(forward, forward_microbatch, owner, first);
  for (int owner = b.layer_count - pairs; owner >= 1; --owner)
    backward_unit(backward, backward_microbatch, owner, false);
  predictions_forward(forward, forward_microbatch, first);
  if (f.head) forward_unit(forward, forward_microbatch, f.layer_count + 1, first);
  if (b.embedding) backward_unit(backward, backward_microbatch, 0, false);
  return first;
}

void ChunkWriter::head_weight_gradient(DeviceChunk chunk, int microbatch) {
  w_.stamp(device_, now_->head_weight_gradient,
           pass_label(Pass::backward_weight, chunk.number, microbatch));
}

}  // namespace stepsim
