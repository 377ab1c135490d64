// One simulated device as the PyTorch profiler would record it: Chrome trace JSON with Kineto's
// categories and arguments (github.com/pytorch/kineto, libkineto/src/output_json.cpp), so that
// tools for such traces read it, and so that ours can be checked against our own timeline.
//
// Unlike a recorded NCCL kernel, a transfer here lasts while its bytes move (sim/report/overlap.h),
// not while it waits for its peers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "sim/lower/lowered.h"
#include "sim/report/step_end.h"

namespace stepsim {

/// What a kernel's name tells of it.
enum class KernelClass : uint8_t { gemm, attention, scan, elementwise, optimizer };
inline constexpr int kernel_class_count = 5;
std::string_view name(KernelClass c);
/// Of an operation of the compute stream.
KernelClass kernel_class(OpKind op);
/// Seconds by kind of kernel of one device's compute stream, within its step.
std::array<double, kernel_class_count> kernel_seconds(const LoweredStep& step,
                                                      const Timeline& timeline, StepEnd end,
                                                      uint32_t device);

/// Kernels, copies and one ProfilerStep annotation of `device`. Microseconds, every digit.
void write_kineto(std::ostream& out, const LoweredStep& step, const Timeline& timeline, StepEnd end,
                  uint32_t device);

}  // namespace stepsim
