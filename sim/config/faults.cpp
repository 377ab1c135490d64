#include "sim/config/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "sim/base/table.h"
#include "sim/config/document.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using nlohmann::json;

// A share of bandwidth or rate below this is a slip of the pen; 0 means removed where it is
// allowed.
constexpr double least_share = 0.001;
constexpr double least_slowdown = 0.1, most_slowdown = 100;
// Of several faults of one place together. A step of years or of no end tells nothing.
constexpr double least_product = 0.01, rounding = 1e-9;

/// Collects faults one by one; every message points at the entry that is wrong.
class FaultReader {
 public:
  FaultReader(const ScenarioSections& sections, Scenario& scenario)
      : sections_(sections),
        s_(scenario),
        c_(scenario.cluster),
        world_(std::min(scenario.parallel.world(), scenario.cluster.gpus)),
        rows_(static_cast<size_t>(world_)),
        sound_links_(scenario.cluster.links),
        link_shares_(scenario.cluster.links.size(), 1.0) {}

  void entry(const Reader& fault);
  void slowdown(const json& list);
  void jitter(const Reader& section);
  void finish();

 private:
  int rank_of_gpu(const Reader& fault) const;
  void of_rank(const Reader& fault, const char* key, int rank);
  void of_nic(const Reader& fault);
  void of_link(const Reader& fault);
  void share_nics();
  void check_connected(const Reader& fault) const;
  void check_slowdown(const Reader& section, const char* key, int rank) const;
  static void check_share(const Reader& fault, const char* key, double left);
  double share(const Reader& fault, const char* key, bool zero_allowed) const;
  /// Whether any link was meant.
  template <class Meant>
  bool scale_links(const Reader& fault, const char* key, double left, Meant meant);
  RankFault& row(int rank) { return rows_[static_cast<size_t>(rank)]; }
  int node_of(int rank) const {
    const int block = rank / c_.gpus_per_node;
    return c_.hosts.empty() ? block : c_.hosts[static_cast<size_t>(block)];
  }
  bool free_form() const { return !c_.links.empty() || !sound_links_.empty(); }

  const ScenarioSections& sections_;
  Scenario& s_;
  Cluster& c_;
  int world_;
  std::vector<RankFault> rows_;
  std::vector<TopologyLink> sound_links_;
  std::vector<double> link_shares_;  ///< what faults leave of each link of the cluster
  bool links_changed_ = false;
  std::map<int, std::vector<double>> nics_;   ///< usable share of each NIC, by node
  std::map<int, const Reader*> last_of_nic_;  ///< the last fault of a node's NICs
};

double FaultReader::share(const Reader& fault, const char* key, bool zero_allowed) const {
  const double value = fault.number(key, 1, 0, 1);
  if (value == 0 && !zero_allowed)
    fault.fail(key,
               "0 takes the GPU off this network, and what a library falls back to is not "
               "modelled; give the share of bandwidth that is left");
  if (value > 0 && value < least_share)
    fault.fail(key, std::string("must be ") + (zero_allowed ? "0 (removed) or " : "") +
                        "from 0.001 to 1; got " + fault.text_of(key));
  if (sections_.given_costs() && fault.has(key))
    fault.fail(key, "changes nothing where costs are given: their transfers use no links");
  return value;
}

void FaultReader::check_slowdown(const Reader& section, const char* key, int rank) const {
  const double product = rows_[static_cast<size_t>(rank)].slowdown;
  if (product < least_product * (1 - rounding) || product > most_slowdown * (1 + rounding))
    section.fail(key, fmt::format("faults multiply: the kernels of rank {} would take {:.3g} times "
                                  "as long; must be from 0.01 to 100 together",
                                  rank, product));
}

void FaultReader::check_share(const Reader& fault, const char* key, double left) {
  if (left > 0 && left < least_share * (1 - rounding))
    fault.fail(key, fmt::format("faults multiply: a share of {:.3g} would be left of the "
                                "bandwidth; must be 0.001 or more together",
                                left));
}

template <class Meant>
bool FaultReader::scale_links(const Reader& fault, const char* key, double left, Meant meant) {
  bool touched = false;
  for (size_t i = 0; i < c_.links.size(); ++i) {
    if (!meant(c_.links[i])) continue;
    touched = true;
    c_.links[i].bandwidth *= left;
    check_share(fault, key, link_shares_[i] *= left);
  }
  return touched;
}

