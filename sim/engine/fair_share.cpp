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

inline void FairShare::freshen(uint32_t slot) {
  if (!flows_[slot].fresh) fresh_.push_back(slot);
  flows_[slot].fresh = true;
}

void FairShare::join(uint32_t slot, uint32_t flow) {
  if (flows_.size() <= slot) flows_.resize(slot + 1);
  Flow& f = flows_[slot];
  f.row = flow;
  f.set = sets_[index(graph_.flows[flow].set)];
  f.speed = f.cap = 1;
  f.joined = true;
  freshen(slot);
  for (const Share& share : shares_of(f)) {
    std::vector<Claimant>& claimants = links_[share.link].claimants;
    auto place = claimants.end();
    while (place != claimants.begin() && (place - 1)->flow > flow) --place;
    claimants.insert(place, {slot, flow, share.demand, share.level_share});
    touch(share.link);
  }
}

/// A link that does not bind cannot begin to when less is asked of it.
void FairShare::set_cap(uint32_t slot, double cap) {
  Flow& f = flows_[slot];
  if (f.cap == cap) return;
  const bool more = cap > f.cap;
  f.cap = cap;
  freshen(slot);
  for (const Share& share : shares_of(f))
    if (more || links_[share.link].binds) touch(share.link);
}

void FairShare::leave(uint32_t slot) {
  Flow& f = flows_[slot];
  f.fresh = false;
  for (const Share& share : shares_of(f)) {
    std::vector<Claimant>& claimants = links_[share.link].claimants;
    const auto place = std::lower_bound(
        claimants.begin(), claimants.end(), f.row,
        [](const Claimant& claimant, uint32_t row) { return claimant.flow < row; });
    assert(place != claimants.end() && place->flow == f.row);
    claimants.erase(place);
    if (links_[share.link].binds) touch(share.link);
  }
}

inline void FairShare::change_speed(uint32_t slot, double speed) {
  Flow& f = flows_[slot];
  if (speed == f.speed && !f.joined) return;
  f.joined = false;
  changes_.push_back({.slot = slot, .before = f.speed, .after = speed});
  f.speed = speed;
}

/// Flows of a link that binds, or did, are solved together with all that they reach. The others run
/// at their caps: of them only who is fresh has another speed than before.
std::span<const SpeedChange> FairShare::settle() {
  changes_.clear();
  size_t binding = 0;
  for (uint32_t r : dirty_) {
    Link& link = links_[r];
    double total = 0;
    for (const Claimant& claimant : link.claimants)
      total += claimant.demand * flows_[claimant.slot].cap;
    const bool bound = link.binds;
    link.binds = total > link.capacity * rounding_slack;
    link.dirty = false;
    if (bound || link.binds) dirty_[binding++] = r;
  }
  dirty_.resize(binding);
  ++visit_;
  for (uint32_t r : dirty_)
    if (links_[r].visit != visit_) solve(r);
  dirty_.clear();
  for (uint32_t slot : fresh_) {
    Flow& f = flows_[slot];
    if (!f.fresh) continue;  // gone already
    f.fresh = false;
    if (f.visit == visit_) continue;
    change_speed(slot, f.cap);
    ++solved_flows_;
  }
  fresh_.clear();
  return changes_;
}

void FairShare::solve(uint32_t link) {
  gather(link);
  if (component_links_.empty()) {
    for (uint32_t f : component_flows_) change_speed(f, flows_[f].cap);
  } else {
    fill();
  }
  solved_flows_ += component_flows_.size();
}

/// The flows and binding links reached from a link that binds or did.
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
        if (other.visit == visit_ || !other.binds) continue;
        other.visit = visit_;
        component_links_.push_back(share.link);
      }
    }
  }
  if (!links_[link].binds) component_links_.erase(component_links_.begin());
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
}

}  // namespace stepsim
