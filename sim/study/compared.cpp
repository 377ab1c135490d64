#include "sim/study/compared.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/parallel/mesh.h"
#include "sim/report/page.h"

namespace stepsim {
namespace {

using nlohmann::ordered_json;

/// The simulated device that stands for a rank: itself, or one of its stage.
uint32_t device_of_rank(const Scenario& s, const LoweredStep& step, int rank) {
  const auto find = [&](auto holds) {
    const auto at = std::find_if(step.devices.begin(), step.devices.end(), holds);
    return at == step.devices.end() ? UINT32_MAX : static_cast<uint32_t>(at - step.devices.begin());
  };
  uint32_t device = find([&](const SimulatedDevice& d) { return d.rank == rank; });
  if (device == UINT32_MAX && rank < s.parallel.world()) {
    const int stage = Mesh(s.parallel).coordinates(rank).pp;
    device = find([&](const SimulatedDevice& d) { return d.stage == stage; });
  }
  return device == UINT32_MAX ? 0 : device;
}

std::string milli(double seconds) { return fmt::format("{:.1f} ms", seconds * 1e3); }
std::string percent_of(const std::optional<Communication>& c) {
  const std::optional<double> e = c ? c->efficiency() : std::nullopt;
  return e ? fmt::format("{:.1f} %", 100 * *e) : "-";
}
std::string ratio(double measured, double predicted) {
  return predicted > 0 && measured > 0 ? fmt::format("{:.2f}", measured / predicted) : "-";
}

ordered_json class_json(const std::optional<Communication>& c) {
  if (!c) return nullptr;
  const std::optional<double> e = c->efficiency();
  return {{"total_seconds", c->total_seconds},
          {"hidden_seconds", c->hidden_seconds},
          {"waiting_seconds", c->waiting_seconds},
          {"overlap_efficiency", e ? ordered_json(*e) : nullptr}};
}

}  // namespace

std::array<bool, comm_class_count> present_classes(const CommunicationTable& table) {
  std::array<bool, comm_class_count> present{};
  for (size_t c = 0; c < present.size(); ++c) present[c] = table.by_class[c].has_value();
  return present;
}

PredictedDevice predicted_device(const Scenario& scenario, Simulation& simulation,
                                 std::optional<int> rank) {
  LoweredStep& step = simulation.lowered;
  const Timeline& timeline = simulation.timeline;
  const StepEnd end = step_end(step, timeline);
  const uint32_t device = device_of_rank(scenario, step, rank.value_or(0));
  for (uint32_t d = 0; d < step.devices.size(); ++d) step.devices[d].represents = d == device;
  PredictedDevice out{.rank = step.devices[device].rank,
                      .stage = step.devices[device].stage,
                      .step_seconds = end.seconds,
                      .communication = communication(step, timeline, end),
                      .kernel_seconds = kernel_seconds(step, timeline, end, device),
                      .streams = {}};
  for (const double s : out.kernel_seconds) out.compute_seconds += s;
  std::array<std::vector<Interval>, stream_count> busy;
  std::array<uint64_t, stream_count> events{};
  const auto add = [&](StreamId stream, Interval i) {
    if (stream == no_stream || device_of(stream) != device || i.finish <= i.start) return;
    const auto s = static_cast<size_t>(stream_of(stream));
    ++events[s];
    append(busy[s], {std::max(i.start, end.begin(device)), std::min(i.finish, end.finish(device))});
  };
  for (uint32_t t = 0; t < step.graph.task_count(); ++t)
    if (row(label_of(step.graph, TaskId{t}).op).task_class != TaskClass::marker)
      add(step.graph.streams[t], {timeline.start_seconds[t], timeline.finish_seconds[t]});
  for (const RendezvousMember& m : step.members) add(m.stream, moving(step, timeline, m));
  for (size_t s = 0; s < stream_count; ++s) {
    if (events[s] == 0 || static_cast<Stream>(s) == Stream::host) continue;
    out.streams.push_back({.id = static_cast<int64_t>(s),
                           .mostly = std::string(name(static_cast<Stream>(s))),
                           .busy_seconds = length(interval_union(std::move(busy[s]))),
                           .events = events[s]});
  }
  return out;
}

std::string compared_text(const Recording& m, const PredictedDevice& p) {
  Page page(page_width);
  page.line("Trace          {}: {} GPU events{}; beside it simulated rank {} (stage {})",
            m.steps == 0   ? "one step, none is annotated"
            : m.steps == 1 ? m.first
                           : fmt::format("mean of {} steps, {} to {}", m.steps, m.first, m.last),
            m.events, m.rank ? fmt::format(" of rank {}", *m.rank) : "", p.rank, p.stage);
  page.blank();
  page.line("{:<16}{:>13}{:>13}{:>10}{:>15}{:>13}{:>10}{:>10}", "Overlap", "measured", "hidden", "",
            "predicted", "hidden", "", "waits");
  const auto line = [&](std::string_view what, const std::optional<Communication>& a,
                        const std::optional<Communication>& b) {
    if ((!a || a->total_seconds <= 0) && (!b || b->total_seconds <= 0)) return;
    const Communication x = a.value_or(Communication{}), y = b.value_or(Communication{});
    page.line("  {:<14}{:>13}{:>13}{:>10}{:>15}{:>13}{:>10}{:>10}", what, milli(x.total_seconds),
              milli(x.hidden_seconds), percent_of(a), milli(y.total_seconds),
              milli(y.hidden_seconds), percent_of(b), milli(y.waiting_seconds));
  };
  line("all", m.communication.overall, p.communication.overall);
  for (size_t c = 1; c < comm_class_count; ++c)
    line(name(static_cast<CommClass>(c)), m.communication.by_class[c], p.communication.by_class[c]);
  page.line("  (a recorded kernel also waits for its peers; predicted apart, as \"waits\")");
  page.blank();
  page.line("{:<16}{:>13}{:>15}{:>10}", "Kernels", "measured", "predicted", "ratio");
  for (size_t k = 0; k < kernel_class_count; ++k)
    if (m.kernel_seconds[k] + p.kernel_seconds[k] > 0)
      page.line("  {:<14}{:>13}{:>15}{:>10}", name(static_cast<KernelClass>(k)),
                milli(m.kernel_seconds[k]), milli(p.kernel_seconds[k]),
                ratio(m.kernel_seconds[k], p.kernel_seconds[k]));
  page.line("  {:<14}{:>13}{:>15}{:>10}", "none runs", milli(m.step_seconds - m.compute_seconds),
            milli(p.step_seconds - p.compute_seconds),
            ratio(m.step_seconds - m.compute_seconds, p.step_seconds - p.compute_seconds));
  page.blank();
  const auto streams = [](const std::vector<RecordedStream>& all, bool numbered) {
    std::vector<RecordedStream> sorted = all;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.busy_seconds > b.busy_seconds; });
    std::vector<std::string> words;
    for (const RecordedStream& s : sorted)
      words.push_back(numbered ? fmt::format("{} ({}) {}", s.id, s.mostly, milli(s.busy_seconds))
                               : fmt::format("{} {}", s.mostly, milli(s.busy_seconds)));
    return words;
  };
  page.list("Streams        measured   ", streams(m.streams, true), 3);
  page.list("               predicted  ", streams(p.streams, false), 3);
  if (m.guessed > 0)
    page.line("Groups         {} transfers name no process group: taken by operation and layout",
              m.guessed);
  return page.text();
}

