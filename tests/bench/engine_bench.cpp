// Speed of the engine alone. Read the rates as ratios to `reference_sweep`, timed in the same run:
// machines differ.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <variant>
#include <vector>

#include "sim/engine/engine.h"
#include "tests/support/pipeline_graph.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// Freed memory stays with the process: a page fault costs 0.1 us on bare metal and 16 us on some
/// virtual machines, and what is timed here is the engine. Allocation itself is in every figure.
void keep_heap() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

void count_tasks(benchmark::State& state, const TaskGraph& graph) {
  state.SetItemsProcessed(state.iterations() * graph.task_count());
  state.counters["tasks"] = graph.task_count();
}

void run_graph(benchmark::State& state, const TaskGraph& graph) {
  keep_heap();
  for (auto _ : state) {
    const auto result = run(graph);
    if (!std::holds_alternative<Timeline>(result)) state.SkipWithError("deadlock");
    benchmark::DoNotOptimize(std::get<Timeline>(result).makespan_seconds);
  }
  count_tasks(state, graph);
}

/// Max-plus over arrays of the 1F1B graph's size, two predecessors a task, all at hand and none in
/// the way: what the memory traffic of a timeline costs without an engine.
void reference_sweep(benchmark::State& state) {
  keep_heap();
  const Pipeline pipeline;
  const size_t tasks =
      size_t{4} * pipeline.stages * pipeline.microbatches - 2 * pipeline.microbatches;
  const size_t row = pipeline.microbatches;
  const std::vector<double> durations(tasks, 1e-3);
  for (auto _ : state) {
    std::vector<double> starts(tasks), finishes(tasks);
    std::vector<uint32_t> binding(tasks);
    for (size_t t = row; t < tasks; ++t) {
      const double one = finishes[t - 1], other = finishes[t - row];
      starts[t] = std::max(one, other);
      binding[t] = static_cast<uint32_t>(one < other ? t - row : t - 1);
      finishes[t] = starts[t] + durations[t];
    }
    benchmark::DoNotOptimize(finishes.data());
    benchmark::DoNotOptimize(binding.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(tasks));
}

/// Target: 25 million tasks a second on one core, the timeline's allocation included.
void run_1f1b_64x512(benchmark::State& state) { run_graph(state, one_f_one_b({})); }

/// 3 million fixed tasks: past every cache.
void run_1f1b_512x1536(benchmark::State& state) {
  run_graph(state, one_f_one_b({.stages = 512, .microbatches = 1536}));
}

/// A pipeline of devices, each with a NIC that its pipeline and data-parallel flows share; of four
/// tasks one is a flow.
TaskGraph shared_nics(uint32_t devices, uint32_t microbatches) {
  enum { compute, pp, dp, queues };
  TaskGraphBuilder builder(devices * queues);
  std::vector<ResourceId> nics;
  for (uint32_t d = 0; d < devices; ++d) nics.push_back(builder.add_resource(50e9));
  const auto stream = [](uint32_t device, uint32_t queue) {
    return StreamId{device * queues + queue};
  };
  std::vector<TaskId> arrived(microbatches, no_task);
  for (uint32_t d = 0; d < devices; ++d) {
    for (uint32_t m = 0; m < microbatches; ++m) {
      TaskId last = no_task;
      for (int layer = 0; layer < 6; ++layer) {
        last = builder.add_task(1e-3 + 1e-6 * ((d * 7 + m * 13) % 32), stream(d, compute), 0);
        if (layer == 0 && arrived[m] != no_task) builder.add_edge(arrived[m], last);
      }
      const Claim out{.resource = nics[d], .rate = 40e9F};
      const Claim both[] = {out, {.resource = nics[(d + 1) % devices], .rate = 40e9F}};
      const TaskId send = builder.add_task(2e-3, stream(d, pp), 0);
      builder.set_claims(send, 10e-6, both);
      builder.add_edge(last, send);
      arrived[m] = send;
      const TaskId reduce = builder.add_task(4e-3, stream(d, dp), 0);
      builder.set_claims(reduce, 20e-6, std::span(&out, 1));
      builder.add_edge(last, reduce);
    }
  }
  return std::move(builder).build();
}

/// What a change solves again is its component: flows solved a change, of those under way.
void count_components(benchmark::State& state, const TaskGraph& graph) {
  EngineCounts counts;
  benchmark::DoNotOptimize(run(graph, {.sharing = true, .counts = &counts}));
  const auto changes = static_cast<double>(counts.changes);
  state.counters["solved_a_change"] = static_cast<double>(counts.solved_flows) / changes;
  state.counters["under_way"] = static_cast<double>(counts.running_flows) / changes;
}

/// Target: 4 million tasks a second when a quarter are flows that share links.
void run_shared_nics_64(benchmark::State& state) {
  const TaskGraph graph = shared_nics(64, 256);
  run_graph(state, graph);
  count_components(state, graph);
}

/// Devices on which everything is shared: kernels and a collective beside them want the memory and
/// the SMs, and collectives the NIC.
TaskGraph shared_devices(uint32_t devices, uint32_t kernels) {
  enum { compute, dp, queues };
  TaskGraphBuilder builder(devices * queues);
  for (uint32_t d = 0; d < devices; ++d) {
    const ResourceId memory = builder.add_resource(3e12), nic = builder.add_resource(50e9);
    const PoolId sms = builder.add_pool(132);
    using Role = ProcessorClaim::Role;
    const Claim traffic{.resource = memory, .rate = 2.5e12F};
    const Claim wire[] = {{.resource = memory, .rate = 1e12F}, {.resource = nic, .rate = 40e9F}};
    const ProcessorClaim runs{.pool = sms, .role = Role::run, .count = 132, .blocks = 1000};
    const ProcessorClaim holds{.pool = sms, .role = Role::hold, .count = 16};
    const ClaimSetId kernel = builder.add_claims({&traffic, 1}, {&runs, 1});
    const ClaimSetId collective = builder.add_claims(wire, {&holds, 1});
    for (uint32_t k = 0; k < kernels; ++k) {
      const double seconds = 1e-4 + 1e-7 * ((d * 7 + k * 13) % 32);
      const TaskId task = builder.add_task(seconds, StreamId{d * queues + compute}, 0);
      builder.set_claims(task, 0, kernel);
      if (k % 4 != 3) continue;
      const TaskId reduce = builder.add_task(3e-4, StreamId{d * queues + dp}, 0);
      builder.set_claims(reduce, 20e-6, collective);
      builder.add_edge(task, reduce);
    }
  }
  return std::move(builder).build();
}

/// Target: 2 million tasks a second when every task shares something.
void run_shared_devices_64(benchmark::State& state) {
  const TaskGraph graph = shared_devices(64, 4096);
  run_graph(state, graph);
  count_components(state, graph);
}

void build_1f1b(benchmark::State& state) {
  keep_heap();
  const Pipeline pipeline{.stages = static_cast<uint32_t>(state.range(0)),
                          .microbatches = static_cast<uint32_t>(state.range(1))};
  uint32_t tasks = 0;
  for (auto _ : state) {
    const TaskGraph graph = one_f_one_b(pipeline);
    tasks = graph.task_count();
  }
  state.SetItemsProcessed(state.iterations() * tasks);
}

BENCHMARK(reference_sweep)->Unit(benchmark::kMillisecond);
BENCHMARK(run_1f1b_64x512)->Unit(benchmark::kMillisecond);
BENCHMARK(run_1f1b_512x1536)->Unit(benchmark::kMillisecond);
BENCHMARK(run_shared_nics_64)->Unit(benchmark::kMillisecond);
BENCHMARK(run_shared_devices_64)->Unit(benchmark::kMillisecond);
BENCHMARK(build_1f1b)->Args({64, 512})->Args({512, 1536})->Unit(benchmark::kMillisecond);

}  // namespace
