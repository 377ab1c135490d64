#include "sim/lower/offload.h"

#include "sim/cost/layer_sizes.h"
#include "sim/lower/memory.h"

namespace stepsim {

std::vector<int> offload_windows(int layers, int offloaded) {
  std::vector<int> at(static_cast<size_t>(layers), -1);
  if (offloaded <= 0) return at;
  const int each = layers / offloaded, longer = layers % offloaded;
  for (int group = 0, end = 0; group < offloaded; ++group) {
    end += each + (group < longer ? 1 : 0);
    at[static_cast<size_t>(end - 1)] = group;
  }
  return at;
}

CollectiveCost host_copy_cost(const Device& device, Bytes bytes) {
  const BytesPerSecond rate = device.host_bandwidth * device.host_efficiency;
  CollectiveCost cost{};
  cost.latency = device.host_latency;
  cost.duration = cost.latency + bytes / rate;
  cost.wire_bytes = bytes;
  cost.algorithm = "copy";
  cost.hbm_rate = rate;
  return cost;
}

int LayerOffload::window_at(const StageChunk& chunk, int layer) {
  if (windows_.empty()) windows_ = offload_windows(chunk.layer_count, s_.offloaded_layers);
  return windows_[static_cast<size_t>(layer)];
}

void LayerOffload::copy(uint32_t device, const StageChunk& chunk, int group, OpKind op,
                        Label label) {
  const int layer = chunk.first_layer + group;
  label.op = op;
  label.layer = static_cast<uint16_t>(layer);
  w_.copy(
      device, op == OpKind::offload_out ? Stream::d2h : Stream::h2d,
      host_copy_cost(s_.cluster.device, {layer_activation_bytes(s_, layer, quantised(s_, layer))}),
      label);
}

void LayerOffload::after_forward(uint32_t device, const StageChunk& chunk, int layer, Label label) {
  if (s_.offloaded_layers == 0) return;
  if (layer == 0) copy(device, chunk, 0, OpKind::offload_out, label);
  const int over = window_at(chunk, layer);
  if (over < 0) return;
  w_.wait(device, w_.builder().tail(stream_id(device, Stream::d2h)));
  if (over + 1 < s_.offloaded_layers) copy(device, chunk, over + 1, OpKind::offload_out, label);
}

void LayerOffload::before_backward(uint32_t device, const StageChunk& chunk, int layer,
                                   Label label) {
  if (s_.offloaded_layers == 0) return;
  const auto wait = [&] {
    const TaskId reloaded = w_.builder().tail(stream_id(device, Stream::h2d));
    if (reloaded != no_task) w_.wait(device, reloaded);
  };
  const int group = window_at(chunk, layer);
  if (group >= 0) {
    wait();
    copy(device, chunk, group, OpKind::offload_in, label);
  }
  if (layer == 0) wait();
}

}  // namespace stepsim
