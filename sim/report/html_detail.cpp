#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/report/critical_path.h"
#include "sim/report/html_parts.h"
#include "sim/report/idle_parts.h"
#include "sim/report/overlap.h"

namespace stepsim {
namespace {

/// Tasks that a page shows one by one; more would make it slow to load.
constexpr size_t most_tasks_shown = 30000;
/// Shares of them for the first, a middle and the last stretch of a long step.
constexpr std::array<double, 3> shares{0.25, 0.45, 0.3};

/// A task as one stream sees it.
struct Slice {
  StreamId stream{};
  TaskId task{};
};

bool shown(const Drawing& d, TaskId task) {
  const TaskClass c = row(label_of(d.step.graph, task).op).task_class;
  return c != TaskClass::host && c != TaskClass::marker &&
         d.timeline.finish_seconds[index(task)] > d.timeline.start_seconds[index(task)];
}

/// Every slice of the drawn devices, by device, stream and time. A transfer between devices shows
/// at both ends.
std::vector<Slice> slices(const Drawing& d) {
  std::vector<bool> drawn(d.step.devices.size(), false);
  for (const uint32_t device : d.devices) drawn[device] = true;
  std::vector<Slice> all;
  for (uint32_t t = 0; t < d.step.graph.task_count(); ++t) {
    const StreamId stream = d.step.graph.streams[t];
    if (stream != no_stream && drawn[device_of(stream)] && shown(d, TaskId{t}))
      all.push_back({stream, TaskId{t}});
  }
  for (const RendezvousMember& m : d.step.members)
    if (m.stream != d.step.graph.streams[index(m.transfer)] && drawn[device_of(m.stream)] &&
        shown(d, m.transfer))
      all.push_back({m.stream, m.transfer});
  const auto start = [&](const Slice& s) { return d.timeline.start_seconds[index(s.task)]; };
  std::stable_sort(all.begin(), all.end(), [&](const Slice& a, const Slice& b) {
    return a.stream != b.stream ? index(a.stream) < index(b.stream) : start(a) < start(b);
  });
  return all;
}

/// The stretches of time to show, each of about its share of tasks; one when all can be shown.
std::vector<Interval> stretches(const Drawing& d, const std::vector<Slice>& all) {
  const double low = d.start_seconds, high = d.finish_seconds;
  if (all.size() <= most_tasks_shown || !(high > low)) return {{low, high}};
  constexpr size_t bins = 4096;
  std::vector<size_t> counts(bins, 0);
  const double width = (high - low) / bins;
  for (const Slice& s : all) {
    const double at = (d.timeline.start_seconds[index(s.task)] - low) / width;
    ++counts[std::min(bins - 1, static_cast<size_t>(std::max(0.0, at)))];
  }
  const auto most = [&](size_t i) { return shares[i] * most_tasks_shown; };
  const auto end_of = [&](size_t from, double budget) {
    double sum = 0;
    size_t bin = from;
    while (bin < bins && (bin == from || sum + static_cast<double>(counts[bin]) <= budget))
      sum += static_cast<double>(counts[bin++]);
    return bin;
  };
  const auto at = [&](size_t bin) { return low + width * static_cast<double>(bin); };
  size_t last = bins;
  double sum = 0;
  while (last > 0 && (last == bins || sum + static_cast<double>(counts[last - 1]) <= most(2)))
    sum += static_cast<double>(counts[--last]);
  return {{low, at(end_of(0, most(0)))},
          {at(bins / 2), at(end_of(bins / 2, most(1)))},
          {at(last), high}};
}

/// Words met so far, numbered.
template <class Key>
struct Numbers {
  std::map<Key, int64_t> known;
  Json words = Json::array();
  template <class Word>
  int64_t operator()(const Key& key, Word word) {
    const auto [found, added] = known.try_emplace(key, static_cast<int64_t>(known.size()));
    if (added) words.push_back(word());
    return found->second;
  }
};

/// One column a stream, with what they share.
class DetailWriter {
 public:
  DetailWriter(const Drawing& d, double tick) : d_(d), tick_(tick) {
    on_path_.assign(d.step.graph.task_count(), false);
    for (const PathTask& p : critical_tasks(d.step, d.timeline, d.end))
      on_path_[index(p.task)] = true;
    idle_ = idle_parts(d.step, d.timeline, d.end);
  }

