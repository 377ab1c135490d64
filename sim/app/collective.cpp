// `stepsim collective`: the table of nccl-tests, predicted.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/base/table.h"
#include "sim/config/cluster_read.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"
#include "sim/config/scenario_load.h"
#include "sim/network/operation.h"

namespace stepsim::app {
namespace {

constexpr int most_members = 1 << 20;

[[noreturn]] void refuse(const std::string& flag, const std::string& message) {
  throw Error(std::string(command_line_name), "/" + flag, message);
}

/// "8M": binary units as in nccl-tests; "8 MB" and "8MiB" as in our files.
double read_size(const std::string& text) {
  constexpr std::string_view units = "KMGT";
  std::string number = text;
  double unit = 1;
  if (!text.empty() && units.find(text.back()) != std::string_view::npos) {
    for (size_t i = 0; i <= units.find(text.back()); ++i) unit *= 1024;
    number.pop_back();
  }
  constexpr double most = 1024.0 * 1024 * 1024 * 1024 * 1024;
  if (!number.empty() && number.size() <= 18 &&
      number.find_first_not_of("0123456789") == std::string::npos && std::stod(number) > 0) {
    const double bytes = std::stod(number) * unit;
    if (bytes > most)
      refuse("--bytes", "must be at most 1 PiB, 1024T; got '" + printable(text) + "'");
    return bytes;
  }
  refuse("--bytes",
         "must be sizes such as 8M, 8M..8G or 4K,1M,1G (K, M, G, T are powers of 1024); got '" +
             printable(text) + "'");
}

/// "8M..8G" doubles; "4K,1M" is a list.
std::vector<double> read_sizes(const std::string& text) {
  std::vector<double> sizes;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    start = end + 1;
    const size_t dots = part.find("..");
    const double from = read_size(part.substr(0, dots));
    const double to = dots == std::string::npos ? from : read_size(part.substr(dots + 2));
    if (to < from) refuse("--bytes", "must rise from left to right; got '" + printable(part) + "'");
    for (double size = from; size <= to; size *= 2) sizes.push_back(size);
  }
  return sizes;
}

struct Group {
  std::vector<int> ranks;
  int nodes = 1;
};

/// Which GPUs take part: `per_node` of each node, the first ones.
Group choose(const Cluster& cluster, int gpus, int per_node) {
  const int most = cluster.gpus_per_node;
  if (per_node > most)
    refuse("--per-node", fmt::format("must be at most {} GPUs per node; got {}", most, per_node));
  const int each = per_node > 0 ? per_node : most;
  const int64_t there = int64_t{each} * cluster.nodes;
  const int64_t members = gpus > 0 ? gpus : there;
  if (members > there)
    refuse("--gpus", fmt::format("must be at most {} nodes x {} GPUs = {}; got {}", cluster.nodes,
                                 each, there, members));
  if (members < 2) refuse("--gpus", "must be at least 2");
  if (members > most_members)
    refuse("--gpus", fmt::format("must be at most {}; got {}", most_members, members));
  Group group;
  for (int i = 0; i < members; ++i) group.ranks.push_back(i / each * most + i % each);
  group.nodes = static_cast<int>((members + each - 1) / each);
  return group;
}

/// What the words say that is for this command to read: refuses what it does not simulate, and
/// takes cluster.gpus for --gpus. True when they give a number of nodes.
bool read_words(CollectiveOptions& options) {
  Document document{std::string(command_line_name),
                    std::make_shared<nlohmann::json>(nlohmann::json::object()),
                    {}};
  apply_overrides(document, options.overrides);
  const Reader software(document, "/software"), cluster(document, "/cluster");
  if (software.has("nccl") && software.text_of("nccl") == "\"\"")
    software.fail("nccl", "must be a version such as 2.27.5; got ''");
  for (const char* key : {"faults", "slowdown", "jitter"})
    if (cluster.has(key))
      cluster.fail(key, "is not simulated here; a collective runs on sound GPUs (stepsim run)");
  if (const auto gpus = cluster.optional_int("gpus", {2, most_members})) {
    if (options.gpus > 0 && options.gpus != *gpus)
      cluster.fail("gpus", fmt::format("is {}, but --gpus is {}", *gpus, options.gpus));
    options.gpus = static_cast<int>(*gpus);
  }
  return cluster.has("nodes");
}

/// Without a number of nodes: as many as --gpus needs, else one NVLink domain.
Cluster read_system_asked(CollectiveOptions& options) {
  std::string cluster = options.cluster;
  const bool given = read_words(options) || cluster.find(':') != std::string::npos;
  const DataPaths data = find_data();
  std::vector<std::string> whole_nodes = options.overrides;
  whole_nodes.emplace_back("cluster.gpus=null");
  if (!given) {
    const Cluster one = read_cluster_words(cluster + ":1", whole_nodes, data);
    const int each =
        options.per_node > 0 ? std::min(options.per_node, one.gpus_per_node) : one.gpus_per_node;
    const int nodes = options.gpus > 0 ? (options.gpus + each - 1) / each
                                       : std::max(1, one.nvlink_domain / one.gpus_per_node);
    cluster += ":" + std::to_string(std::max(1, nodes));
  }
  // The first GPUs of each node are not the first of all.
  return read_cluster_words(cluster, options.per_node > 0 ? whole_nodes : options.overrides, data);
}

/// "2 NVLink domains of 8"; "of 3 to 4" where they are not alike.
std::string domains_text(const std::vector<int>& ranks, const Fabric& fabric) {
  std::map<int, int> members;
  for (const int rank : ranks) ++members[fabric.domain_of(rank)];
  const auto [fewest, most] =
      std::minmax_element(members.begin(), members.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string text = fmt::format("{} NVLink domain{} of {}", members.size(),
                                 members.size() == 1 ? "" : "s", fewest->second);
  if (most->second > fewest->second) text += fmt::format(" to {}", most->second);
  return text;
}

std::string size_text(double bytes) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (unit + 1 < units.size() && bytes >= 1024) bytes /= 1024, ++unit;
  return fmt::format("{:.4g} {}", bytes, units[unit]);
}

}  // namespace

