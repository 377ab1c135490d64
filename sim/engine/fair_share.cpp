#include "sim/engine/fair_share.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace stepsim {
namespace {

// Claim rates are floats: a flow given a link's whole bandwidth may exceed it by a rounding, 2^-24.
constexpr double rounding_slack = 1.0 + 1.0 / (1 << 22);
constexpr uint64_t nobody = UINT64_MAX;

double demand(const Claim& claim) { return static_cast<double>(claim.rate) * claim.multiplicity; }

}  // namespace

std::vector<uint8_t> contended_resources(const TaskGraph& graph) {
  std::vector<uint8_t> contended(graph.capacities.size(), 0);
  std::vector<uint64_t> queues(graph.capacities.size(), nobody);
  for (const FlowRow& flow : graph.flows) {
    const uint32_t task = index(flow.task);
    if (flow.latency_seconds >= graph.durations_seconds[task]) continue;  // never moves a byte
    const StreamId stream = graph.streams[task];
    const uint64_t queue =
        stream == no_stream ? (uint64_t{1} << 32) + task : uint64_t{index(stream)};
    for (uint32_t c = flow.first_claim; c < flow.last_claim; ++c) {
      const Claim& claim = graph.claims[c];
      const uint32_t r = index(claim.resource);
      if (demand(claim) <= 0) continue;
      if (queues[r] == nobody) queues[r] = queue;
      if (queues[r] != queue || demand(claim) > graph.capacities[r] * rounding_slack)
        contended[r] = 1;
    }
  }
  return contended;
}

bool is_shared(const TaskGraph& graph, const FlowRow& flow, std::span<const uint8_t> contended) {
  if (flow.latency_seconds >= graph.durations_seconds[index(flow.task)]) return false;
  const auto claims = graph.claims.subspan(flow.first_claim, flow.last_claim - flow.first_claim);
  return std::any_of(claims.begin(), claims.end(), [&](const Claim& claim) {
    return contended[index(claim.resource)] && demand(claim) > 0;
  });
}

FairShare::FairShare(const TaskGraph& graph, std::vector<uint8_t> contended)
    : rows_(graph.flows),
      claims_(graph.claims),
      contended_(std::move(contended)),
      links_(graph.capacities.size()),
      flows_(graph.flows.size()) {
  for (size_t r = 0; r < links_.size(); ++r) links_[r].capacity = graph.capacities[r];
}

void FairShare::touch(uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

void FairShare::join(uint32_t flow) {
  const FlowRow& row = rows_[flow];
  double rate = 0, tightest = 0;
  for (uint32_t c = row.first_claim; c < row.last_claim; ++c) {
    const Claim& claim = claims_[c];
    const double share = demand(claim) / links_[index(claim.resource)].capacity;
    if (share > tightest) {
      tightest = share;
      rate = claim.rate;
    }
  }
  flows_[flow].rate = rate;
  flows_[flow].speed = 1;
  flows_[flow].joined = true;
  for (uint32_t c = row.first_claim; c < row.last_claim; ++c) {
    const uint32_t r = index(claims_[c].resource);
    const double units = demand(claims_[c]);
    if (!contended_[r] || units <= 0) continue;
    std::vector<Claimant>& claimants = links_[r].claimants;
    auto place = claimants.end();
    while (place != claimants.begin() && (place - 1)->flow > flow) --place;
    claimants.insert(place, {.flow = flow, .demand = units, .level_share = units / rate});
    touch(r);
  }
}

void FairShare::leave(uint32_t flow) {
  const FlowRow& row = rows_[flow];
  for (uint32_t c = row.first_claim; c < row.last_claim; ++c) {
    const uint32_t r = index(claims_[c].resource);
    if (!contended_[r] || demand(claims_[c]) <= 0) continue;
    std::vector<Claimant>& claimants = links_[r].claimants;
    const auto place =
        std::lower_bound(claimants.begin(), claimants.end(), flow,
                         [](const Claimant& claimant, uint32_t f) { return claimant.flow < f; });
    assert(place != claimants.end() && place->flow == flow);
    claimants.erase(place);
    touch(r);
  }
}

std::span<const SpeedChange> FairShare::settle() {
  changes_.clear();
  for (uint32_t r : dirty_) {
    double total = 0;
    for (const Claimant& claimant : links_[r].claimants) total += claimant.demand;
    links_[r].binds = total > links_[r].capacity * rounding_slack;
  }
  ++visit_;
  for (uint32_t r : dirty_) {
    if (links_[r].visit != visit_) {
      gather(r);
      fill();
    }
    links_[r].dirty = false;
  }
  dirty_.clear();
  return changes_;
}

/// The flows and binding links reached from a link where something changed.
void FairShare::gather(uint32_t link) {
  component_links_.assign(1, link);
  component_flows_.clear();
  links_[link].visit = visit_;
  for (size_t next = 0; next < component_links_.size(); ++next) {
    for (const Claimant& claimant : links_[component_links_[next]].claimants) {
      Flow& flow = flows_[claimant.flow];
      if (flow.visit == visit_) continue;
      flow.visit = visit_;
      flow.closed_speed = 0;
      component_flows_.push_back(claimant.flow);
      const FlowRow& row = rows_[claimant.flow];
      for (uint32_t c = row.first_claim; c < row.last_claim; ++c) {
        Link& other = links_[index(claims_[c].resource)];
        if (other.visit == visit_ || !(other.binds || other.dirty)) continue;
        other.visit = visit_;
        component_links_.push_back(index(claims_[c].resource));
      }
    }
  }
  std::erase_if(component_links_, [&](uint32_t r) { return !links_[r].binds; });
}

/// Sets each link's level; the least one, or infinity when every flow on the links is closed.
double FairShare::least_level(double previous) {
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t r : component_links_) {
    Link& link = links_[r];
    double used = 0, open = 0;
    for (const Claimant& claimant : link.claimants) {
      const double closed_speed = flows_[claimant.flow].closed_speed;
      if (closed_speed > 0) {
        used += claimant.demand * closed_speed;
      } else {
        open += claimant.level_share;
      }
    }
    link.level = open > 0 ? std::max(previous, (link.capacity - used) / open)
                          : std::numeric_limits<double>::infinity();
    least = std::min(least, link.level);
  }
  return least;
}

void FairShare::fill() {
  double level = 0;
  for (size_t open = component_flows_.size(); open > 0;) {
    level = least_level(level);
    size_t closed = 0;
    for (uint32_t f : component_flows_) {
      if (flows_[f].closed_speed > 0 || flows_[f].rate > level) continue;
      flows_[f].closed_speed = 1;
      ++closed;
    }
    if (closed == 0) {
      for (uint32_t r : component_links_) {
        if (links_[r].level > level) continue;
        for (const Claimant& claimant : links_[r].claimants) {
          Flow& flow = flows_[claimant.flow];
          if (flow.closed_speed > 0) continue;
          flow.closed_speed = level / flow.rate;
          ++closed;
        }
      }
    }
    open -= closed;
  }
  for (uint32_t f : component_flows_) {
    Flow& flow = flows_[f];
    if (flow.closed_speed == flow.speed && !flow.joined) continue;
    flow.joined = false;
    changes_.push_back({.flow = f, .before = flow.speed, .after = flow.closed_speed});
    flow.speed = flow.closed_speed;
  }
}

}  // namespace stepsim
