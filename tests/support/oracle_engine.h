// A plain engine to compare with: every task, fixed or not, goes through one heap in time order,
// and at every event all speeds are computed anew over all running flows. Written from the
// definitions, for clarity only.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/engine/task_graph.h"
#include "sim/engine/timeline.h"
#include "tests/support/oracle_share.h"

namespace stepsim::test {

/// The timeline of a graph that can finish; of one that cannot, `unfinished` counts the tasks left
/// over.
struct OracleResult {
  Timeline timeline;
  uint32_t unfinished = 0;
};

inline OracleResult run_oracle(const TaskGraph& graph, bool sharing = true) {
  const uint32_t tasks = graph.task_count();
  OracleResult result{.timeline = {}, .unfinished = tasks};
  Timeline& out = result.timeline;
  out.start_seconds.assign(tasks, 0);
  out.finish_seconds.assign(tasks, 0);
  out.binding.assign(tasks, no_task);
  std::vector<uint32_t> waiting(graph.predecessor_counts.begin(), graph.predecessor_counts.end());
  std::vector<uint32_t> flow_of(tasks, UINT32_MAX);
  for (uint32_t f = 0; f < graph.flows.size(); ++f) flow_of[index(graph.flows[f].task)] = f;

  enum Kind { begin, arrive, finish };
  using Event = std::tuple<double, uint32_t, Kind>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> heap;
  const auto constrain = [&](uint32_t from, double time, uint32_t to) {
    if (time > out.start_seconds[to] ||
        (time == out.start_seconds[to] && TaskId{from} < out.binding[to])) {
      out.start_seconds[to] = time;
      out.binding[to] = TaskId{from};
    }
    if (--waiting[to] == 0) heap.push({out.start_seconds[to], to, begin});
  };

  /// A flow under way.
  struct Running {
    uint32_t flow;
    double work_left, speed, since;
    double due() const { return since + work_left / speed; }
  };
  std::vector<Running> running;
  const auto complete = [&](uint32_t task, double now) {
    out.finish_seconds[task] = now;
    out.makespan_seconds = std::max(out.makespan_seconds, now);
    --result.unfinished;
    for (uint32_t e = graph.finish_offsets[task]; e < graph.finish_offsets[task + 1]; ++e) {
      constrain(task, now, graph.finish_targets[e]);
    }
  };
  for (uint32_t t = 0; t < tasks; ++t) {
    if (waiting[t] == 0) heap.push({0, t, begin});
  }
  while (!heap.empty() || !running.empty()) {
    auto next =
        std::min_element(running.begin(), running.end(), [&](const Running& a, const Running& b) {
          return std::pair(a.due(), a.flow) < std::pair(b.due(), b.flow);
        });
    double now;
    if (next != running.end() && (heap.empty() || next->due() <= std::get<0>(heap.top()))) {
      now = next->due();
      const uint32_t task = index(graph.flows[next->flow].task);
      running.erase(next);
      complete(task, now);
    } else {
      const auto [time, task, kind] = heap.top();
      now = time;
      heap.pop();
      const uint32_t f = flow_of[task];
      const bool flows = sharing && f != UINT32_MAX;
      if (kind == begin) {
        const bool starts = !graph.start_offsets.empty();
        for (uint32_t e = starts ? graph.start_offsets[task] : 0;
             starts && e < graph.start_offsets[task + 1]; ++e) {
          constrain(task, now + graph.start_lags_seconds[e], graph.start_targets[e]);
        }
        if (flows) {
          heap.push({now + graph.flows[f].latency_seconds, task, arrive});
        } else {
          heap.push({now + graph.durations_seconds[task], task, finish});
        }
        continue;
      }
      if (kind == finish) {
        complete(task, now);
        continue;
      }
      running.push_back(
          {f, graph.durations_seconds[task] - graph.flows[f].latency_seconds, 1, now});
    }
    std::vector<uint32_t> flows;
    for (const Running& r : running) flows.push_back(r.flow);
    const std::vector<double> speeds = oracle_speeds(graph, flows);
    for (size_t i = 0; i < running.size(); ++i) {
      running[i].work_left -= (now - running[i].since) * running[i].speed;
      running[i].since = now;
      running[i].speed = speeds[i];
    }
  }
  return result;
}

}  // namespace stepsim::test
