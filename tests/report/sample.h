// A two-stage step on eight GPUs with round figures, for the tests of what is printed.
#pragma once

#include "sim/report/report.h"
#include "tests/report/small_step.h"

namespace stepsim {

inline constexpr double sample_gib = 1024.0 * 1024.0 * 1024.0;

/// 2 stages x TP2 x DP2; the device peak is 100 TFLOP/s in bf16, 200 in fp8, with 80 GiB.
inline Scenario sample_scenario() {
  Scenario s;
  s.name = "sample";
  s.model.name = "toy-7b";
  s.parallel = {.tp = 2,
                .pp = 2,
                .cp = 1,
                .dp = 2,
                .vp = {},
                .sequence_parallel = true,
                .first_stage_layers = {},
                .last_stage_layers = {}};
  s.batch = {.global = 8, .micro = 1, .sequence = 4096, .microbatches = 4};
  s.cluster.system = "dgx-toy";
  s.cluster.device.name = "Toy 80GB";
  s.cluster.device.memory_capacity = {80 * sample_gib};
  s.cluster.device.gemm[static_cast<size_t>(Dtype::bf16)].peak = 100.0_TFLOPs;
  s.cluster.device.gemm[static_cast<size_t>(Dtype::fp8)].peak = 200.0_TFLOPs;
  s.doubts.emplace().fill(0.05);
  s.findings.push_back({.id = "tp-overlap-needs-sequence-parallel",
                        .kind = Finding::Kind::silent,
                        .key = "comm_overlap.tp_comm_overlap",
                        .pointer = "/comm_overlap/tp_comm_overlap",
                        .requested = "true",
                        .effective = "false",
                        .reason = "sequence parallelism is off",
                        .file = ""});
  s.effective = {{"ddp.bucket_size", "40000000"}, {"model.tp_comm_overlap", "false"}};
  s.not_modelled = {"checkpoint.save", "logger.log_interval"};
  s.resolved_json = R"({"model": {"hf_config": "toy-7b"}})";
  return s;
}

/// Every device represents 4 ranks. Stage 1 peaks: 70 GiB and 4 GiB of reserve.
inline RanStep sample_step() {
  RanStep ran = one_f_one_b_step(2, 4, 0.25, 0.5, 0.125);
  for (SimulatedDevice& d : ran.step.devices) {
    d.represents = 4;
    d.rank = d.stage * 4;
  }
  const double unit = sample_gib;
  ran.step.memory = {{.parameters = 10 * unit, .activations = 20 * unit, .reserve = 4 * unit},
                     {.parameters = 10 * unit,
                      .gradients = 10 * unit,
                      .optimizer = 20 * unit,
                      .activations = 25 * unit,
                      .logits = 5 * unit,
                      .reserve = 4 * unit}};
  ran.step.memory_events = {{{TaskId{0}, 5 * unit}, {TaskId{2}, -5 * unit}}, {}};
  ran.step.buckets = {{.stage = 0, .chunk = 0, .count = 3, .elements = 120, .bytes = 480}};
  ran.step.tokens = 8 * 4096;
  ran.step.model_flops = 1e15;
  ran.step.hardware_flops = 1.25e15;
  return ran;
}

}  // namespace stepsim