  Json window(const Interval& w, const std::vector<Slice>& all) {
    std::vector<Slice> inside;
    for (const Slice& s : all)
      if (start(s.task) < w.finish && finish(s.task) > w.start) inside.push_back(s);
    std::map<uint32_t, int64_t> number;  // of the first slice of a task
    for (size_t i = 0; i < inside.size(); ++i)
      number.try_emplace(index(inside[i].task), static_cast<int64_t>(i));
    Json streams = Json::array();
    for (size_t first = 0, last = 0; first < inside.size(); first = last) {
      while (last < inside.size() && inside[last].stream == inside[first].stream) ++last;
      streams.push_back(stream({&inside[first], &inside[first] + (last - first)}, number));
    }
    return {{"low", place(w.start)},
            {"high", place(w.finish)},
            {"streams", streams},
            {"idle", idle(w)}};
  }
  Json finish(Json windows, size_t tasks) {
    return {{"tick_seconds", tick_},   {"tasks", tasks},        {"ops", ops_.words},
            {"scopes", scopes_.words}, {"texts", texts_.words}, {"windows", std::move(windows)}};
  }

 private:
  double start(TaskId t) const { return d_.timeline.start_seconds[index(t)]; }
  double finish(TaskId t) const { return d_.timeline.finish_seconds[index(t)]; }
  int64_t place(double seconds) const { return std::llround((seconds - d_.start_seconds) / tick_); }

  /// What each drawn device does not compute within the window, by cause.
  Json idle(const Interval& w) const {
    Json rows = Json::array();
    auto part = idle_.begin();
    for (const uint32_t device : d_.devices) {
      Json gap = Json::array(), length = Json::array(), cause = Json::array();
      int64_t cursor = 0;
      while (part != idle_.end() && part->device < device) ++part;
      for (; part != idle_.end() && part->device == device; ++part) {
        const int64_t from = std::max(cursor, place(part->start_seconds)),
                      to = place(part->finish_seconds);
        if (part->finish_seconds <= w.start || part->start_seconds >= w.finish || to <= from)
          continue;
        gap.push_back(from - cursor);
        length.push_back(to - from);
        cause.push_back(static_cast<int>(part->cause));
        cursor = to;
      }
      rows.push_back({{"device", device}, {"gap", gap}, {"length", length}, {"cause", cause}});
    }
    return rows;
  }

  Json stream(std::span<const Slice> list, const std::map<uint32_t, int64_t>& number) {
    Json gap = Json::array(), length = Json::array(), op = Json::array(), layer = Json::array(),
         scope = Json::array(), wait = Json::array(), path = Json::array();
    int64_t cursor = 0;
    TaskId before = no_task;
    for (size_t i = 0; i < list.size(); ++i) {
      const TaskId task = list[i].task;
      const Label label = label_of(d_.step.graph, task);
      const int64_t from = place(start(task)), to = place(finish(task));
      gap.push_back(from - cursor);
      length.push_back(to - from);
      cursor = to;
      op.push_back(ops_(std::pair(label.op, label.pass), [&] {
        const OpRow& r = row(label.op);
        return Json{r.name, name(label.pass), static_cast<int>(r.task_class),
                    static_cast<int>(r.comm)};
      }));
      layer.push_back(label.layer == Label::no_layer ? -1 : label.layer);
      scope.push_back(scopes_(std::pair(label.microbatch, label.chunk), [&] {
        return Json{label.microbatch == Label::no_microbatch ? -1 : label.microbatch, label.chunk};
      }));
      wait.push_back(waited(task, before, number));
      if (on_path_[index(task)]) path.push_back(i);
      before = task;
    }
    const StreamId id = list.front().stream;
    return {{"device", device_of(id)},
            {"stream", name(stream_of(id))},
            {"gap", gap},
            {"length", length},
            {"op", op},
            {"layer", layer},
            {"scope", scope},
            {"wait", wait},
            {"path", path}};
  }

