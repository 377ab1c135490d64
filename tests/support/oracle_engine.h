// A plain engine to compare with: every task, fixed or not, goes through one heap in time order,
// and at every event all speeds are computed anew over all running flows. Written from the
// definitions, for clarity only.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/engine/processors.h"
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

  using Role = ProcessorClaim::Role;
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
    double work_left, speed, since, began;
    double due() const { return since + work_left / speed; }
  };
  std::vector<Running> running;
  /// A flow that asks for its processors at `time`, or waits for runners to have no more than so
  /// much work left.
  struct Holder {
    double time;
    uint32_t flow;
    bool asked;
    std::vector<std::pair<uint32_t, double>> waits{};
  };
  std::vector<Holder> holders;
  std::vector<uint32_t> held(graph.pool_sizes.size(), 0);
  // What nobody runs on is there at once, not after all else of its instant.
  const std::vector<uint8_t> contended = contended_pools(graph);
  const auto claims_of = [&](uint32_t flow) {
    return graph.processor_claims_of(graph.flows[flow]);
  };
  const auto holds = [&](const ProcessorClaim& c) {
    return contended[index(c.pool)] && (c.role == Role::hold || c.role == Role::take);
  };
  const auto free = [&](PoolId pool) {
    const uint32_t size = graph.pool_sizes[index(pool)], taken = held[index(pool)];
    return taken < size ? size - taken : 1;
  };
  const auto waves = [](double blocks, double processors) {
    return std::ceil(blocks / processors);
  };
  const auto cap = [&](const ProcessorClaim& c) {
    const double n = free(c.pool);
    if (n >= c.count) return 1.0;
    if (c.blocks == 0) return n / c.count;
    // Wave by wave: so many blocks at once, at the rate that they reach together.
    const auto time = [&](double processors) {
      double total = 0, left = c.blocks;
      for (; left > 0; left -= processors) {
        const double blocks = std::min(left, processors);
        total += blocks / std::min(1.0, blocks / (c.saturating > 0 ? c.saturating : c.count));
      }
      return total;
    };
    return time(c.count) / time(n);
  };
  const auto complete = [&](uint32_t task, double now) {
    if (sharing && flow_of[task] != UINT32_MAX) {
      for (const ProcessorClaim& c : claims_of(flow_of[task]))
        if (contended[index(c.pool)] && (c.role == Role::hold || c.role == Role::give))
          held[index(c.pool)] -= c.count;
    }
    out.finish_seconds[task] = now;
    out.makespan_seconds = std::max(out.makespan_seconds, now);
    --result.unfinished;
    for (uint32_t e = graph.finish_offsets[task]; e < graph.finish_offsets[task + 1]; ++e) {
      constrain(task, now, graph.finish_targets[e]);
    }
  };
  const auto waits_of = [&](uint32_t flow, double now) {
    std::vector<std::pair<uint32_t, double>> waits;
    for (const ProcessorClaim& c : claims_of(flow)) {
      if (!holds(c)) continue;
      for (const Running& r : running) {
        for (const ProcessorClaim& runner : claims_of(r.flow)) {
          if (runner.role != Role::run || runner.pool != c.pool || runner.blocks == 0) continue;
          if (r.began == now && !c.yields) continue;
          // It has no more processors than blocks.
          if (c.count + std::min(runner.count, runner.blocks) <= graph.pool_sizes[index(c.pool)])
            continue;
          const FlowRow& row = graph.flows[r.flow];
          const double total = graph.durations_seconds[index(row.task)] - row.latency_seconds;
          const double count = runner.persistent ? 1 : waves(runner.blocks, runner.count);
          const double wave = total / count;
          const double position = (total - r.work_left) / wave;
          const double end = std::max(1.0, std::ceil(position - 1e-9));
          const bool last = end == count;
          if (end - position > 1e-9) waits.emplace_back(r.flow, last ? 0 : total - end * wave);
        }
      }
    }
    return waits;
  };
  /// When the last of a holder's waves ends, at today's speeds.
  double clock = 0;
  const auto ready_at = [&](const Holder& h) {
    double time = std::max(h.time, clock);
    for (const auto& [flow, left] : h.waits)
      for (const Running& r : running)
        if (r.flow == flow)
          time = std::max(
              time, left == 0 ? r.due() : r.since + std::max(0.0, r.work_left - left) / r.speed);
    return time;
  };
  for (uint32_t t = 0; t < tasks; ++t) {
    if (waiting[t] == 0) heap.push({0, t, begin});
  }
  while (!heap.empty() || !running.empty() || !holders.empty()) {
    auto next =
        std::min_element(running.begin(), running.end(), [&](const Running& a, const Running& b) {
          return std::pair(a.due(), a.flow) < std::pair(b.due(), b.flow);
        });
    double holder_time = std::numeric_limits<double>::infinity();
    for (const Holder& h : holders) holder_time = std::min(holder_time, ready_at(h));
    double now;
    if (next != running.end() && (heap.empty() || next->due() <= std::get<0>(heap.top())) &&
        next->due() <= holder_time) {
      now = clock = next->due();
      const uint32_t task = index(graph.flows[next->flow].task);
      running.erase(next);
      complete(task, now);
    } else if (heap.empty() || holder_time < std::get<0>(heap.top())) {
      // Nothing else happens at this instant: all its holders ask at once.
      now = clock = holder_time;
      std::vector<Holder> batch, rest;
      for (const Holder& h : holders) (ready_at(h) == now ? batch : rest).push_back(h);
      holders = rest;
      std::sort(batch.begin(), batch.end(),
                [](const Holder& a, const Holder& b) { return a.flow < b.flow; });
      for (Running& r : running) {
        r.work_left -= (now - r.since) * r.speed;
        r.since = now;
      }
      for (Holder& h : batch) h.waits = h.asked ? h.waits : waits_of(h.flow, now);
      for (Holder& h : batch) {
        const uint32_t flow = h.flow, task = index(graph.flows[flow].task);
        if (!h.asked && !h.waits.empty()) {
          holders.push_back({now, flow, true, h.waits});
          continue;
        }
        bool moves = false;
        for (const ProcessorClaim& c : claims_of(flow)) {
          if (holds(c)) held[index(c.pool)] += c.count;
          moves = moves || c.role == Role::hold;
        }
        moves ? heap.push({now + graph.flows[flow].latency_seconds, task, arrive})
              : complete(task, now);
      }
    } else {
      const auto [time, task, kind] = heap.top();
      now = clock = time;
      heap.pop();
      const uint32_t f = flow_of[task];
      const bool flows = sharing && f != UINT32_MAX;
      if (kind == begin) {
        const bool starts = !graph.start_offsets.empty();
        for (uint32_t e = starts ? graph.start_offsets[task] : 0;
             starts && e < graph.start_offsets[task + 1]; ++e) {
          constrain(task, now + graph.start_lags_seconds[e], graph.start_targets[e]);
        }
        const auto claims = flows ? claims_of(f) : std::span<const ProcessorClaim>();
        if (std::any_of(claims.begin(), claims.end(), holds)) {
          holders.push_back({now, f, false});
        } else if (flows) {
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
      const double work = graph.durations_seconds[task] - graph.flows[f].latency_seconds;
      if (work <= 0) {
        complete(task, now);
      } else {
        running.push_back({f, work, 1, now, now});
      }
    }
    std::vector<uint32_t> flows;
    std::vector<double> caps;
    for (const Running& r : running) {
      flows.push_back(r.flow);
      caps.push_back(1);
      for (const ProcessorClaim& c : claims_of(r.flow))
        if (c.role == Role::run) caps.back() = cap(c);
    }
    const std::vector<double> speeds = oracle_speeds(graph, flows, caps);
    for (size_t i = 0; i < running.size(); ++i) {
      Running& r = running[i];
      r.work_left -= (now - r.since) * r.speed;
      r.since = now;
      r.speed = speeds[i];
    }
  }
  return result;
}

}  // namespace stepsim::test
