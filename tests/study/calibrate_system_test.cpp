// One's own cluster, fitted to what nccl-tests prints on it.
#include "sim/study/calibrate_system.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/cluster_read.h"
#include "sim/network/operation.h"

using namespace stepsim;

namespace {

/// The output of nccl-tests of a machine that is as `cluster` says.
std::string log_of(Cluster cluster, Collective op, int nodes) {
  scale(cluster, nodes, 0);
  std::vector<int> ranks;
  std::string text = fmt::format("# Collective test starting: {}_perf\n", operation_name(op));
  for (int r = 0; r < cluster.gpus; ++r) {
    ranks.push_back(r);
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on host{} device {:2} [0x1b] NVIDIA H100\n",
                        r, 100 + r, r / cluster.gpus_per_node, r % cluster.gpus_per_node);
  }
  text += "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";
  const GroupPlacement group = place(ranks, Fabric(cluster));
  for (double bytes = 65536; bytes <= 4294967296.0; bytes *= 4) {
    const double us = collective_cost(op, {bytes}, group, cluster).duration.value * 1e6;
    text += fmt::format("{:12} {:12} float sum -1 {:9.2f} {:7.2f} {:7.2f} 0\n",
                        static_cast<long>(bytes), static_cast<long>(bytes / 4), us,
                        bytes / us * 1e-3, bytes / us * 1e-3 * bus_factor(op, group.size));
  }
  return text;
}

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "stepsim_calibrate_test";
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

}  // namespace

// Law: what is fitted to the output of a machine whose parameters are known is what it has.
TEST_CASE("nccl-tests of a known machine give back its parameters, in a file that reads") {
  const Folder folder;
  const Cluster shipped = read_cluster("dgx-h100", 1, "", find_data());
  Cluster made = shipped;
  made.device.nvlink_efficiency = 0.74;
  made.device.nvls_efficiency = 0.6;
  made.nic_efficiency = 0.8;
  made.nic_latency = {11e-6};
  const SystemCalibration fit =
      calibrate_system("dgx-h100",
                       {folder.put("a.log", log_of(made, Collective::all_reduce, 1) +
                                                log_of(made, Collective::all_reduce, 4)),
                        folder.put("b.log", log_of(made, Collective::all_gather, 1) +
                                                log_of(made, Collective::all_gather, 4))},
                       {}, find_data());
  REQUIRE(fit.links.has_value());
  CHECK(fit.links->rows == 36);
  CHECK(fit.links->median_before > 0.05);
  CHECK(fit.links->median_after < 0.01);
  const std::string file = folder.put("mine.json", fit.file_text);
  const Cluster read = read_cluster(file, 4, "", find_data());
  CHECK(read.device.nvlink_efficiency == doctest::Approx(0.74).epsilon(0.02));
  CHECK(read.device.nvls_efficiency == doctest::Approx(0.6).epsilon(0.02));
  CHECK(read.nic_efficiency == doctest::Approx(0.8).epsilon(0.02));
  CHECK(read.nic_latency.value == doctest::Approx(11e-6).epsilon(0.1));
  CHECK(read.device.sustained == shipped.device.sustained);
  const auto json = nlohmann::json::parse(fit.file_text);
  CHECK(json["sources"]["/nic_efficiency"].get<std::string>().find("a.log") != std::string::npos);
}

TEST_CASE("measurements that do not fit the system, or tell nothing, are errors") {
  const Cluster cluster = read_cluster("dgx-h100", 1, "", find_data());
  CHECK_THROWS_AS(calibrate_links(cluster, {{Collective::all_reduce, 16, 1, 1e6, 1e-3}}), Error);
  CHECK_THROWS_AS(calibrate_links(cluster, {{Collective::all_reduce, 8, 1, 1e9, 1e-3}}), Error);
  CHECK_THROWS_AS(calibrate_system("no-such-system", {}, {}, find_data()), Error);
}
