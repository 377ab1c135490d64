#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/html_parts.h"

namespace stepsim {
namespace {

/// Points a device at most; where there are more, each shown one is the fullest of its part.
constexpr size_t most_points = 2400;

struct Level {
  double seconds = 0, activations = 0, logits = 0;
  double sum() const { return activations + logits; }
};

/// What is alive after each change; one a moment.
std::vector<Level> levels(const Drawing& d, uint32_t device) {
  struct Change {
    double seconds = 0, activations = 0, logits = 0;
  };
  std::vector<Change> changes;
  for (const MemoryEvent& e : d.step.memory_events[device]) {
    const bool allocates = e.bytes + e.logits >= 0;
    const auto& when = allocates ? d.timeline.start_seconds : d.timeline.finish_seconds;
    changes.push_back({when[index(e.task)], e.bytes, e.logits});
  }
  // What is freed at a moment is free before the next allocation: the order of the schedule.
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.seconds < b.seconds; });
  std::vector<Level> out{{d.start_seconds, 0, 0}};
  for (const Change& c : changes) {
    Level next = out.back();
    next.activations += c.activations;
    next.logits += c.logits;
    next.seconds = c.seconds;
    if (out.back().seconds == c.seconds)
      out.back() = next;
    else
      out.push_back(next);
  }
  return out;
}

std::vector<Level> thinned(const std::vector<Level>& all, double low, double high) {
  if (all.size() <= most_points) return all;
  std::vector<Level> out;
  const double width = (high - low) / most_points;
  double until = low;
  for (const Level& l : all) {
    if (out.empty() || l.seconds >= until) {
      out.push_back(l);
      until = low + width * (std::floor((l.seconds - low) / width) + 1);
    } else if (l.sum() > out.back().sum()) {
      out.back().activations = l.activations;
      out.back().logits = l.logits;
    }
  }
  out.push_back(all.back());
  return out;
}

}  // namespace

Json memory_series_json(const Drawing& d) {
  if (d.scenario.costs || d.step.memory.empty()) return nullptr;
  constexpr double unit = 1 << 20;
  Json rows = Json::array();
  bool thin = false;
  for (const uint32_t device : d.devices) {
    const DeviceMemory& m = d.step.memory[device];
    const std::vector<Level> all = levels(d, device);
    thin = thin || all.size() > most_points;
    double most = 0, activations = 0;
    for (const Level& l : all)
      if (l.sum() > most) {
        most = l.sum();
        activations = l.activations;
      }
    Json gap = Json::array(), live = Json::array(), logits = Json::array();
    int64_t cursor = 0, held = 0, kept = 0;
    for (const Level& l : thinned(all, d.start_seconds, d.finish_seconds)) {
      const int64_t at = ticks(d, l.seconds), now = std::llround(l.activations / unit),
                    also = std::llround(l.logits / unit);
      gap.push_back(at - cursor);
      live.push_back(now - held);
      logits.push_back(also - kept);
      cursor = at;
      held = now;
      kept = also;
    }
    rows.push_back({{"device", device},
                    {"parameters", m.parameters},
                    {"gradients", m.gradients},
                    {"optimizer", m.optimizer},
                    {"buffers", m.buffers},
                    {"reserve", m.reserve},
                    // Of the peak, what lives only while one layer is worked on.
                    {"working", std::max(0.0, m.activations - activations)},
                    {"gap", gap},
                    {"activations", live},
                    {"logits", logits}});
  }
  return {{"unit_bytes", unit},
          {"capacity_bytes", d.scenario.cluster.device.memory_capacity.value},
          {"thinned", thin},
          {"rows", rows}};
}

}  // namespace stepsim
