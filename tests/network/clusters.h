// Clusters filled by hand with round figures, so that expected values can be worked out on paper.
#pragma once

#include "sim/config/cluster.h"

namespace stepsim::test {

inline double us(Seconds s) { return s.value * 1e6; }
inline double gbps(BytesPerSecond r) { return r.value * 1e-9; }

/// NVLink 400 GB/s usable, 2 us a hop; start-up 20 us (8 MB at 400 GB/s).
inline Device round_device() {
  Device device;
  device.name = "round";
  device.nvlink_bandwidth = 500.0_GBps;
  device.nvlink_efficiency = 0.8;
  device.nvlink_latency = 2.0_us;
  device.nvlink_half_message = {8e6};
  device.nvlink_own_share = 0.5;
  device.nvlink_channel_bandwidth = 20.0_GBps;
  return device;
}

/// Eight GPUs and eight NICs of 40 GB/s usable a node; rails meet in leaves of 32 nodes, 4 leaves
/// in a spine, then a core. A network hop costs 6 us and 0.5 us a switch.
inline Cluster dgx_h100(int nodes) {
  Cluster cluster;
  cluster.system = "dgx-h100";
  cluster.device = round_device();
  cluster.nic_bandwidth = 50.0_GBps;
  cluster.nic_efficiency = 0.8;
  cluster.nic_latency = 6.0_us;
  cluster.fabric = "infiniband";
  cluster.tiers = {{"leaf", 32, 1, 0.5_us}, {"spine", 4, 1, 0.5_us}, {"core", 4, 1, 0.5_us}};
  cluster.nodes = nodes;
  cluster.gpus = nodes * 8;
  return cluster;
}

/// The same with NVLS at 300 GB/s on the wire after 30 us, SHARP, and nothing forbidden.
inline Cluster with_switches(int nodes) {
  Cluster cluster = dgx_h100(nodes);
  cluster.device.architecture = "hopper";
  cluster.device.nvls_efficiency = 0.6;
  cluster.device.nvls_latency = 30.0_us;
  cluster.nccl.collnet = true;
  return cluster;
}

/// Trays of four GPUs and four NICs; 18 trays share NVLink.
inline Cluster gb200_nvl72(int nodes) {
  Cluster cluster = dgx_h100(nodes);
  cluster.system = "gb200-nvl72";
  cluster.gpus_per_node = 4;
  cluster.nics_per_node = 4;
  cluster.nvlink_domain = 72;
  cluster.device.nvlink_bandwidth = 1000.0_GBps;
  cluster.gpus = nodes * 4;
  return cluster;
}

/// Two NICs for eight GPUs, no rails, racks of two nodes whose uplinks carry a quarter and pods
/// whose uplinks carry half.
inline Cluster ethernet(int nodes) {
  Cluster cluster = dgx_h100(nodes);
  cluster.system = "ethernet";
  cluster.fabric = "ethernet";
  cluster.nics_per_node = 2;
  cluster.rail_optimised = false;
  cluster.tiers = {{"rack", 2, 4, 1.0_us}, {"pod", 2, 2, 1.0_us}, {"core", 8, 1, 1.0_us}};
  return cluster;
}

/// Four single GPUs in a ring of 10 GB/s links: gpu0 - gpu1 - gpu2 - gpu3 - gpu0.
inline Cluster ring_of_four() {
  Cluster cluster = dgx_h100(1);
  cluster.system = "ring";
  cluster.file = "ring.json";
  cluster.fabric = "graph";
  cluster.gpus_per_node = 1;
  cluster.nvlink_domain = 1;
  cluster.nics_per_node = 1;
  cluster.nic_efficiency = 1;
  cluster.nic_latency = {};
  cluster.nodes = cluster.gpus = 4;
  for (int gpu = 0; gpu < 4; ++gpu)
    cluster.links.push_back(
        {"gpu" + std::to_string(gpu), "gpu" + std::to_string((gpu + 1) % 4), 10.0_GBps, 1.0_us});
  return cluster;
}

/// Two nodes of two GPUs with NVLink inside, each GPU on its node's switch at 20 GB/s, one 30 GB/s
/// link between the switches.
inline Cluster dumbbell() {
  Cluster cluster = ring_of_four();
  cluster.system = "dumbbell";
  cluster.gpus_per_node = cluster.nvlink_domain = 2;
  cluster.nodes = 2;
  cluster.links = {{"gpu0", "left", 20.0_GBps, 1.0_us},
                   {"gpu1", "left", 20.0_GBps, 1.0_us},
                   {"gpu2", "right", 20.0_GBps, 1.0_us},
                   {"gpu3", "right", 20.0_GBps, 1.0_us},
                   {"left", "right", 30.0_GBps, 3.0_us}};
  return cluster;
}

}  // namespace stepsim::test
