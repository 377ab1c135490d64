#include "sim/lower/memory.h"

#include <algorithm>

#include "sim/cost/layer_sizes.h"
#include "sim/lower/module_offload.h"

namespace stepsim {

namespace {

/// What is alive beside the kept activations while one unit is recomputed: its layers in full, or
/// the inside of the larger module.
double recompute_bytes(const Scenario& s, std::span<const StageChunk> chunks) {
  const auto block_of = [&](int layers) {  // the largest block of so many layers
    double most = 0;
    for (const StageChunk& c : chunks)
      for (int i = 0; i < c.layer_count; i += layers) {
        double bytes = 0;
        for (int j = i; j < std::min(i + layers, c.layer_count); ++j)
          bytes += layer_activation_bytes(s, c.first_layer + j, false);
        most = std::max(most, bytes);
      }
    return most;
  };
  switch (s.recompute) {
    case Recompute::modules: {
      double most = s.recompute_modules.core_attn ? score_bytes(s) : 0;
      if (!s.recompute_modules.mlp) return most;
      for (const StageChunk& c : chunks)
        for (int i = c.first_layer; i < c.first_layer + c.layer_count; ++i)
          most = std::max(most, mlp_bytes(s, i, quantised(s, i)));
      return most;
    }
    case Recompute::full_uniform:  // a block of layers at a time
      return block_of(s.recompute_layers);
    case Recompute::full_block:  // a layer at a time
      return block_of(1);
  }
  return 0;
}

/// One of the offloaded layers is on the device when the forward ends and when the backward begins:
/// the one whose copy is under way (sim/lower/offload.h).
double copied_bytes(const Scenario& s, std::span<const StageChunk> chunks) {
  double most = 0;
  if (s.module_offload.any())
    for (const StageChunk& c : chunks)
      for (int i = 0; i < c.layer_count; ++i) most = std::max(most, module_offload_bytes(s, c, i));
  for (int layer = 0; layer < s.offloaded_layers; ++layer)
    most = std::max(most, layer_activation_bytes(s, layer, quantised(s, layer)));
  return most;
}

}  // namespace

bool quantised(const Scenario& s, int layer) {
  return s.precision.fp8 != Fp8Recipe::none && layer >= s.precision.bf16_first_layers &&
         layer < s.model.layers - s.precision.bf16_last_layers;
}

bool recomputed(const Scenario& s, int layer_in_chunk) {
  return s.recompute == Recompute::full_uniform ||
         (s.recompute == Recompute::full_block && layer_in_chunk < s.recompute_layers);
}

Kept kept_by(const Scenario& s, const StageChunk& chunk) {
  const LayerSizes z = layer_sizes(s);
  const double input = z.local_tokens * z.hidden * 2;
  Kept kept;
  // Uniform recompute keeps the input of every block of layers, the last of which may be shorter.
  if (s.recompute == Recompute::full_uniform)
    kept.activations = (chunk.layer_count + s.recompute_layers - 1) / s.recompute_layers * input;
  else
    for (int i = s.offloaded_layers; i < chunk.layer_count; ++i) {
      const int layer = chunk.first_layer + i;
      if (recomputed(s, i)) {
        kept.activations += input;
        continue;
      }
      kept.activations +=
          layer_activation_bytes(s, layer, quantised(s, layer)) - module_offload_bytes(s, chunk, i);
      kept.input_half += input_half_bytes(s, s.model.shape(layer));
    }
  // A prediction module is its layers and the two inputs of its projection; it has logits of its
  // own.
  double module = 2 * input;
  if (s.recompute != Recompute::full_uniform) {
    module = 4 * input;
    for (const LayerShape shape : s.model.prediction_shapes())
      module += layer_activation_bytes(s, shape, quantised(s, s.model.layers - 1));
  }
  kept.activations += chunk.mtp * module;
  if (chunk.head) {
    kept.activations += 2 * input;
    // 16-bit logits, which the fused kernel overwrites with their gradient; the others keep an fp32
    // softmax beside them.
    kept.logits = (1 + s.model.mtp_layers) * z.tokens * z.vocab *
                  (s.cross_entropy == CrossEntropy::te ? 2 : 2 + 4);
  }
  return kept;
}

double weight_memory(const Scenario& s) {
  if (s.costs && s.costs->weight_memory) return *s.costs->weight_memory;
  return weight_half_share(s);
}

bool head_deferred(const Scenario& s, int microbatch) {
  // A limit of 0 defers every microbatch (Megatron-Core tensor_parallel/layers.py).
  const int limit = s.overlap.wgrad_deferral_limit;
  return s.overlap.defer_embedding_wgrad && (limit == 0 || microbatch < limit);
}

double deferred_head_bytes(const Scenario& s) {
  const LayerSizes z = layer_sizes(s);
  return 2 * (1 + s.model.mtp_layers) * (z.local_tokens * z.hidden + z.tokens * z.vocab);
}

DeviceMemory device_memory(const Scenario& s, std::span<const StageChunk> chunks,
                           const HeldShards& held, std::span<const MemoryEvent> events) {
  DeviceMemory m;
  // Two bytes either way: a 16-bit weight, or an fp8 weight and its transposed copy (Transformer
  // Engine).
  m.parameters = held.parameters * 2;
  m.gradients = held.gradients * s.precision.gradient_bytes();
  // The master weights of what the host updates stay, its moments do not.
  const double away = s.host_optimizer.fraction * s.host_optimizer.moment_bytes;
  m.optimizer = held.owned * (s.data_parallel.optimizer_bytes - away);
  double activations = 0, logits = 0, most = -1;
  for (const MemoryEvent& e : events) {
    activations += e.bytes;
    logits += e.logits;
    if (activations + logits <= most) continue;
    most = activations + logits;
    m.activations = activations;
    m.logits = logits;
  }
  m.activations += recompute_bytes(s, chunks) + copied_bytes(s, chunks);
  m.buffers = held.gathered_bytes;
  const LayerSizes z = layer_sizes(s);
  if (s.overlap.tp_comm_overlap) m.buffers += z.tokens * z.hidden * 2;
  if (s.parallel.tp > 1 && s.parallel.sequence_parallel) m.buffers += z.tokens * z.hidden * 2;
  m.reserve = s.cluster.device.memory_reserve.value;
  return m;
}

}  // namespace stepsim