  /// 0: for nothing but the task before it; n > 0: for slice n - 1 of this window; n < 0: for text
  /// -n - 1.
  int64_t waited(TaskId task, TaskId before, const std::map<uint32_t, int64_t>& number) {
    TaskId binding = d_.timeline.binding[index(task)];
    if (binding == no_task || binding == before) return 0;
    // Arrivals and meetings take no time: what came last behind them is what held the task up.
    for (int link = 0; link < 4 && binding != no_task && binding != before; ++link) {
      if (row(label_of(d_.step.graph, binding).op).task_class != TaskClass::marker) break;
      if (d_.timeline.binding[index(binding)] == no_task) break;
      binding = d_.timeline.binding[index(binding)];
    }
    if (binding == before) return 0;
    if (const auto found = number.find(index(binding)); found != number.end())
      return found->second + 1;
    Label label = label_of(d_.step.graph, binding);
    const StreamId stream = d_.step.graph.streams[index(binding)];
    std::string text;
    if (row(label.op).task_class == TaskClass::host)
      text = std::string(row(label.op).name) + " by the host";
    else
      text = describe(label);
    if (stream != no_stream)
      text += ", rank " + std::to_string(d_.step.devices[device_of(stream)].rank);
    return -1 - texts_(text, [&] { return Json(text); });
  }

  const Drawing& d_;
  double tick_;
  std::vector<bool> on_path_;
  std::vector<IdlePart> idle_;  ///< by device and time
  Numbers<std::pair<OpKind, Pass>> ops_;
  Numbers<std::pair<uint16_t, uint8_t>> scopes_;
  Numbers<std::string> texts_;
};

/// Two digits of base 64 a part: the share in which it moves, and in which it moves under compute.
constexpr std::string_view digits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/// Seconds of `intervals` in each of `parts` equal parts of the drawing.
std::vector<double> by_part(const Drawing& d, const std::vector<Interval>& intervals,
                            size_t parts) {
  std::vector<double> sums(parts, 0);
  const double width = (d.finish_seconds - d.start_seconds) / static_cast<double>(parts);
  for (const Interval& i : intervals) {
    auto part = static_cast<size_t>(std::max(0.0, (i.start - d.start_seconds) / width));
    for (; part < parts; ++part) {
      const double low = d.start_seconds + width * static_cast<double>(part);
      if (low >= i.finish) break;
      sums[part] += std::max(0.0, std::min(i.finish, low + width) - std::max(i.start, low));
    }
  }
  for (double& s : sums) s /= width;
  return sums;
}

std::vector<Interval> common(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    append(out, {std::max(a[i].start, b[j].start), std::min(a[i].finish, b[j].finish)});
    if (a[i].finish < b[j].finish)
      ++i;
    else
      ++j;
  }
  return out;
}

char digit(double share) {
  return digits[static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 63))];
}

}  // namespace

Json detail_json(const Drawing& d) {
  const std::vector<Slice> all = slices(d);
  DetailWriter writer(d, d.tick_seconds / 100);
  Json windows = Json::array();
  for (const Interval& w : stretches(d, all)) windows.push_back(writer.window(w, all));
  return writer.finish(std::move(windows), all.size());
}

Json activity_json(const Drawing& d) {
  if (!(d.finish_seconds > d.start_seconds)) return nullptr;
  constexpr size_t parts = 480;
  std::vector<std::vector<Interval>> compute(d.step.devices.size());
  std::map<StreamId, std::vector<Interval>> moving;
  std::map<StreamId, CommClass> classes;
  for (const Slice& s : slices(d)) {
    const OpRow& op = row(label_of(d.step.graph, s.task).op);
    const Interval i{d.timeline.start_seconds[index(s.task)],
                     d.timeline.finish_seconds[index(s.task)]};
    if (stream_of(s.stream) != Stream::compute) {
      append(moving[s.stream], i);
      classes.try_emplace(s.stream, op.comm);
    } else if (op.task_class != TaskClass::communication) {
      append(compute[device_of(s.stream)], i);
    }
  }
  Json rows = Json::array();
  for (auto& [stream, intervals] : moving) {
    const std::vector<Interval> united = interval_union(std::move(intervals));
    const std::vector<double> all = by_part(d, united, parts),
                              hidden =
                                  by_part(d, common(united, compute[device_of(stream)]), parts);
    std::string text;
    for (size_t p = 0; p < parts; ++p) (text += digit(all[p])) += digit(hidden[p]);
    rows.push_back({{"device", device_of(stream)},
                    {"stream", name(stream_of(stream))},
                    {"class", static_cast<int>(classes[stream])},
                    {"parts", text}});
  }
  return {{"digits", digits}, {"rows", rows}};
}

}  // namespace stepsim