ordered_json compared_json(const Recording& m, const PredictedDevice& p) {
  const auto side = [](double step, const CommunicationTable& table, const auto& kernels,
                       double compute, const std::vector<RecordedStream>& all) {
    ordered_json classes, kinds, streams = ordered_json::array();
    classes["overall"] = class_json(table.overall);
    for (size_t c = 1; c < comm_class_count; ++c)
      classes[std::string(name(static_cast<CommClass>(c)))] = class_json(table.by_class[c]);
    for (size_t k = 0; k < kernel_class_count; ++k)
      kinds[std::string(name(static_cast<KernelClass>(k)))] = kernels[k];
    for (const RecordedStream& s : all)
      streams.push_back({{"stream", s.id},
                         {"mostly", s.mostly},
                         {"busy_seconds", s.busy_seconds},
                         {"events", s.events}});
    return ordered_json{{"step_time_seconds", step},
                        {"communication", classes},
                        {"kernel_seconds", kinds},
                        {"compute_seconds", compute},
                        {"streams", streams}};
  };
  ordered_json measured =
      side(m.step_seconds, m.communication, m.kernel_seconds, m.compute_seconds, m.streams);
  measured["steps"] = m.steps;
  measured["rank"] = m.rank ? ordered_json(*m.rank) : nullptr;
  measured["guessed_groups"] = m.guessed;
  ordered_json predicted =
      side(p.step_seconds, p.communication, p.kernel_seconds, p.compute_seconds, p.streams);
  predicted["rank"] = p.rank;
  predicted["stage"] = p.stage;
  return {{"measured", measured}, {"predicted", predicted}};
}

}  // namespace stepsim
