#include "sim/engine/fair_share.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace stepsim {
namespace {

// Claim rates are floats: a flow given a link's whole bandwidth may exceed it by a rounding, 2^-24.
constexpr double rounding_slack = 1.0 + 1.0 / (1 << 22);

double demand(const Claim& claim) { return static_cast<double>(claim.rate) * claim.multiplicity; }

}  // namespace

std::vector<uint8_t> contended_resources(const TaskGraph& graph) {
  std::vector<uint8_t> contended(graph.capacities.size(), 0);
  std::vector<uint64_t> queues(graph.capacities.size(), no_queue);
  std::vector<uint64_t> seen(graph.claim_sets.size(), no_queue);  // same set and queue, same claims
  for (const FlowRow& flow : graph.flows) {
    if (flow.latency_seconds >= graph.durations_seconds[index(flow.task)])
      continue;  // never moves a byte
    const uint64_t queue = graph.queue_of(flow.task);
    if (std::exchange(seen[index(flow.set)], queue) == queue) continue;
    for (const Claim& claim : graph.claims_of(flow)) {
      const uint32_t r = index(claim.resource);
      if (demand(claim) <= 0) continue;
      if (queues[r] == no_queue) queues[r] = queue;
      if (queues[r] != queue || demand(claim) > graph.capacities[r] * rounding_slack)
        contended[r] = 1;
    }
  }
  return contended;
}

std::vector<uint8_t> shared_sets(const TaskGraph& graph, std::span<const uint8_t> contended) {
  std::vector<uint8_t> shared;
  shared.reserve(graph.claim_sets.size());
  for (const ClaimSet& set : graph.claim_sets)
    shared.push_back(std::any_of(
        graph.claims.begin() + set.first_claim, graph.claims.begin() + set.last_claim,
        [&](const Claim& claim) { return contended[index(claim.resource)] && demand(claim) > 0; }));
  return shared;
}

FairShare::FairShare(const TaskGraph& graph, std::span<const uint8_t> contended)
    : graph_(graph), links_(graph.capacities.size()) {
  for (size_t r = 0; r < links_.size(); ++r) links_[r].capacity = graph.capacities[r];
  sets_.reserve(graph.claim_sets.size());
  for (const ClaimSet& set : graph.claim_sets) {
    const auto claims = graph.claims.subspan(set.first_claim, set.last_claim - set.first_claim);
    SharedSet shared{.first = static_cast<uint32_t>(shares_.size())};
    double tightest = 0;
    for (const Claim& claim : claims) {
      const double share = demand(claim) / links_[index(claim.resource)].capacity;
      if (share > tightest) {
        tightest = share;
        shared.rate = claim.rate;
      }
    }
    for (const Claim& claim : claims) {
      const double units = demand(claim);
      if (contended[index(claim.resource)] && units > 0)
        shares_.push_back({index(claim.resource), units, units / shared.rate});
    }
    shared.last = static_cast<uint32_t>(shares_.size());
    sets_.push_back(shared);
  }
}

inline void FairShare::touch(uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

void FairShare::join(uint32_t slot, uint32_t flow) {
  if (flows_.size() <= slot) flows_.resize(slot + 1);
  Flow& f = flows_[slot];
  f.row = flow;
  f.set = sets_[index(graph_.flows[flow].set)];
  f.speed = f.cap = 1;
  f.joined = true;
  for (const Share& share : shares_of(f)) {
    std::vector<Claimant>& claimants = links_[share.link].claimants;
    auto place = claimants.end();
    while (place != claimants.begin() && (place - 1)->flow > flow) --place;
    claimants.insert(place, {slot, flow, share.demand, share.level_share});
    touch(share.link);
  }
  if (shares_of(f).empty()) lone_.push_back(slot);
}

void FairShare::set_cap(uint32_t slot, double cap) {
  Flow& f = flows_[slot];
  if (f.cap == cap) return;
  f.cap = cap;
  for (const Share& share : shares_of(f)) touch(share.link);
  if (shares_of(f).empty()) lone_.push_back(slot);
}

void FairShare::leave(uint32_t slot) {
  const Flow& f = flows_[slot];
  for (const Share& share : shares_of(f)) {
    std::vector<Claimant>& claimants = links_[share.link].claimants;
    const auto place = std::lower_bound(
        claimants.begin(), claimants.end(), f.row,
        [](const Claimant& claimant, uint32_t row) { return claimant.flow < row; });
    assert(place != claimants.end() && place->flow == f.row);
    claimants.erase(place);
    touch(share.link);
  }
}

inline void FairShare::change_speed(uint32_t slot, double speed) {
  Flow& f = flows_[slot];
  if (speed == f.speed && !f.joined) return;
  f.joined = false;
  changes_.push_back({.slot = slot, .before = f.speed, .after = speed});
  f.speed = speed;
}

std::span<const SpeedChange> FairShare::settle() {
  changes_.clear();
  for (uint32_t f : lone_) change_speed(f, flows_[f].cap);
  lone_.clear();
  for (uint32_t r : dirty_) {
    double total = 0;
    for (const Claimant& claimant : links_[r].claimants)
      total += claimant.demand * flows_[claimant.slot].cap;
    links_[r].binds = total > links_[r].capacity * rounding_slack;
  }
  ++visit_;
  for (uint32_t r : dirty_) {
    if (links_[r].visit != visit_) {
      gather(r);
      if (component_links_.empty())
        run_free();
      else
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
      Flow& flow = flows_[claimant.slot];
      if (flow.visit == visit_) continue;
      flow.visit = visit_;
      flow.closed_speed = 0;
      component_flows_.push_back(claimant.slot);
      for (const Share& share : shares_of(flow)) {
        Link& other = links_[share.link];
        if (other.visit == visit_ || !(other.binds || other.dirty)) continue;
        other.visit = visit_;
        component_links_.push_back(share.link);
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
      const double closed_speed = flows_[claimant.slot].closed_speed;
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

/// No link binds: everyone closes at its cap.
void FairShare::run_free() {
  for (uint32_t f : component_flows_) change_speed(f, flows_[f].cap);
  solved_flows_ += component_flows_.size();
}

void FairShare::fill() {
  double level = 0;
  for (size_t open = component_flows_.size(); open > 0;) {
    level = least_level(level);
    size_t closed = 0;
    for (uint32_t f : component_flows_) {
      Flow& flow = flows_[f];
      if (flow.closed_speed > 0 || flow.set.rate * flow.cap > level) continue;
      flow.closed_speed = flow.cap;
      ++closed;
    }
    if (closed == 0) {
      for (uint32_t r : component_links_) {
        if (links_[r].level > level) continue;
        for (const Claimant& claimant : links_[r].claimants) {
          Flow& flow = flows_[claimant.slot];
          if (flow.closed_speed > 0) continue;
          flow.closed_speed = level / flow.set.rate;
          ++closed;
        }
      }
    }
    open -= closed;
  }
  for (uint32_t f : component_flows_) change_speed(f, flows_[f].closed_speed);
  solved_flows_ += component_flows_.size();
}

}  // namespace stepsim
