#include "sim/lower/lower.h"

#include <algorithm>

#include "sim/cost/model_flops.h"
#include "sim/lower/data_parallel.h"
#include "sim/lower/memory.h"
#include "sim/lower/pipeline.h"
#include "sim/lower/step_writer.h"

namespace stepsim {

namespace {

std::vector<SimulatedDevice> simulated_devices(const Mesh& mesh, const Folding& folding) {
  std::vector<SimulatedDevice> devices;
  for (size_t d = 0; d < folding.ranks.size(); ++d)
    devices.push_back(
        {folding.ranks[d], folding.represents[d], mesh.coordinates(folding.ranks[d]).pp});
  return devices;
}

BucketRow bucket_row(const Scenario& s, const ChunkState& state, int stage, int chunk) {
  return {.stage = stage,
          .chunk = chunk,
          .count = static_cast<int>(state.shard.buckets.size()),
          .elements = state.shard.elements,
          .bytes = static_cast<double>(state.shard.elements) * s.precision.gradient_bytes()};
}

TaskGraph finish(StepWriter& writer, std::vector<RendezvousMember>& members) {
  members = std::move(writer.members());
  std::stable_sort(members.begin(), members.end(),
                   [](const auto& a, const auto& b) { return a.transfer < b.transfer; });
  return std::move(writer.builder()).build();
}

/// Steps run back to back: a device begins when it has ended the step before, not at a barrier.
std::vector<TaskId> release_devices(const Scenario& s, StepWriter& writer,
                                    std::span<const double> begins) {
  std::vector<TaskId> releases;
  if (!s.post_validation) return releases;
  const uint64_t label = Label{.op = OpKind::meet,
                               .pass = Pass::step,
                               .layer = Label::no_layer,
                               .microbatch = Label::no_microbatch}
                             .packed();
  for (uint32_t d = 0; d < writer.device_count(); ++d) {
    const double begin = begins.empty() ? 0 : begins[d];
    releases.push_back(writer.builder().add_task(begin, stream_id(d, Stream::compute), label));
    const TaskId host = writer.builder().add_task(0, stream_id(d, Stream::host), label);
    writer.builder().add_edge(releases.back(), host);
  }
  return releases;
}

LoweredStep lower_given(const Scenario& s, const Mesh& mesh, const Folding& folding,
                        const Fabric& fabric, std::span<const double> begins) {
  std::vector<SimulatedDevice> devices = simulated_devices(mesh, folding);
  StepWriter writer(s, mesh, folding, fabric);
  const std::vector<StageChunk> split(static_cast<size_t>(s.parallel.pp * s.parallel.chunks()));
  PipelineWriter pipeline(s, mesh, folding, split, writer, nullptr);
  std::vector<std::vector<MemoryEvent>> events(devices.size());
  std::vector<TaskId> releases = release_devices(s, writer, begins);
  for (uint32_t d = 0; d < writer.device_count(); ++d) pipeline.write(d, events[d]);
  std::vector<RendezvousMember> members;
  TaskGraph graph = finish(writer, members);
  const size_t count = devices.size();
  return {.graph = std::move(graph),
          .devices = std::move(devices),
          .members = std::move(members),
          .memory_events = std::move(events),
          .memory = std::vector<DeviceMemory>(count),
          .buckets = {},
          .barrier = false,
          .releases = std::move(releases)};
}

}  // namespace

LoweredStep lower(const Scenario& s, const Mesh& mesh, const Folding& folding, const Fabric& fabric,
                  std::span<const double> begins_seconds) {
  if (s.costs) return lower_given(s, mesh, folding, fabric, begins_seconds);
  std::vector<SimulatedDevice> devices = simulated_devices(mesh, folding);
  const std::vector<StageChunk> split =
      split_layers(s.parallel, s.model.layers, s.model.mtp_layers);
  StepWriter writer(s, mesh, folding, fabric);
  DataParallelWriter data_parallel(s, split, writer, devices);
  PipelineWriter pipeline(s, mesh, folding, split, writer, &data_parallel);

  std::vector<std::vector<MemoryEvent>> events(devices.size());
  std::vector<DeviceMemory> memory;
  std::vector<BucketRow> buckets;
  std::vector<TaskId> releases = release_devices(s, writer, begins_seconds);
  for (uint32_t d = 0; d < writer.device_count(); ++d) {
    data_parallel.begin_step(d);
    pipeline.write(d, events[d]);
    data_parallel.end_step(d);
    const int chunks = s.parallel.chunks(), stage = devices[d].stage;
    std::vector<StageChunk> own;
    for (int c = 0; c < chunks; ++c)
      own.push_back(split[static_cast<size_t>(c * s.parallel.pp + stage)]);
    memory.push_back(device_memory(s, own, data_parallel.held(d), events[d]));
    const bool first_of_stage = d == 0 || devices[d - 1].stage != stage;
    if (first_of_stage)
      for (int c = 0; c < chunks; ++c)
        buckets.push_back(bucket_row(s, data_parallel.chunk(d, c), stage, c));
  }
  int again = 0;
  for (const StageChunk& c : split)
    for (int i = 0; i < c.layer_count; ++i) again += recomputed(s, i);
  std::vector<RendezvousMember> members;
  TaskGraph graph = finish(writer, members);
  return {.graph = std::move(graph),
          .devices = std::move(devices),
          .members = std::move(members),
          .memory_events = std::move(events),
          .memory = std::move(memory),
          .buckets = std::move(buckets),
          .model_flops = model_flops(s).value,
          .hardware_flops = hardware_flops(s, again).value,
          .tokens = static_cast<double>(s.batch.global * s.batch.sequence),
          .barrier = !s.post_validation,
          .releases = std::move(releases)};
}

}  // namespace stepsim
