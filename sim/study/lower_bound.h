// A step that no simulation of a scenario undercuts, hundreds of times faster to work out.
//
// Lowering makes a graph; the engine starts no task before its predecessors allow it and lets none
// run faster than alone on the machine. So the longest path through any part of the graph's edges,
// with every task at full speed, is a lower bound of the step. The part that is taken here:
//   * inside a layer's pass: its kernels in order, its collectives, the host's waits;
//   * one after another on a device: the passes of its schedule;
//   * between devices: a forward waits for the previous virtual stage's and for the message, a
//     backward for the next one's;
//   * around them: the optimizer, the gathers that the first forward needs, the reductions that
//     only the last backward releases, and the norm.
// Left out, so below: whatever shares links, SMs and memory bandwidth; launch queues; messages that
// block; offload. With equal stages and free communication this is (m + p - 1) / m of the work, or
// (vm + p - 1) / vm with interleaving: the closed forms of the bubble.
// Law (tests/study): lower_bound(s) <= simulate(s), and near it.
#pragma once

#include "sim/base/units.h"
#include "sim/config/scenario.h"

namespace stepsim {

/// Of a scenario without given costs.
Seconds lower_bound(const Scenario& scenario);

}  // namespace stepsim
