// Measured kernels as the cost model sees them: rows of a CSV file, with what their words mean from
// hardware/measurements/kernels.json.
//
// Columns: gpu, op, dtype, m, n, k, groups, seqlen, heads, headdim, batch, causal, pass, time_us,
// source, notes; tflops and gbps where there is no time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/config/read.h"
#include "sim/cost/kernel.h"

namespace stepsim {

/// Kinds of kernels whose errors are told apart; GEMMs below 1 GFLOP on their own.
enum class KernelKind { gemm, small_gemm, grouped_gemm, attention, memory, scan };
std::string_view kernel_kind_name(KernelKind kind);

/// One measurement: what ran, on what, how it was timed.
struct KernelRow {
  int line = 0;
  std::string gpu, dtype_said, op, source;  ///< as written
  KernelKind kind = KernelKind::gemm;
  std::string device, library;  ///< a file in hardware/gpus, and its entry
  StackProfile stack;
  Dtype dtype = Dtype::bf16;
  Gemm gemm;
  int concurrent = 0;   ///< experts' GEMMs at a time; 0: one grid
  double products = 1;  ///< GEMMs of that shape in the time
  Bytes bytes;          ///< that move beside them, or alone
  Attention attention;
  bool forward = true, backward = false;
  StateScan scan;
  Seconds adds;        ///< by the timing: launch and events around one kernel
  Seconds short_call;  ///< as long it runs before the power limit binds
  Seconds floor;       ///< of the host, which issues nothing faster
  double measured_seconds = 0;
  std::string failure;  ///< why it is not predicted
};
std::vector<KernelRow> read_kernel_rows(const std::string& file, const DataPaths& data);

/// What the model says; the row has no failure.
Seconds kernel_seconds(const KernelRow& row, const Device& device);

/// Devices of hardware/gpus by name and library, read once.
class MeasuredDevices {
 public:
  explicit MeasuredDevices(const DataPaths& data) : data_(data) {}
  const Device& at(const std::string& device, const std::string& library);

 private:
  const DataPaths& data_;
  std::map<std::pair<std::string, std::string>, Device> devices_;
};

}  // namespace stepsim
