// A template: the tasks of one module pass (a layer's forward, its backward, the head ...) on one
// device, with times. Every microbatch stamps it into the graph, so costs and dependencies are
// worked out once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/units.h"
#include "sim/engine/claims.h"
#include "sim/lower/label.h"
#include "sim/lower/meeting.h"

namespace stepsim {

/// One task to be stamped. Operations of one stream follow each other without being told.
struct TemplateOp {
  static constexpr int32_t none = -1;      ///< no dependency
  static constexpr int32_t previous = -2;  ///< the compute task before the template

  double duration_seconds = 0;
  double latency_seconds = 0;  ///< communication: part that moves no bytes
  double launch_lag_seconds =
      0;  ///< host time from the start of the template's launches to this one
  double nvlink_rate = 0, nic_rate = 0;  ///< link load while bytes move, bytes/s
  double memory_rate = 0;                ///< memory traffic at full speed, bytes/s
  ProcessorClaim runner;                 ///< of a kernel, without its pool
  uint32_t sms = 0;                      ///< that a communication kernel holds
  std::array<int32_t, 3> after{none, none,
                               none};  ///< operations of this template, beside stream order
  OpKind op{};
  Pass pass{};
  Stream stream = Stream::compute;
  Meeting group = Meeting::count;  ///< whom communication meets; count: as its kind says
  uint8_t part = 0;
  bool userbuffers = false;  ///< communication of Transformer Engine's userbuffers, not of NCCL
  bool captured = false;     ///< inside a CUDA graph: its first operation launches all of it
  bool launch_edge = true;   ///< false when earlier launches imply this one
  int launches = 1;          ///< kernels that this one stands for, each launched
  int operators = 1;         ///< framework operators around them
  int nodes = 0;             ///< scheduler's calls before it, captured or not
  bool other = false;        ///< belongs to the second of two microbatches
};

/// Operations that the host launches without waiting for the device. `waits_for`: the operation
/// that the host waits for first (a copy to the host that it reads), or none.
struct LaunchSegment {
  int32_t first_op = 0;
  int32_t waits_for = TemplateOp::none;
  double host_seconds = 0;  ///< launching all of it
};

/// Operations in issue order.
struct Template {
  std::vector<TemplateOp> ops;
  std::vector<LaunchSegment> segments;  ///< never empty
};

}  // namespace stepsim
