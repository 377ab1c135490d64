#include "sim/lower/chunk.h"

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
                         DataParallelWriter& data_parallel)
    : s_(scenario),
      w_(writer),
      dp_(data_parallel),
      templates_(writer.device_count()),
      of_layer_(static_cast<size_t>(scenario.model.layers)) {}

void ChunkWriter::begin(uint32_t device) {
  device_ = device;
  const auto at = [&](Meeting m) { return w_.placement(device, m); };
  const LayerTemplates make(
      s_,
      {at(Meeting::tp), at(Meeting::cp), at(Meeting::ep), at(Meeting::etp), at(Meeting::etp_ep)},
      w_.fault(device).slowdown);
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
    for (bool again : {false, true})
      found->second.backward[again] = make.layer_backward(kind, again);
  }
  t.embedding_forward = make.embedding_forward();
  t.embedding_backward = make.embedding_backward();
  t.head_forward = make.head_forward();
  for (bool deferred : {false, true}) t.head_backward[deferred] = make.head_backward(deferred);
  t.head_weight_gradient = make.head_weight_gradient();
  if (first) reserve();
}

void ChunkWriter::reserve() {
  // Decoder layers are nearly all of a graph; a twentieth more covers the ends, the messages and
  // the optimizer.
  const bool full = s_.recompute == Recompute::full_uniform;
  double tasks = 0, edges = 0, starts = 0;
  for (const LayerSet* layer : of_layer_) {
    for (const Template* t : {&layer->forward[0], &layer->backward[full]}) {
      tasks += static_cast<double>(t->segments.size()), ++edges;
      for (const TemplateOp& op : t->ops) {
        ++tasks, ++edges;
        for (int32_t a : op.after) edges += a != TemplateOp::none;
        starts += op.launch_edge;
      }
    }
  }
  const double stamps = 1.05 * static_cast<double>(s_.batch.microbatches) *
                        static_cast<double>(w_.device_count()) / s_.parallel.pp;
  w_.builder().reserve(static_cast<size_t>(stamps * tasks), static_cast<size_t>(stamps * edges),
                       static_cast<size_t>(stamps * starts));
}

TaskId ChunkWriter::forward(DeviceChunk chunk, int microbatch) {
  const StageChunk& c = chunk.layers;
  Label label = pass_label(Pass::forward, chunk.number, microbatch);
  TaskId first = no_task;
  const auto stamp = [&](int owner, const Template& t) {
    if (microbatch == 0) dp_.need(device_, chunk.number, owner);
    const TaskId kernel = w_.stamp(device_, t, label);
    if (first == no_task) first = kernel;
  };
  if (c.embedding) stamp(0, now_->embedding_forward);
  for (int i = 0; i < c.layer_count; ++i) {
    label.layer = static_cast<uint16_t>(c.first_layer + i);
    stamp(i + 1, set(label.layer).forward[microbatch == 0]);
  }
  label.layer = Label::no_layer;
  if (c.head) stamp(c.layer_count + 1, now_->head_forward);
  return first;
}

void ChunkWriter::backward(DeviceChunk chunk, int microbatch) {
  const StageChunk& c = chunk.layers;
  Label label = pass_label(Pass::backward, chunk.number, microbatch);
  const bool last = microbatch + 1 == s_.batch.microbatches;
  const auto ready = [&](int owner) {
    if (last) dp_.gradient_ready(device_, chunk.number, owner);
  };
  if (c.head) {
    w_.stamp(device_, now_->head_backward[head_deferred(s_, microbatch)], label);
    ready(c.layer_count + 1);
  }
  for (int i = c.layer_count; i-- > 0;) {
    label.layer = static_cast<uint16_t>(c.first_layer + i);
    w_.stamp(device_, set(label.layer).backward[recomputed(s_, i)], label);
    ready(i + 1);
  }
  if (c.embedding) {
    label.layer = Label::no_layer;
    w_.stamp(device_, now_->embedding_backward, label);
    ready(0);
  }
}

void ChunkWriter::head_weight_gradient(DeviceChunk chunk, int microbatch) {
  w_.stamp(device_, now_->head_weight_gradient,
           pass_label(Pass::backward_weight, chunk.number, microbatch));
}

}  // namespace stepsim
