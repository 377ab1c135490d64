// Systems and GPUs: the full format, the short one, stack profiles, and every shipped file.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/config/reader.h"
#include "sim/config/spread.h"
#include "tests/config/bad_folder.h"
#include "tests/config/small.h"

using namespace stepsim;

TEST_CASE("a system as its file says") {
  const bad::Folder folder({"none", bad::Where::command, "name=good", ""});
  const Cluster c = read_cluster((folder.path() / "s.json").string(), 3, "", find_data());
  CHECK(c.system == "s");
  CHECK(c.nodes == 3);
  CHECK(c.gpus == 24);
  CHECK(c.nic_bandwidth.value == 50e9);  // 400 Gb/s
  CHECK(c.tiers.size() == 1);
  CHECK(c.tiers[0].latency.value == doctest::Approx(0.3e-6));
  CHECK(c.device.memory_capacity.value == 80.0 * (1 << 30));
  CHECK(c.device.gemm[static_cast<size_t>(Dtype::bf16)].peak.value == 989e12);
  CHECK(c.stack.launch.value == doctest::Approx(7e-6));
}

TEST_CASE("the short form: six facts, the rest by the kind of fabric") {
  const std::string common =
      R"("gpu": "h100", "gpus_per_node": 8, "nvlink_domain": 8, "nics_per_node": 8, "nic_rate": "400 Gb/s", )";
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("stepsim_many_" + std::to_string(::getpid()) + ".json");
  std::ofstream(file)
      << "{\"ib\": {" << common
      << R"("fabric": "infiniband", "notes": "n", "unknown": [], "source": "s"}, "roce": {)"
      << common << R"("fabric": "ethernet"}})";
  DataPaths data = find_data();
  data.more_systems = {file};  // one file may hold many systems
  const Cluster ib = read_cluster("ib", 1, "", data), roce = read_cluster("roce", 1, "", data);
  CHECK(ib.rail_optimised);
  CHECK_FALSE(roce.rail_optimised);
  CHECK(ib.nic_latency < roce.nic_latency);
  CHECK(ib.tiers.size() == 3);
  CHECK(ib.stack.launch.value > 0);
  CHECK_THROWS_AS(read_cluster("iib", 1, "", data), Error);
  std::filesystem::remove(file);
}

// Means of the largest of n standard normal numbers: 0.564, 1.424, 2.508, 3.241 for n = 2, 8, 100,
// 1000 (Harter 1961, Expected values of normal order statistics, table 1; David and Nagaraja).
TEST_CASE("the slowest of n GPUs") {
  CHECK(expected_largest(1) == 0);
  CHECK(expected_largest(2) == doctest::Approx(0.564).epsilon(0.05));
  CHECK(expected_largest(8) == doctest::Approx(1.424).epsilon(0.01));
  CHECK(expected_largest(100) == doctest::Approx(2.508).epsilon(0.005));
  CHECK(expected_largest(1000) == doctest::Approx(3.241).epsilon(0.005));
  const Cluster one = read_cluster("dgx-h100", 1, "", find_data()),
                many = read_cluster("dgx-h100", 125, "", find_data());
  CHECK(one.device.sustained == many.device.sustained);
  CHECK(one.device.slowest == doctest::Approx(1 - 0.016 * 1.424).epsilon(0.001));
  CHECK(many.device.slowest == doctest::Approx(1 - 0.016 * 3.241).epsilon(0.001));
}

// The first profile whose release prefixes the asked one serves; "" serves all.
TEST_CASE("stack profiles") {
  const std::string stacks =
      R"("stacks": [{"name": "new", "release": "Megatron-Bridge 26"}, {"name": "bridge", "release": "Megatron-Bridge"}, {"name": "old", "release": "NeMo"}])";
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("stepsim_stacks_" + std::to_string(::getpid()) + ".json");
  std::ofstream(file)
      << R"({"gpu": "h100", "gpus_per_node": 8, "nvlink_domain": 8, "nics_per_node": 8, "nic_rate": "400 Gb/s", "fabric": "infiniband", )"
      << stacks << "}";
  const auto stack = [&](const char* release) {
    return read_cluster(file.string(), 1, release, find_data()).stack.name;
  };
  CHECK(stack("Megatron-Bridge 26.08") == "new");
  CHECK(stack("Megatron-Bridge 25.11") == "bridge");
  CHECK(stack("NeMo 24.09") == "old");
  CHECK(stack("torchtitan") == "new");  // none serves: the first stands in, and a scenario says so
  const Scenario s = small({"cluster.system=" + file.string(), "software.release=torchtitan"});
  CHECK(findings(s) == std::vector<std::string>{R"(stack-profile-stands-in "torchtitan"->"new")"});
  std::filesystem::remove(file);
}

namespace {

/// Leaves of `value` that are figures and have no source above them.
void unsourced(const nlohmann::json& value, const std::string& pointer,
               const nlohmann::json& sources, std::vector<std::string>& missing) {
  if (sources.contains(pointer)) return;
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      unsourced(inner, pointer + "/" + key, sources, missing);
  } else if (value.is_number() || (value.is_string() && std::isdigit(static_cast<unsigned char>(
                                                            value.get<std::string>()[0])) != 0)) {
    missing.push_back(pointer);
  } else if (value.is_array()) {
    for (const auto& inner : value) unsourced(inner, pointer, sources, missing);
  }
}

void check_sources(const std::filesystem::path& file) {
  const Document document = load_document(file);
  nlohmann::json value = *document.root;
  const nlohmann::json sources = value.value("sources", nlohmann::json::object());
  for (const char* key : {"sources", "source", "notes", "description", "name", "architecture"})
    value.erase(key);
  std::vector<std::string> missing;
  if (!sources.contains("") && !document.root->contains("source"))
    unsourced(value, "", sources, missing);
  std::string list;
  for (const std::string& pointer : missing) list += pointer + " ";
  CAPTURE(list);
  CHECK(missing.empty());
}

}  // namespace

// Law: every shipped system and GPU reads, and every figure in it has a source.
TEST_CASE("shipped systems") {
  const DataPaths data = find_data();
  const std::vector<CatalogueRow> systems = list_clusters(data);
  CHECK(systems.size() >= 6);
  for (const CatalogueRow& row : systems) {
    CAPTURE(row.name);
    CHECK_FALSE(row.description.empty());
    CHECK(read_cluster(row.name, 2, "Megatron-Bridge 26.08", data).device.sms > 0);
    check_sources(data.root / "hardware" / (row.name + ".json"));
  }
  for (const auto& entry : std::filesystem::directory_iterator(data.root / "hardware" / "gpus")) {
    CAPTURE(entry.path().string());
    check_sources(entry.path());
  }
}

TEST_CASE("shipped scenarios read") {
  const DataPaths data = find_data();
  for (const CatalogueRow& row : list_scenarios(data)) {
    CAPTURE(row.name);
    CHECK_FALSE(row.description.empty());
    std::string what;
    try {
      read_scenario((data.root / "scenarios" / (row.name + ".json")).string(), {}, "", data);
    } catch (const Error& error) {
      what = error.what();
    }
    CHECK(what == "");
  }
}

TEST_CASE(
    "256 GPUs on NVL72 racks sit in four equal segments of 64, 144 in two whole domains, 64 in "
    "one") {
  const auto domain = [](int nodes) {
    return read_cluster("gb200-nvl72", nodes, "", find_data()).nvlink_domain;
  };
  CHECK(domain(64) == 64);
  CHECK(domain(36) == 72);
  CHECK(domain(16) == 72);
  CHECK(read_cluster("dgx-h100", 3, "", find_data()).nvlink_domain == 8);
}
