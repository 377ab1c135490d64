#include "sim/lower/memory.h"

#include <algorithm>

#include "sim/cost/layer_sizes.h"

namespace stepsim {

DeviceMemory device_memory(const Scenario& s, const StageChunk& last_chunk, int64_t parameters,
                           int64_t owned, std::span<const MemoryEvent> events,
                           double recompute_bytes) {
  DeviceMemory m;
  const auto local = static_cast<double>(parameters);
  // Two bytes either way: a 16-bit weight, or an fp8 weight and its transposed copy (Transformer
  // Engine).
  m.parameters = local * 2;
  m.gradients = local * (s.precision.grad_reduce_in_fp32 ? 4 : 2);
  m.optimizer = static_cast<double>(owned) * 12;  // fp32 master weight and two moments
  double live = 0;
  for (const MemoryEvent& e : events) {
    live += e.bytes;
    m.activations = std::max(m.activations, live);
  }
  m.activations += recompute_bytes;
  const LayerSizes z = layer_sizes(s);
  if (last_chunk.head) {
    const double copies = s.cross_entropy == CrossEntropy::te ? 2 : 2 + 4;
    m.logits = z.tokens * z.vocab * copies;
  }
  if (s.overlap.tp_comm_overlap) m.buffers += z.tokens * z.hidden * 2;
  if (s.parallel.tp > 1 && s.parallel.sequence_parallel) m.buffers += z.tokens * z.hidden * 2;
  m.reserve = s.cluster.device.memory_reserve.value;
  return m;
}

}  // namespace stepsim
