#include "sim/lower/module_offload.h"

#include <utility>

#include "sim/cost/saved_inputs.h"
#include "sim/lower/memory.h"
#include "sim/lower/offload.h"

namespace stepsim {

namespace {

double saved_by(const Scenario& s, const StageChunk& chunk, int layer) {
  if (recomputed(s, layer)) return 0;
  const int of_model = chunk.first_layer + layer;
  return saved_input_bytes(s, s.model.shape(of_model), quantised(s, of_model));
}

}  // namespace

double module_offload_bytes(const Scenario& s, const StageChunk& chunk, int layer) {
  const double bytes = saved_by(s, chunk, layer);
  // Prediction modules come behind all layers of their chunk and keep their own.
  if (bytes == 0 || !chunk.head || chunk.mtp > 0) return bytes;
  for (int later = layer + 1; later < chunk.layer_count; ++later)
    if (saved_by(s, chunk, later) > 0) return bytes;
  return 0;
}

const ModuleOffloadWriter::Moved& ModuleOffloadWriter::moved(const StageChunk& chunk) {
  const auto [found, added] = moved_.try_emplace(chunk.first_layer);
  if (added)
    for (int i = 0; i < chunk.layer_count; ++i) {
      found->second.has.push_back(saved_by(s_, chunk, i) > 0);
      found->second.bytes.push_back(module_offload_bytes(s_, chunk, i));
    }
  return found->second;
}

void ModuleOffloadWriter::after_forward(uint32_t device, const StageChunk& chunk, int layer,
                                        Label label) {
  if (!s_.module_offload.any()) return;
  const double bytes = moved(chunk).bytes[static_cast<size_t>(layer)];
  if (bytes == 0) return;
  label.op = OpKind::offload_out;
  w_.copy(device, Stream::d2h, host_copy_cost(s_.cluster.device, {bytes}), label);
  left_[device][{label.layer, label.microbatch}] =
      w_.builder().tail(stream_id(device, Stream::d2h));
}

void ModuleOffloadWriter::reload(uint32_t device, const StageChunk& chunk, int layer, Label label) {
  label.op = OpKind::offload_in;
  label.layer = static_cast<uint16_t>(chunk.first_layer + layer);
  w_.copy(device, Stream::h2d,
          host_copy_cost(s_.cluster.device, {moved(chunk).bytes[static_cast<size_t>(layer)]}),
          label);
  reloads_[device] = w_.builder().tail(stream_id(device, Stream::h2d));
  const auto left = left_[device].extract({label.layer, label.microbatch});
  if (left) w_.builder().add_edge(left.mapped(), reloads_[device]);
}

void ModuleOffloadWriter::before_backward(uint32_t device, const StageChunk& chunk, int layer,
                                          Label label) {
  if (!s_.module_offload.any()) return;
  const Moved& m = moved(chunk);
  if (!m.has[static_cast<size_t>(layer)]) return;
  const bool returns = m.bytes[static_cast<size_t>(layer)] > 0;
  // The first of a backward that nobody announced.
  if (returns && reloads_[device] == no_task) reload(device, chunk, layer, label);
  const TaskId own = std::exchange(reloads_[device], no_task);
  for (int next = layer; next-- > 0;)
    if (m.bytes[static_cast<size_t>(next)] > 0) {
      reload(device, chunk, next, label);
      break;
    }
  if (returns) w_.wait(device, own);
}

}  // namespace stepsim