int FaultReader::rank_of_gpu(const Reader& fault) const {
  const int64_t most = std::max(int64_t{world_}, int64_t{c_.nodes} * c_.gpus_per_node);
  const auto gpu = static_cast<int>(fault.required_int("gpu", {0, most - 1}));
  int rank = gpu;
  if (!c_.hosts.empty()) {
    const auto host = std::find(c_.hosts.begin(), c_.hosts.end(), gpu / c_.gpus_per_node);
    rank = host == c_.hosts.end() ? world_
                                  : static_cast<int>(host - c_.hosts.begin()) * c_.gpus_per_node +
                                        gpu % c_.gpus_per_node;
  }
  if (rank >= world_)
    fault.fail("gpu", "no rank runs on GPU " + std::to_string(gpu) + "; the " +
                          std::to_string(world_) + " ranks do not use it");
  return rank;
}

void FaultReader::of_rank(const Reader& fault, const char* key, int rank) {
  RankFault& r = row(rank);
  r.slowdown /= fault.number("compute_factor", 1, 0.01, 10);
  r.delay_per_forward += {fault.quantity("delay_per_forward", Dimension::time, 0)};
  r.delay_per_backward += {fault.quantity("delay_per_backward", Dimension::time, 0)};
  r.delay_per_step += {fault.quantity("delay_per_step", Dimension::time, 0)};
  check_slowdown(fault, "compute_factor", rank);
  r.nvlink_factor *= share(fault, "nvlink_factor", false);
  check_share(fault, "nvlink_factor", r.nvlink_factor);
  const double nic = share(fault, "nic_factor", false);
  fault.refuse_unused();
  bool says = false;
  for (const char* what : {"compute_factor", "delay_per_forward", "delay_per_backward",
                           "delay_per_step", "nvlink_factor", "nic_factor"})
    says |= fault.has(what);
  if (!says)
    fault.fail(key,
               "is not said to have any fault; expected compute_factor, delay_per_forward, "
               "delay_per_backward, delay_per_step, nvlink_factor or nic_factor");
  if (nic == 1) return;
  if (!free_form()) {
    check_share(fault, "nic_factor", r.nic_factor *= nic);
    last_of_nic_[node_of(rank)] = &fault;
    return;
  }
  // A free-form graph has no NIC apart from the links that leave the GPU.
  const int gpu = node_of(rank) * c_.gpus_per_node + rank % c_.gpus_per_node;
  const std::string name = "gpu" + std::to_string(gpu);
  if (!scale_links(fault, "nic_factor", nic,
                   [&](const TopologyLink& link) { return link.from == name || link.to == name; }))
    fault.fail("nic_factor", "no link of the graph ends at " + name);
  links_changed_ = true;
}

void FaultReader::of_nic(const Reader& fault) {
  const std::string name = fault.required_string("nic");
  if (!fault.has("bandwidth_factor"))
    fault.fail("bandwidth_factor", "is missing; expected the share of bandwidth left, 0 to 1");
  const double left = share(fault, "bandwidth_factor", true);
  fault.refuse_unused();
  if (free_form())
    fault.fail("nic", "a free-form graph has links and no NICs; name a link or a gpu");
  const int used = (world_ + c_.gpus_per_node - 1) / c_.gpus_per_node;
  for (int block = 0; block < used; ++block) {
    const int node = c_.hosts.empty() ? block : c_.hosts[static_cast<size_t>(block)];
    const std::string prefix = "node" + std::to_string(node) + ".nic";
    if (!name.starts_with(prefix)) continue;
    for (int i = 0; i < c_.nics_per_node; ++i) {
      if (name != prefix + std::to_string(i)) continue;
      std::vector<double>& nics =
          nics_.try_emplace(node, static_cast<size_t>(c_.nics_per_node), 1.0).first->second;
      check_share(fault, "bandwidth_factor", nics[static_cast<size_t>(i)] *= left);
      last_of_nic_[node] = &fault;
      if (std::all_of(nics.begin(), nics.end(), [](double n) { return n == 0; }))
        fault.fail("nic", "is the last NIC of node" + std::to_string(node) +
                              ": nothing would connect that node with the others");
      return;
    }
  }
  fault.fail("nic", "unknown NIC '" + printable(name) + "'; expected node0.nic0 to node" +
                        std::to_string(used - 1) + ".nic" + std::to_string(c_.nics_per_node - 1) +
                        ", of a node that ranks run on");
}

