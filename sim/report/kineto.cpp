#include "sim/report/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "sim/report/overlap.h"

namespace stepsim {
namespace {

/// By class: the group that Megatron-Core makes for it (megatron/core/parallel_state.py).
constexpr std::array<std::string_view, comm_class_count> group_descriptions{
    "",
    "TENSOR_MODEL_PARALLEL_GROUP",
    "CONTEXT_PARALLEL_GROUP",
    "PIPELINE_MODEL_PARALLEL_GROUP",
    "DATA_PARALLEL_GROUP_WITH_CP",
    "EMBEDDING_GROUP",
    "EXPERT_MODEL_PARALLEL_GROUP",
    "EXPERT_DATA_PARALLEL_GROUP",
    ""};

struct CollectiveWords {
  std::string_view kernel, name;
};
CollectiveWords collective_words(OpKind op) {
  const std::string_view what = row(op).name;
  if (what.ends_with("all-gather")) return {"ncclDevKernel_AllGather_RING_LL", "_allgather_base"};
  if (what.ends_with("reduce-scatter"))
    return {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "_reduce_scatter_base"};
  if (what.ends_with("all-reduce"))
    return {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "allreduce"};
  return {"ncclDevKernel_SendRecv", row(op).comm == CommClass::pp ? "send" : "all_to_allv"};
}

constexpr std::array<std::string_view, kernel_class_count> kernel_words{
    "gemm", "flash_attention", "mamba_scan", "elementwise_kernel", "multi_tensor_apply_kernel"};

/// Streams as PyTorch numbers them: 7 runs kernels.
int stream_number(Stream s) { return s == Stream::compute ? 7 : 20 + static_cast<int>(s); }

/// Writes events one a line.
class KinetoWriter {
 public:
  KinetoWriter(std::ostream& out, int rank) : out_(out) {
    out_ << "{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": " << rank
         << "}, \"traceEvents\": [";
  }
  void event(std::string_view category, std::string_view name, Interval when,
             std::string_view arguments) {
    out_ << fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 0, "ts": {}, "dur": {}, "args": {{{}}}}})",
        first_ ? "\n" : ",\n", category, name, when.start * 1e6, (when.finish - when.start) * 1e6,
        arguments);
    first_ = false;
  }
  void finish() { out_ << "\n]}\n"; }

 private:
  std::ostream& out_;
  bool first_ = true;
};

}  // namespace

std::string_view name(KernelClass c) {
  constexpr std::array<std::string_view, kernel_class_count> names{"gemm", "attention", "scan",
                                                                   "elementwise", "optimizer"};
  return names[static_cast<size_t>(c)];
}

KernelClass kernel_class(OpKind op) {
  using enum OpKind;
  constexpr std::array gemms{router,         expert_fc1, expert_fc2, shared_fc1, shared_fc2,
                             mtp_projection, mamba_in,   mamba_out,  given};
  if (row(op).task_class == TaskClass::optimizer) return KernelClass::optimizer;
  if (op == attention) return KernelClass::attention;
  if (op == mamba_scan || op == mamba_conv) return KernelClass::scan;
  if (row(op).name.ends_with("gemm") || std::find(gemms.begin(), gemms.end(), op) != gemms.end())
    return KernelClass::gemm;
  return KernelClass::elementwise;
}

std::array<double, kernel_class_count> kernel_seconds(const LoweredStep& step,
                                                      const Timeline& timeline, StepEnd end,
                                                      uint32_t device) {
  std::array<double, kernel_class_count> seconds{};
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const OpKind op = Label::unpack(step.graph.labels[t]).op;
    const TaskClass c = row(op).task_class;
    if (step.graph.streams[t] != stream_id(device, Stream::compute) ||
        (c != TaskClass::compute && c != TaskClass::optimizer))
      continue;
    const double low = std::max(timeline.start_seconds[t], end.begin(device));
    const double high = std::min(timeline.finish_seconds[t], end.finish(device));
    if (high > low) seconds[static_cast<size_t>(kernel_class(op))] += high - low;
  }
  return seconds;
}

void write_kineto(std::ostream& out, const LoweredStep& step, const Timeline& timeline, StepEnd end,
                  uint32_t device) {
  KinetoWriter writer(out, step.devices[device].rank);
  writer.event("user_annotation", "ProfilerStep#1", {end.begin(device), end.finish(device)}, "");
  const auto write = [&](TaskId task, StreamId stream, Interval when) {
    const Label label = label_of(step.graph, task);
    const OpRow& op = row(label.op);
    if (when.finish <= when.start) return;
    const std::string place =
        fmt::format(R"("device": 0, "stream": {})", stream_number(stream_of(stream)));
    if (op.comm == CommClass::offload) {
      writer.event("gpu_memcpy",
                   label.op == OpKind::offload_out ? "Memcpy DtoH (Device -> Pinned)"
                                                   : "Memcpy HtoD (Pinned -> Device)",
                   when, place);
    } else if (op.task_class == TaskClass::communication) {
      const CollectiveWords words = collective_words(label.op);
      writer.event("kernel", words.kernel, when,
                   fmt::format(R"({}, "Collective name": "{}", "Process Group Description": "{}", )"
                               R"("op": "{}")",
                               place, words.name, group_descriptions[static_cast<size_t>(op.comm)],
                               describe(label)));
    } else if (stream_of(stream) == Stream::compute &&
               (op.task_class == TaskClass::compute || op.task_class == TaskClass::optimizer)) {
      writer.event("kernel",
                   fmt::format("{} ({})", kernel_words[static_cast<size_t>(kernel_class(label.op))],
                               describe(label)),
                   when, place);
    }
  };
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const StreamId stream = step.graph.streams[t];
    if (stream != no_stream && device_of(stream) == device)
      write(TaskId{t}, stream, {timeline.start_seconds[t], timeline.finish_seconds[t]});
  }
  // The same transfer once more where its arrival came earlier: both together are when it moves.
  for (const RendezvousMember& m : step.members)
    if (device_of(m.stream) == device) write(m.transfer, m.stream, moving(step, timeline, m));
  writer.finish();
}

}  // namespace stepsim
