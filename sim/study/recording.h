// A recorded step of one GPU: what a PyTorch profiler (Kineto) trace says, in the terms of the
// report. Read as a stream: of the document nothing is kept but 24 bytes a kernel.
//
// The step is the mean over the ProfilerStep#N annotations that hold kernels (those of the GPU
// where the trace has them), or the whole trace without any. Overlap is by the definition of
// sim/report/overlap.h: the union of a class's kernels, and how much of it lies under kernels that
// compute, on whatever stream. A recorded NCCL kernel also waits for its peers: that time is in it.
#pragma once

#include <array>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/kineto.h"
#include "sim/report/overlap.h"

namespace stepsim {

/// A stream of the recorded GPU, mean seconds a step.
struct RecordedStream {
  int64_t id = 0;
  std::string mostly;  ///< what takes most of it: "compute", "tp", ...
  double busy_seconds = 0;
  uint64_t events = 0;
};

/// Mean of the recorded steps.
struct Recording {
  int steps = 0;            ///< annotated; 0: the whole trace
  std::string first, last;  ///< annotation names
  double step_seconds = 0;
  std::optional<int> rank;
  CommunicationTable communication;  ///< waiting_seconds is not known: 0
  std::array<double, kernel_class_count> kernel_seconds{};
  double compute_seconds = 0;  ///< the union of all kernels that compute
  std::vector<RecordedStream> streams;
  uint64_t events = 0, guessed = 0;  ///< on the GPU; communication whose group is not named
};

/// Throws Error: not JSON, no GPU kernels, kernels of several GPUs, times that are none. `present`:
/// see recorded_kind.
Recording read_recording(std::istream& in, const std::string& file,
                         const std::array<bool, comm_class_count>& present);

}  // namespace stepsim