void FaultReader::of_link(const Reader& fault) {
  const std::vector<std::string> ends = fault.strings("link");
  if (ends.size() != 2)
    fault.fail("link", "must name the two vertices that it joins; got " + fault.text_of("link"));
  if (!fault.has("bandwidth_factor"))
    fault.fail("bandwidth_factor", "is missing; expected the share of bandwidth left, 0 to 1");
  const double left = share(fault, "bandwidth_factor", true);
  fault.refuse_unused();
  if (!free_form())
    fault.fail("link", "system '" + printable(c_.system) +
                           "' is no free-form graph and names no links; name a gpu, a rank or a "
                           "nic");
  std::set<std::string> vertices;
  for (const TopologyLink& link : sound_links_) vertices.insert({link.from, link.to});
  const std::vector<std::string> names(vertices.begin(), vertices.end());
  for (const std::string& end : ends)
    if (!vertices.contains(end))
      fault.fail("link", "unknown vertex '" + printable(end) + "'" + suggestion(end, names));
  const auto joins = [&](const TopologyLink& link) {
    return (link.from == ends[0] && link.to == ends[1]) ||
           (link.from == ends[1] && link.to == ends[0]);
  };
  if (std::none_of(sound_links_.begin(), sound_links_.end(), joins))
    fault.fail("link",
               "no link joins " + printable(ends[0]) + " and " + printable(ends[1]) + " directly");
  links_changed_ = true;
  if (left > 0) {
    scale_links(fault, "bandwidth_factor", left, joins);
    return;
  }
  size_t kept = 0;
  for (size_t i = 0; i < c_.links.size(); ++i)
    if (!joins(c_.links[i])) link_shares_[kept++] = link_shares_[i];
  link_shares_.resize(kept);
  std::erase_if(c_.links, joins);
  check_connected(fault);
}

/// Removing a link may cut GPUs off. What was never connected is the system file's own mistake.
void FaultReader::check_connected(const Reader& fault) const {
  std::map<std::string, std::string> above;  // a forest; a root is its own parent
  const auto root = [&](std::string name) {
    above.try_emplace(name, name);
    while (above.at(name) != name) name = above.at(name) = above.at(above.at(name));
    return name;
  };
  const auto gpu = [](int i) { return "gpu" + std::to_string(i); };
  for (const TopologyLink& link : c_.links) {
    const std::string from = root(link.from), to = root(link.to);
    above[from] = to;
  }
  if (c_.nvlink_domain > 1)
    for (int i = 0; i < c_.gpus; ++i) {
      const std::string from = root(gpu(i)),
                        to = root(gpu(i / c_.nvlink_domain * c_.nvlink_domain));
      above[from] = to;
    }
  for (int i = 1; i < c_.gpus; ++i)
    if (root(gpu(i)) != root(gpu(0)))
      fault.fail("link", "without it no path of links connects " + gpu(i) + " with gpu0; all " +
                             std::to_string(c_.gpus) + " GPUs in use must be connected");
}

void FaultReader::entry(const Reader& fault) {
  static const std::vector<std::string> places{"gpu", "rank", "nic", "link"};
  std::vector<std::string> named;
  for (const std::string& place : places)
    if (fault.has(place)) named.push_back(place);
  if (named.size() > 1)
    fault.fail(named[1], "a fault is of one gpu, rank, nic or link; this one names " + named[0] +
                             " and " + named[1]);
  if (named.empty()) {
    // A misspelt place is the likelier mistake.
    for (const char* key : {"compute_factor", "delay_per_forward", "delay_per_backward",
                            "delay_per_step", "nvlink_factor", "nic_factor", "bandwidth_factor"})
      fault.use(key);
    fault.refuse_unused();
    fault.fail_here("names no place; expected gpu, rank, nic or link");
  }
  if (named[0] == "gpu") return of_rank(fault, "gpu", rank_of_gpu(fault));
  if (named[0] == "rank")
    return of_rank(fault, "rank",
                   static_cast<int>(fault.required_int("rank", {0, int64_t{world_} - 1})));
  if (named[0] == "nic") return of_nic(fault);
  of_link(fault);
}

void FaultReader::slowdown(const json& list) {
  const Reader& section = sections_.cluster;
  const std::string expected =
      "must list one factor from 0.1 to 100 for each of " + std::to_string(world_) + " ranks";
  if (!list.is_array() || list.size() != rows_.size())
    section.fail("slowdown", expected + (list.is_array() ? "; got " + std::to_string(list.size())
                                                         : std::string()));
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (!list[r].is_number() || !(list[r].get<double>() >= least_slowdown) ||
        !(list[r].get<double>() <= most_slowdown))
      section.fail("slowdown", expected + "; got " + printable(list[r].dump(-1, ' ', true), 60) +
                                   " for rank " + std::to_string(r));
    rows_[r].slowdown *= list[r].get<double>();
    check_slowdown(section, "slowdown", static_cast<int>(r));
  }
}

