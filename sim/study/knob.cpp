#include "sim/study/knob.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

namespace stepsim {
namespace {

bool kernels(const Scenario& s) { return !s.costs; }
bool given(const Scenario& s) { return s.costs.has_value(); }
bool given_transfers(const Scenario& s) {
  return given(s) && std::any_of(s.costs->p2p_seconds.begin(), s.costs->p2p_seconds.end(),
                                 [](double seconds) { return seconds > 0; });
}
bool several_ranks(const Scenario& s) { return kernels(s) && s.parallel.world() > 1; }
bool network(const Scenario& s) {
  return several_ranks(s) && s.cluster.links.empty() && s.cluster.gpus > s.cluster.nvlink_domain;
}
bool graph(const Scenario& s) { return several_ranks(s) && !s.cluster.links.empty(); }
bool nvlink(const Scenario& s) {
  return several_ranks(s) && s.cluster.nvlink_domain > 1 &&
         s.cluster.device.nvlink_bandwidth > BytesPerSecond{};
}
bool offloads(const Scenario& s) {
  return kernels(s) && (s.offloaded_layers > 0 || s.module_offload.any() || s.host_optimizer.any());
}

void scale_gemm(Scenario& s, double f) {
  const auto all = [f](std::array<GemmCurve, dtype_count>& curves) {
    for (GemmCurve& curve : curves) curve.peak *= f;
  };
  all(s.cluster.device.gemm);
  for (Library& library : s.cluster.device.libraries) all(library.gemm);
}
void scale_attention(Scenario& s, double f) {
  const auto all = [f](AttentionCurves& curves) {
    for (AttentionCurve* curve : {&curves.bf16, &curves.fp8, &curves.mxfp8}) {
      curve->forward *= f;
      curve->backward *= f;
    }
  };
  all(s.cluster.device.attention);
  for (Library& library : s.cluster.device.libraries) all(library.attention);
}
void scale_nvlink(Scenario& s, double f) {
  s.cluster.device.nvlink_bandwidth *= f;
  s.cluster.device.nvlink_channel_bandwidth *= f;
}
void scale_links(Scenario& s, double f) {
  for (auto* links : {&s.cluster.links, &s.faults.sound_links})
    for (TopologyLink& link : *links) link.bandwidth *= f;
}
void scale_network_latency(Scenario& s, double f) {
  s.cluster.nic_latency *= f;
  for (Tier& tier : s.cluster.tiers) tier.latency *= f;
  for (auto* links : {&s.cluster.links, &s.faults.sound_links})
    for (TopologyLink& link : *links) link.latency *= f;
}
void scale_launches(Scenario& s, double f) {
  for (Seconds* cost :
       {&s.cluster.stack.launch, &s.cluster.stack.dispatch, &s.cluster.stack.graph_launch})
    *cost *= f;
}
void scale_given_kernels(Scenario& s, double f) {
  for (auto* times :
       {&s.costs->forward_seconds, &s.costs->backward_seconds, &s.costs->backward_input_seconds,
        &s.costs->backward_weight_seconds, &s.costs->forward_backward_seconds})
    for (double& time : *times) time *= f;
}

// Sigmas are those of sim/report/interval.cpp, where their sources are.
constexpr std::string_view residuals = "residuals against published measurements";
constexpr std::array<Knob, 14> knob_rows{{
    {"clocks", "GPU clocks", true, 0.05, "clocks of one GPU type", kernels,
     [](Scenario& s, double f) { s.cluster.stack.clock_factor *= f; }},
    {"gemm_rate", "GEMM rate", true, 0.05, residuals, kernels, scale_gemm},
    {"attention_rate", "attention rate", true, 0.10, residuals, kernels, scale_attention},
    {"hbm_bandwidth", "memory bandwidth", true, 0.15, residuals, kernels,
     [](Scenario& s, double f) { s.cluster.device.memory_bandwidth *= f; },
     [](const Scenario& s) { return s.cluster.device.memory_bandwidth.value; }, "B/s"},
    {"nic_bandwidth", "NIC bandwidth", true, 0.10, residuals, network,
     [](Scenario& s, double f) { s.cluster.nic_bandwidth *= f; },
     [](const Scenario& s) { return s.cluster.nic_bandwidth.value; }, "B/s"},
    {"link_bandwidth", "bandwidth of the graph's links", true, 0.10, residuals, graph, scale_links},
    {"network_latency", "network latency", false, 0.30, residuals,
     [](const Scenario& s) { return network(s) || graph(s); }, scale_network_latency},
    {"nvlink_bandwidth", "NVLink bandwidth", true, 0.10, residuals, nvlink, scale_nvlink,
     [](const Scenario& s) { return s.cluster.device.nvlink_bandwidth.value; }, "B/s"},
    {"nvlink_latency", "NVLink latency", false, 0.30, residuals, nvlink,
     [](Scenario& s, double f) {
       s.cluster.device.nvlink_latency *= f;
       s.cluster.device.nvls_latency *= f;
     }},
    {"launch_cost", "host time per launch and operator", false, 0.30, residuals,
     [](const Scenario& s) { return kernels(s) && !s.full_iteration_graph; }, scale_launches,
     [](const Scenario& s) { return s.cluster.stack.launch.value; }, "s"},
    {"step_overhead", "host work between steps", false, 0.50, "declared", kernels,
     [](Scenario& s, double f) { s.cluster.stack.step_overhead *= f; },
     [](const Scenario& s) { return s.cluster.stack.step_overhead.value; }, "s"},
    {"host_bandwidth", "bandwidth to host memory", true, 0.15, residuals, offloads,
     [](Scenario& s, double f) { s.cluster.device.host_bandwidth *= f; }},
    {"given_kernels", "speed of the given stages", true, 0.05, "declared", given,
     [](Scenario& s, double f) { scale_given_kernels(s, 1 / f); }},
    {"given_p2p", "speed of the given transfers", true, 0.10, "declared", given_transfers,
     [](Scenario& s, double f) {
       for (double& time : s.costs->p2p_seconds) time /= f;
     }},
}};

/// "46.5 GB/s", "12 us".
std::string quantity_text(double value, std::string_view unit) {
  if (unit == "B/s") return fmt::format("{:.4g} GB/s", value * 1e-9);
  if (value >= 1) return fmt::format("{:.4g} s", value);
  return value >= 1e-3 ? fmt::format("{:.4g} ms", value * 1e3)
                       : fmt::format("{:.4g} us", value * 1e6);
}

}  // namespace

std::string value_text(const Scenario& scenario, const Knob& knob, double better) {
  const double factor = knob.more_is_better ? better : 1 / better;
  const std::string share =
      factor < 2 ? fmt::format("{:.1f} %", 100 * factor) : fmt::format("{:.3g} times", factor);
  if (knob.value == nullptr || !(knob.value(scenario) > 0)) return share;
  const double nominal = knob.value(scenario);
  return fmt::format("{}, {} of {}", quantity_text(nominal * factor, knob.unit), share,
                     quantity_text(nominal, knob.unit));
}

std::span<const Knob> knobs() { return knob_rows; }

const Knob& knob(std::string_view name) {
  const auto found = std::find_if(knob_rows.begin(), knob_rows.end(),
                                  [&](const Knob& k) { return k.name == name; });
  assert(found != knob_rows.end());
  return *found;
}

Scenario turned(Scenario scenario, const Knob& knob, double better) {
  knob.scale(scenario, knob.more_is_better ? better : 1 / better);
  return scenario;
}

}  // namespace stepsim
