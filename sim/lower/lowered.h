// What lowering hands to the report: the graph and what its devices, streams and rendezvous stand
// for.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/task_graph.h"
#include "sim/lower/label.h"

namespace stepsim {

/// One simulated device and the ranks that provably behave like it.
struct SimulatedDevice {
  int rank = 0;
  int64_t represents = 1;  ///< ranks, itself included
  int stage = 0;           ///< pipeline rank
};

/// A transfer that several queues join. It starts when the last `arrival` has finished.
struct RendezvousMember {
  TaskId transfer{};
  StreamId stream{};  ///< the member's queue, on the member's device
  TaskId arrival{};  ///< zero-length task on that queue; no_task when arrival is the transfer's own
                     ///< readiness
};

/// Bytes allocated (+) or freed (-) on a device when a task starts (allocation) or finishes (free).
struct MemoryEvent {
  TaskId task{};
  double bytes = 0;   ///< of activations
  double logits = 0;  ///< bytes of logits and what the loss keeps of them
};

/// Sizes of one device, bytes. `activations` is the peak of what the schedule keeps alive.
struct DeviceMemory {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, logits = 0, buffers = 0,
         reserve = 0;
  double peak() const {
    return parameters + gradients + optimizer + activations + logits + buffers;
  }
};

/// Gradient or parameter bucket of one model chunk (elements of the local, TP-sharded parameters).
struct BucketRow {
  int stage = 0, chunk = 0, count = 0;
  int64_t elements = 0;  ///< of the whole chunk
  double bytes = 0;
};

/// Everything the report needs beside the Timeline and the Scenario.
struct LoweredStep {
  TaskGraph graph;
  std::vector<SimulatedDevice> devices;
  std::vector<RendezvousMember>
      members;  ///< sorted by transfer; only rendezvous between simulated devices
  std::vector<std::vector<MemoryEvent>>
      memory_events;                 ///< by device, activations only, in schedule order
  std::vector<DeviceMemory> memory;  ///< by device
  std::vector<BucketRow> buckets;
  double model_flops = 0;     ///< one step, all ranks, Megatron-Bridge convention
  double hardware_flops = 0;  ///< the same plus recomputed GEMMs and attention
  double tokens = 0;          ///< one step
  bool barrier = true;        ///< false: given costs, the step is the makespan of one flush
  /// By device, where steps run back to back: lasts until the device is done with the step before.
  std::vector<TaskId> releases{};
};

}  // namespace stepsim