void FaultReader::jitter(const Reader& section) {
  const auto seed = section.optional_int("seed", {0, INT64_MAX}).value_or(1);
  const double sigma = section.required_number("sigma", 0, most_jitter);
  section.refuse_unused();
  const std::vector<double> factors = jitter_factors(static_cast<uint64_t>(seed), sigma, world_);
  // Near 1: what is allowed without jitter stays allowed whatever the seed.
  for (size_t r = 0; r < rows_.size(); ++r) rows_[r].slowdown *= factors[r];
}

/// What the NICs that are left carry. A GPU whose NICs are all gone sends through the nearest one
/// left in its node and shares it evenly with that one's GPUs.
void FaultReader::share_nics() {
  const int gpus = c_.gpus_per_node, rails = std::min(gpus, c_.nics_per_node);
  for (const auto& [node, nics] : nics_) {
    // A rail is a NIC, or all the NICs of one GPU.
    std::vector<double> left(static_cast<size_t>(rails)), own(left), users(left);
    for (int i = 0; i < c_.nics_per_node; ++i) {
      const auto rail = static_cast<size_t>(i * rails / c_.nics_per_node);
      left[rail] += nics[static_cast<size_t>(i)];
      own[rail] += 1;
    }
    for (size_t rail = 0; rail < left.size(); ++rail) left[rail] /= own[rail];
    std::vector<int> through(left.size());
    for (int rail = 0; rail < rails; ++rail) {
      int best = -1;
      for (int other = 0; other < rails; ++other)
        if (left[static_cast<size_t>(other)] > 0 &&
            (best < 0 || std::abs(other - rail) < std::abs(best - rail)))
          best = other;
      through[static_cast<size_t>(rail)] = best;
    }
    own.assign(own.size(), 0);
    for (int i = 0; i < gpus; ++i) {
      const auto rail = static_cast<size_t>(i * rails / gpus);
      own[rail] += 1;
      users[static_cast<size_t>(through[rail])] += 1;
    }
    for (int rank = 0; rank < world_; ++rank) {
      if (node_of(rank) != node) continue;
      const auto by = static_cast<size_t>(through[static_cast<size_t>(rank % gpus * rails / gpus)]);
      const Reader& last = *last_of_nic_.at(node);
      check_share(last, last.has("nic") ? "bandwidth_factor" : "nic_factor",
                  row(rank).nic_factor * left[by]);
      row(rank).nic_factor *= left[by] * own[by] / users[by];
    }
  }
}

void FaultReader::finish() {
  share_nics();
  if (links_changed_) s_.faults.sound_links = std::move(sound_links_);
  if (std::any_of(rows_.begin(), rows_.end(), [](const RankFault& r) { return r != RankFault{}; }))
    s_.faults.ranks = std::move(rows_);
}

}  // namespace

std::vector<double> jitter_factors(uint64_t seed, double sigma, int count) {
  constexpr int draws = 12;
  constexpr double unit = 0x1p-53;
  std::mt19937_64 engine(seed);
  std::vector<double> factors;
  for (int rank = 0; rank < count; ++rank) {
    double z = -draws / 2.0;
    for (int i = 0; i < draws; ++i) z += static_cast<double>(engine() >> 11) * unit;
    factors.push_back(1 + sigma * z);
  }
  return factors;
}

Scenario without_faults(Scenario scenario) {
  if (!scenario.faults.sound_links.empty()) scenario.cluster.links = scenario.faults.sound_links;
  scenario.faults = {};
  return scenario;
}

void resolve_faults(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& section = sections.cluster;
  const std::vector<Reader> entries = section.children("faults");
  const json* slowdown = section.find("slowdown");
  const Reader jitter = section.child("jitter");
  if (entries.empty() && slowdown == nullptr && !jitter.present()) return;
  const int world = std::min(scenario.parallel.world(), scenario.cluster.gpus);
  if (world > most_fault_ranks)
    section.fail(!entries.empty()      ? "faults"
                 : slowdown != nullptr ? "slowdown"
                                       : "jitter",
                 "tells ranks apart one by one: at most " + std::to_string(most_fault_ranks) +
                     "; this scenario has " + std::to_string(world));
  FaultReader reader(sections, scenario);
  for (const Reader& entry : entries) reader.entry(entry);
  if (slowdown != nullptr) reader.slowdown(*slowdown);
  if (jitter.present()) reader.jitter(jitter);
  reader.finish();
  scenario.faults.count = static_cast<int64_t>(entries.size()) +
                          world * ((slowdown != nullptr ? 1 : 0) + (jitter.present() ? 1 : 0));
}

}  // namespace stepsim
