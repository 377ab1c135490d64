// Pipeline schedules: for each rank the order of computations and of point-to-point messages around
// them. Formulas: Megatron-Core pipeline_parallel/schedules.py (1F1B, interleaved), Huang et al.
// 2019 (GPipe), Qi et al. 2023 (zero bubble), DeepSeek-V3 2024 (DualPipe).
//
// A message belongs to the chunk that consumes it: forward (mb, c) is the input of chunk c,
// backward (mb, c) the gradient of chunk c's output. Who sends to whom is PipelineShape's; between
// two chunks of one rank nothing moves. Law: on each rank every microbatch's forward precedes its
// backward on each chunk, each exactly once; where the backward is split, its input half precedes
// its weight half.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

enum class ActionKind : uint8_t {
  forward,
  backward,         ///< compute of (microbatch, chunk)
  backward_input,   ///< half of a backward: the gradient that the stage before waits for
  backward_weight,  ///< the other half: the gradients of the weights
  send_forward,
  recv_forward,  ///< post: the message takes its place behind the work issued so far
  send_backward,
  recv_backward,
  wait_send_forward,
  wait_recv_forward,  ///< later compute waits until the message has moved
  wait_send_backward,
  wait_recv_backward,
  sync,  ///< the host waits for everything issued on this device
};

/// One step of a rank's program. For sends, `chunk` is the sender's chunk; for receives and
/// compute, the own chunk.
struct Action {
  ActionKind kind{};
  uint8_t chunk = 0;
  int32_t microbatch = 0;
  bool overlapped = false;  ///< a forward and the backward behind it, as one block
  auto operator<=>(const Action&) const = default;
};
constexpr bool computes(ActionKind k) { return k <= ActionKind::backward_weight; }
using Program = std::vector<Action>;

/// How messages are posted and waited for (Megatron-Core p2p_communication.py).
enum class P2pStyle {
  asynchronous,  ///< receives posted ahead, nothing waits but the consumer (papers, given costs)
  blocking,      ///< every exchange is waited for at once
  batched,  ///< blocking, and the host synchronises the device after each exchange (batch_p2p_sync)
  overlapped,        ///< interleaved steady state asynchronous; warm-up and cool-down blocking
  flush_overlapped,  ///< overlap_p2p_comm_warmup_flush: asynchronous throughout
};

/// What a search for a schedule is told of times, by virtual stage, in any unit.
struct StageTimes {
  std::vector<double> forward, input, weight;
  std::vector<double> message;  ///< from a virtual stage to the next one
  double weight_memory = 1;     ///< share of the activations that the weight half still needs
};

/// What a schedule needs to know.
struct ScheduleShape {
  int ranks = 1, chunks = 1, microbatches = 1;
  int group = 0;  ///< microbatch_group_size_per_vp_stage; 0 = ranks
  P2pStyle style = P2pStyle::asynchronous;
  P2pOrder order = P2pOrder::together;  ///< of the messages of a blocking exchange
  bool combined = false;  ///< a forward runs merged with the backward behind it (one more warm-up)
  bool wait_forward_send =
      false;  ///< deallocate_pipeline_outputs: wait for a forward send before the backward
  Placement placement = Placement::ring;
  StageTimes times{};                              ///< empty: forward and halves alike, no messages
  std::vector<std::vector<OrderEntry>> spelled{};  ///< by rank: pipeline.order
  PipelineShape pipeline() const { return {placement, ranks, chunks}; }
};

/// A schedule: one row of the table.
struct ScheduleRow {
  ScheduleKind kind;
  std::string_view name, description;
  std::vector<Program> (*programs)(const ScheduleShape&);  ///< by rank
};
std::span<const ScheduleRow> schedule_rows();
const ScheduleRow& schedule_row(ScheduleKind kind);

/// (microbatch, chunk) of a virtual step, forward order: groups of `group` microbatches, chunk by
/// chunk within a group.
struct VirtualStep {
  int microbatch = 0, chunk = 0;
  auto operator<=>(const VirtualStep&) const = default;
};
std::vector<VirtualStep> interleaved_order(int chunks, int microbatches, int group);
/// Warm-up forwards of a rank: min(2 (P-1-p) + (VP-1) N, M VP); one more when combined.
int interleaved_warmup(const ScheduleShape& shape, int rank);

/// `weight_memory`: StageTimes', which takes the sizes of the model's activations to know.
ScheduleShape schedule_shape(const Scenario& scenario, double weight_memory = 1);

}  // namespace stepsim