int collective(const CollectiveOptions& asked) {
  CollectiveOptions options = asked;
  const std::optional<Collective> op = operation_named(options.op);
  if (!op)
    throw Error(std::string(command_line_name), "/op",
                "unknown operation '" + printable(options.op) + "'" +
                    suggestion(options.op, operation_names()));
  if (options.cluster.empty())
    throw Error(std::string(command_line_name), "/--cluster",
                "is required: NAME[:NODES] (stepsim list clusters)");
  if (!options.json_file.empty() &&
      same_file(options.json_file, options.cluster.substr(0, options.cluster.rfind(':'))))
    refuse("--json", "would overwrite the system '" + printable(options.cluster) + "'");
  const std::vector<double> sizes = read_sizes(options.bytes);
  const Cluster cluster = read_system_asked(options);
  const Group chosen = choose(cluster, options.gpus, options.per_node);
  const Fabric fabric(cluster);
  const GroupPlacement group = place(chosen.ranks, fabric);

  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::string text = fmt::format(
      "{} of {} GPUs on {} node{} of {}: {}\n\n{:>12}{:>12}{:>12}"
      "{:>12}  {:<13}{:<10}{:>8}{:>6}\n{:>12}{:>12}{:>12}{:>12}\n",
      operation_name(*op), group.size, chosen.nodes, chosen.nodes == 1 ? "" : "s", cluster.system,
      domains_text(chosen.ranks, fabric), "size", "time", "algbw", "busbw", "algorithm", "protocol",
      "channels", "SMs", "", "us", "GB/s", "GB/s");
  for (const double bytes : sizes) {
    const CollectiveCost cost = collective_cost(*op, {bytes}, group, cluster);
    const double algbw = bytes / cost.duration.value;
    const double busbw = algbw * bus_factor(*op, group.size);
    text += fmt::format("{:>12} {:>11.1f}{:>12.2f}{:>12.2f}  {:<13}{:<10}{:>8}{:>6}\n",
                        size_text(bytes), cost.duration.value * 1e6, algbw * 1e-9, busbw * 1e-9,
                        cost.algorithm, cost.protocol.empty() ? "-" : cost.protocol, cost.channels,
                        cost.sms);
    rows.push_back({{"op", operation_name(*op)},
                    {"bytes", bytes},
                    {"seconds", cost.duration.value},
                    {"algbw_bytes_per_second", algbw},
                    {"busbw_bytes_per_second", busbw},
                    {"algorithm", cost.algorithm},
                    {"protocol", cost.protocol.empty() ? nlohmann::ordered_json(nullptr)
                                                       : nlohmann::ordered_json(cost.protocol)},
                    {"channels", cost.channels},
                    {"sms", cost.sms}});
  }
  text +=
      "\nsize: the whole buffer, as in nccl-tests. algbw = size / time; busbw = algbw x what a "
      "link\n"
      "must carry of the size, so that it compares with the link. One collective, alone.\n";
  Output json(options.json_file);
  if (json.asked()) {
    json.stream() << rows.dump(2) << "\n";
    json.close();
  }
  if (!json.standard()) write_all("-", text);
  return 0;
}

}  // namespace stepsim::app
