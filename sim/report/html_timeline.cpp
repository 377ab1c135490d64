#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/critical_path.h"
#include "sim/report/html_parts.h"
#include "sim/report/idle_parts.h"

namespace stepsim {
namespace {

constexpr int no_cause = -1;

/// What held a block up: a class of transfers on the way, and the block at the other end.
struct HeldUp {
  CommClass through = CommClass::none;
  bool host = false;
  uint32_t source = no_block;
};

/// Back along what each task waited for, to the first kernel of another block.
HeldUp held_up(const Drawing& d, TaskId task) {
  constexpr int most_links = 64;
  HeldUp found;
  const uint32_t own = d.blocks.of_task[index(task)];
  TaskId at = d.timeline.binding[index(task)];
  for (int link = 0; link < most_links && at != no_task; ++link) {
    const uint32_t block = d.blocks.of_task[index(at)];
    if (block != no_block && block != own) {
      found.source = block;
      return found;
    }
    const OpRow& op = row(label_of(d.step.graph, at).op);
    if (op.task_class == TaskClass::communication && found.through == CommClass::none)
      found.through = op.comm;
    found.host = found.host || op.task_class == TaskClass::host;
    at = d.timeline.binding[index(at)];
  }
  return found;
}

/// Idle seconds inside one block.
struct Inside {
  double seconds = 0, most = 0;
  int cause = no_cause;  ///< of the longest part
};

/// Idle parts of each device in order of time; those inside a block are moved to `inside`.
std::vector<std::vector<IdlePart>> parts_between(const Drawing& d,
                                                 const std::vector<IdlePart>& parts,
                                                 std::vector<Inside>& inside) {
  std::vector<std::vector<IdlePart>> between(d.step.devices.size());
  std::vector<std::array<double, cause_count>> sums(d.blocks.rows.size());
  uint32_t at = 0, device = no_block;
  for (const IdlePart& p : parts) {
    if (p.device != device) at = d.blocks.offsets[device = p.device];
    const uint32_t last = d.blocks.offsets[device + 1];
    const double middle = (p.start_seconds + p.finish_seconds) / 2;
    while (at + 1 < last && d.blocks.rows[at + 1].start_seconds <= middle) ++at;
    // Of two merged actions the one before may last longer.
    uint32_t holder = no_block;
    for (uint32_t b = at; holder == no_block && b + 2 > at && b < last; --b) {
      const Block& block = d.blocks.rows[b];
      if (block.start_seconds <= middle && middle < block.finish_seconds) holder = b;
      if (b == d.blocks.offsets[device]) break;
    }
    if (holder == no_block) {
      std::vector<IdlePart>& list = between[device];
      if (!list.empty() && list.back().cause == p.cause &&
          p.start_seconds - list.back().finish_seconds < d.tick_seconds)
        list.back().finish_seconds = p.finish_seconds;
      else
        list.push_back(p);
      continue;
    }
    Inside& i = inside[holder];
    const double seconds = p.finish_seconds - p.start_seconds;
    double& sum = sums[holder][static_cast<size_t>(p.cause)];
    sum += seconds;
    i.seconds += seconds;
    if (sum > i.most) {
      i.most = sum;
      i.cause = static_cast<int>(p.cause);
    }
  }
  return between;
}

/// Numbers of drawn blocks; those of devices that are not drawn have none.
std::vector<uint32_t> drawn_numbers(const Drawing& d) {
  std::vector<uint32_t> numbers(d.blocks.rows.size(), no_block);
  uint32_t next = 0;
  for (const uint32_t device : d.devices)
    for (uint32_t b = d.blocks.offsets[device]; b < d.blocks.offsets[device + 1]; ++b)
      numbers[b] = next++;
  return numbers;
}

Json blocks_json(const Drawing& d, uint32_t device, const std::vector<Inside>& inside,
                 const std::vector<uint32_t>& numbers) {
  std::vector<int64_t> gap, length, kind, chunk, microbatch, idle, cause, through, source;
  int64_t cursor = 0;
  double busy_until = 0;
  for (uint32_t b = d.blocks.offsets[device]; b < d.blocks.offsets[device + 1]; ++b) {
    const Block& block = d.blocks.rows[b];
    const int64_t start = ticks(d, block.start_seconds), finish = ticks(d, block.finish_seconds);
    gap.push_back(start - cursor);
    length.push_back(finish - start);
    cursor = finish;
    kind.push_back(static_cast<int>(block.kind));
    chunk.push_back(block.chunk);
    microbatch.push_back(block.microbatch == Label::no_microbatch ? -1 : block.microbatch);
    idle.push_back(std::llround(inside[b].seconds / d.tick_seconds));
    cause.push_back(inside[b].cause);
    HeldUp held;
    if (block.start_seconds > busy_until) held = held_up(d, block.first);
    busy_until = std::max(busy_until, block.finish_seconds);
    const uint32_t number = held.source == no_block ? no_block : numbers[held.source];
    through.push_back(held.host && held.through == CommClass::none
                          ? comm_class_count
                          : static_cast<int>(held.through));
    source.push_back(number == no_block ? 0 : int64_t{number} + 1);
  }
  return {{"gap", column_json(gap)},
          {"length", column_json(length)},
          {"kind", column_json(kind)},
          {"chunk", column_json(chunk)},
          {"microbatch", column_json(microbatch)},
          {"idle", column_json(idle)},
          {"cause", column_json(cause)},
          {"through", column_json(through)},
          {"source", column_json(source)}};
}

Json waits_json(const Drawing& d, const std::vector<IdlePart>& parts) {
  std::vector<int64_t> gap, length, cause;
  int64_t cursor = 0;
  for (const IdlePart& p : parts) {
    const int64_t start = std::max(cursor, ticks(d, p.start_seconds)),
                  finish = ticks(d, p.finish_seconds);
    if (finish <= start) continue;
    gap.push_back(start - cursor);
    length.push_back(finish - start);
    cause.push_back(static_cast<int>(p.cause));
    cursor = finish;
  }
  return {
      {"gap", column_json(gap)}, {"length", column_json(length)}, {"cause", column_json(cause)}};
}

/// The path as stays: in a block, or (0) in a transfer or host work between two.
Json path_json(const Drawing& d, const std::vector<uint32_t>& numbers) {
  Json block = Json::array(), device = Json::array(), start = Json::array(), finish = Json::array();
  uint32_t current = no_block;
  for (const PathTask& p : critical_tasks(d.step, d.timeline, d.end)) {
    const StreamId stream = d.step.graph.streams[index(p.task)];
    const uint32_t of = d.blocks.of_task[index(p.task)];
    const int64_t from = ticks(d, p.start_seconds), to = ticks(d, p.finish_seconds);
    const int64_t on = stream == no_stream ? -1 : int64_t{device_of(stream)};
    // What a block's own kernels wait for inside it belongs to its stay.
    const bool stays = !block.empty() && (of == current || (of == no_block && device.back() == on));
    if (stays) {
      finish.back() = to;
      continue;
    }
    if (of == no_block && from == to) continue;
    current = of;
    block.push_back(of == no_block || numbers[of] == no_block ? 0 : int64_t{numbers[of]} + 1);
    device.push_back(on);
    start.push_back(from);
    finish.push_back(to);
  }
  return {{"block", block}, {"device", device}, {"start", start}, {"finish", finish}};
}

}  // namespace

int64_t ticks(const Drawing& d, double seconds) {
  return std::llround((seconds - d.start_seconds) / d.tick_seconds);
}

Json timeline_json(const Drawing& d) {
  std::vector<Inside> inside(d.blocks.rows.size());
  const auto between = parts_between(d, idle_parts(d.step, d.timeline, d.end), inside);
  const std::vector<uint32_t> numbers = drawn_numbers(d);
  Json devices = Json::array();
  for (const uint32_t device : d.devices) {
    const SimulatedDevice& one = d.step.devices[device];
    devices.push_back({{"device", device},
                       {"rank", one.rank},
                       {"stage", one.stage},
                       {"represents", one.represents},
                       {"begin", ticks(d, d.end.begin(device))},
                       {"end", ticks(d, d.end.finish(device))},
                       {"blocks", blocks_json(d, device, inside, numbers)},
                       {"waits", waits_json(d, between[device])}});
  }
  Json causes = Json::array(), classes = Json::array();
  for (int c = 0; c < cause_count; ++c) causes.push_back(name(static_cast<Cause>(c)));
  for (int c = 0; c < comm_class_count; ++c) classes.push_back(name(static_cast<CommClass>(c)));
  return {{"tick_seconds", d.tick_seconds},
          {"finish", ticks(d, d.finish_seconds)},
          {"kinds", {"forward", "backward", "backward_input", "backward_weight", "step"}},
          {"causes", causes},
          {"classes", classes},
          {"simulated", d.step.devices.size()},
          {"devices", devices},
          {"path", path_json(d, numbers)}};
}

}  // namespace stepsim
