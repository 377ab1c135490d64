#include "sim/report/phases.h"

#include <algorithm>

namespace stepsim {
namespace {

enum class Phase { optimizer, forward, backward };

/// Which phase a kernel belongs to; scaling a bucket before its reduction ends no backward.
Phase phase_of(Label label, Phase current) {
  if (label.op == OpKind::grad_scale) return current;
  switch (label.pass) {
    case Pass::forward:
      return Phase::forward;
    case Pass::step:
      return Phase::optimizer;
    case Pass::backward_data:
    case Pass::backward_weight:
    case Pass::recompute:
    case Pass::backward:
      return Phase::backward;
  }
  return current;
}

}  // namespace

std::vector<Phases> phases(const LoweredStep& step, const Timeline& timeline, StepEnd end) {
  struct Cursor {
    Phase phase = Phase::optimizer;
    double since_seconds = 0;
  };
  std::vector<Cursor> cursors(step.devices.size());
  for (size_t d = 0; d < cursors.size(); ++d) cursors[d].since_seconds = end.begin(d);
  std::vector<Phases> result(step.devices.size());
  const auto close = [&](size_t device, Phase next, double seconds) {
    Cursor& cursor = cursors[device];
    Phases& sums = result[device];
    double& sum = cursor.phase == Phase::forward    ? sums.forward_seconds
                  : cursor.phase == Phase::backward ? sums.backward_seconds
                                                    : sums.optimizer_seconds;
    sum += seconds - cursor.since_seconds;
    cursor = {next, seconds};
  };
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const StreamId stream = step.graph.streams[t];
    if (stream == no_stream || stream_of(stream) != Stream::compute) continue;
    const size_t device = device_of(stream);
    const Phase next = phase_of(Label::unpack(step.graph.labels[t]), cursors[device].phase);
    if (next != cursors[device].phase)
      close(device, next,
            std::clamp(timeline.start_seconds[t], end.begin(device), end.finish(device)));
  }
  for (size_t d = 0; d < result.size(); ++d) close(d, cursors[d].phase, end.finish(d));
  return result;
}

}  // namespace stepsim
