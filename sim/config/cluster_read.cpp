#include "sim/config/cluster_read.h"

#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/device_read.h"
#include "sim/config/spread.h"

namespace stepsim {
namespace {

using nlohmann::json;

/// What a fabric is like when the system file does not say: typical figures of its kind, priors and
/// not measurements.
struct FabricRow {
  std::string_view name;
  double nic_efficiency;
  Seconds nic_latency;
  Seconds switch_latency;
};
constexpr std::array<FabricRow, 5> fabric_rows{{
    {"infiniband", 0.95, 6.0_us, 0.25_us},  // nccl-tests rings on NDR: 47-49 of 50 GB/s a NIC
    {"ethernet", 0.93, 8.0_us, 0.5_us},     // RoCE: between NDR and EFA
    {"efa", 0.92, 20.0_us, 0.5_us},         // SRD through the proxy: rate good, latency not
    {"omni-path", 0.85, 8.0_us, 0.2_us},    // host-driven transport
    {"graph", 0.95, 6.0_us, 0.0_us},        // links carry their own latency
}};
/// Tiers of a regular fabric that are not described: wide enough for any number of nodes asked for,
/// non-blocking.
struct DefaultTier {
  std::string_view name;
  int radix;
};
constexpr std::array<DefaultTier, 3> default_tiers{
    {{"leaf", 32}, {"spine", 64}, {"core", 1 << 14}}};

/// A system without profiles: launch costs of a PyTorch framework on a current server CPU.
StackProfile default_stack() {
  StackProfile stack;
  stack.name = "default";
  stack.memory_factor = 0.8;
  stack.launch = 7.0_us;
  stack.dispatch = 40.0_us;
  stack.graph_launch = 12.0_us;
  stack.step_overhead = 10.0_ms;
  return stack;
}

StackProfile read_stack(const Reader& from) {
  StackProfile stack = default_stack();
  stack.name = from.required_string("name");
  stack.release = from.string("release", "");
  stack.clock_factor = from.number("clock_factor", 1, smallest_share, 2);
  stack.attention_factor = from.number("attention_factor", 1, smallest_share, 10);
  stack.memory_factor = from.number("memory_factor", stack.memory_factor, smallest_share, 2);
  stack.launch = {from.quantity("launch", Dimension::time, stack.launch.value)};
  stack.dispatch = {from.quantity("dispatch", Dimension::time, stack.dispatch.value)};
  stack.graph_launch = {from.quantity("graph_launch", Dimension::time, stack.graph_launch.value)};
  stack.fused_attention = from.boolean("fused_attention", true);
  stack.fused_activation = from.boolean("fused_activation", true);
  stack.scattered_messages = from.boolean("scattered_messages", false);
  stack.step_overhead = {
      from.quantity("step_overhead", Dimension::time, stack.step_overhead.value)};
  annotations(from);
  return stack;
}

void read_topology(const Reader& config, Cluster& cluster) {
  for (const Reader& link : config.children("links")) {
    cluster.links.push_back({link.required_string("from"),
                             link.required_string("to"),
                             {link.required_quantity("bandwidth", Dimension::bytes_per_second)},
                             {link.required_quantity("latency", Dimension::time, true)}});
    if (cluster.links.back().from == cluster.links.back().to)
      link.fail("to", "a link must join two different vertices");
    annotations(link);
  }
  if (cluster.fabric == "graph" && cluster.links.empty())
    config.fail("links", "is missing; fabric 'graph' needs its links");
}

}  // namespace

Cluster read_system(const Reader& config, const std::string& name, const std::string& release,
                    const DataPaths& data, const std::filesystem::path& folder, bool& stack_found) {
  Cluster cluster;
  cluster.system = name;
  cluster.file = config.file("gpu");
  cluster.pointer = config.pointer();
  cluster.description = config.string("description", "");
  const json* gpu = config.find("gpu");
  if (gpu == nullptr)
    config.fail("gpu", "is missing; expected a name in hardware/gpus or an object");
  if (gpu->is_object()) {
    cluster.device = read_device(config.child("gpu"));
  } else {
    const Located found = locate_gpu(config.required_string("gpu"), data, folder);
    if (!found.problem.empty()) config.fail("gpu", found.problem);
    const Document document = load_document(found.file);
    cluster.device = read_device(Reader(document, ""));
  }
  cluster.gpus_per_node = static_cast<int>(config.required_int("gpus_per_node", per_node_range));
  cluster.nvlink_domain = static_cast<int>(config.required_int("nvlink_domain", {1, 1 << 20}));
  if (cluster.nvlink_domain % cluster.gpus_per_node != 0 &&
      cluster.gpus_per_node % cluster.nvlink_domain != 0)
    config.fail("nvlink_domain",
                "must divide or be a multiple of " + std::to_string(cluster.gpus_per_node) +
                    " GPUs per node; got " + std::to_string(cluster.nvlink_domain));
  cluster.nics_per_node = static_cast<int>(config.required_int("nics_per_node", per_node_range));
  cluster.nic_bandwidth = {config.required_quantity("nic_rate", Dimension::bytes_per_second)};
  std::vector<std::string> fabrics;
  for (const FabricRow& row : fabric_rows) fabrics.emplace_back(row.name);
  config.required_string("fabric");
  cluster.fabric = config.choice("fabric", "", fabrics);
  for (const FabricRow& row : fabric_rows) {
    if (row.name != cluster.fabric) continue;
    cluster.nic_efficiency = fraction(config, "nic_efficiency", row.nic_efficiency);
    cluster.nic_latency = {config.quantity("nic_latency", Dimension::time, row.nic_latency.value)};
    if (!config.has("tiers") && cluster.fabric != "graph")
      for (const DefaultTier& tier : default_tiers)
        cluster.tiers.push_back({std::string(tier.name), tier.radix, 1, row.switch_latency});
  }
  cluster.rail_optimised = config.boolean("rail_optimised", cluster.fabric == "infiniband");
  for (const Reader& tier : config.children("tiers")) {
    cluster.tiers.push_back({tier.required_string("name"),
                             static_cast<int>(tier.required_int("radix", {1, 1 << 20})),
                             tier.number("oversubscription", 1, 1, 1000),
                             {tier.quantity("latency", Dimension::time, 0)}});
    annotations(tier);
  }
  constexpr size_t most_tiers = 8;
  if (cluster.tiers.size() > most_tiers)
    config.fail("tiers", "must be at most 8 tiers; got " + std::to_string(cluster.tiers.size()));
  read_topology(config, cluster);
  cluster.stack = default_stack();
  const std::vector<Reader> stacks = config.children("stacks");
  stack_found = stacks.empty();
  for (size_t i = 0; i < stacks.size(); ++i) {
    const StackProfile stack = read_stack(stacks[i]);
    const bool serves = !stack_found && release.starts_with(stack.release);
    if (serves || i == 0) cluster.stack = stack;
    stack_found |= serves;
  }
  for (const char* key : {"nvlink_domains", "name", "$schema"}) config.use(key);
  annotations(config);
  scale(cluster, 1, 0);
  return cluster;
}

void scale(Cluster& cluster, int64_t nodes, int64_t gpus) {
  cluster.nodes = static_cast<int>(nodes);
  cluster.gpus = static_cast<int>(gpus > 0 ? gpus : nodes * cluster.gpus_per_node);
  cluster.device.slowest = 1 - cluster.device.spread * expected_largest(cluster.gpus);
  // Schedulers hand out equal segments of a rack-sized domain (Slurm --segment): 256 GPUs sit on
  // four domains with 64 each, not on three full ones and a rest.
  const int whole = cluster.nvlink_domain;
  if (whole <= cluster.gpus_per_node || cluster.gpus <= whole || cluster.gpus % whole == 0) return;
  for (int used = whole; used >= cluster.gpus_per_node; used -= cluster.gpus_per_node)
    if (cluster.gpus % used == 0) {
      if (2 * used >= whole) cluster.nvlink_domain = used;
      return;
    }
}

Cluster read_cluster(const std::string& name_or_path, int nodes, const std::string& release,
                     const DataPaths& data) {
  const Located found = locate_system(name_or_path, data);
  if (!found.problem.empty()) throw Error(printable(name_or_path), "", found.problem);
  if (nodes < nodes_range.low || nodes > nodes_range.high)
    throw Error(found.file.string(), "",
                "needs from 1 to 10000000 nodes; got " + std::to_string(nodes));
  const Document document = load_document(found.file);
  bool stack_found = false;
  Cluster cluster = read_system(Reader(document, found.pointer),
                                found.pointer.empty() ? found.file.stem().string() : name_or_path,
                                release, data, found.file.parent_path(), stack_found);
  scale(cluster, nodes, 0);
  return cluster;
}

}  // namespace stepsim
