// One GPU: what it computes and stores in, and what of it kernels and collectives reach.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/config/dispatch.h"

namespace stepsim {

/// Storage and compute types of tensors. fp8 has one scale a tensor, the others one a block.
enum class Dtype { fp32, tf32, bf16, fp16, fp8, fp8_block, mxfp8, nvfp4 };
inline constexpr int dtype_count = 8;
/// Scales of blocks included: one fp32 for 128 values (fp8_block), one byte for 32 (OCP MX) and for
/// 16 (NVFP4).
constexpr double bytes_per_element(Dtype t) {
  switch (t) {
    case Dtype::fp32:
    case Dtype::tf32:
      return 4;
    case Dtype::bf16:
    case Dtype::fp16:
      return 2;
    case Dtype::fp8:
      return 1;
    case Dtype::fp8_block:
      return 1 + 4.0 / 128;
    case Dtype::mxfp8:
      return 1 + 1.0 / 32;
    case Dtype::nvfp4:
      return 0.5 + 1.0 / 16;
  }
  return 4;
}

/// Rows and columns of the output tile that one block computes.
struct Tile {
  int m = 128, n = 256;
};

/// GEMM rate: peak * ceiling * K / (K + half_k), before tile and wave quantisation
/// (sim/cost/kernel.h).
struct GemmCurve {
  FlopsPerSecond peak;           ///< dense vendor peak
  double ceiling = 0;            ///< fraction of peak in whole waves of the largest tile
  double half_k = 0;             ///< K at which half the ceiling is reached
  double tile_reuse = -1;        ///< as the device's, in this type; below 0: the device's
  std::vector<Tile> tiles = {};  ///< those of the library's kernels; empty: the device's
  bool split_k = true;           ///< kernels that split K over blocks exist
};

/// Fused attention: rate = asymptote * s / (s + half_sequence) over causal FLOPs.
struct AttentionCurve {
  FlopsPerSecond forward, backward;
  double half_sequence = 0;
  double head_dim_64_factor = 1;               ///< rate at head dim 64 over rate at 128
  double backward_half_sequence = 0;           ///< of backward; 0: half_sequence
  double wide_forward = 1, wide_backward = 1;  ///< the same above head dim 128
};
/// By type of queries and keys. A rate of 0: as in 16 bits.
struct AttentionCurves {
  AttentionCurve bf16, fp8, mxfp8;
};

/// What one library or library version makes of the device, where that differs.
struct Library {
  std::string name;
  std::array<GemmCurve, dtype_count> gemm;
  AttentionCurves attention;
};

/// One GPU. Every figure has its source in the file.
struct Device {
  std::string name, description, architecture;
  int sms = 0;
  Tile tile;              ///< output tile of the library's large GEMM kernel
  double tile_reuse = 0;  ///< side of a tile at which loading its operands takes half the time
  std::array<GemmCurve, dtype_count> gemm;
  double sustained = 1;  ///< of the GEMM ceilings, what the power limit leaves in long runs
  double spread = 0;     ///< standard deviation of it between GPUs, of its mean
  double slowest = 1;    ///< of the mean GPU's sustained rate, what the slowest of a cluster has
  AttentionCurves attention;
  std::vector<Library> libraries;
  Bytes memory_capacity;
  Bytes memory_reserve;  ///< taken by context, framework and communicators before the first tensor
  BytesPerSecond memory_bandwidth;
  double memory_efficiency = 1;     ///< sustained fraction of memory_bandwidth in streaming kernels
  double gather_efficiency = 1;     ///< the same where rows move by index (permutations)
  double gemm_memory = 1;           ///< the same in GEMMs that are bound by their bytes
  double streaming_sm_share = 1;    ///< SMs that saturate the memory in streaming kernels, of all
  bool persistent_gemm = false;     ///< GEMM blocks stay on their SMs for the whole kernel
  Seconds kernel_gap;               ///< drain and fill between two dependent kernels on one stream
  Seconds small_kernel;             ///< shortest kernel with work of its own (a fused router)
  double scan_share = 0.08;         ///< of the 16-bit peak, in state-space scans
  BytesPerSecond nvlink_bandwidth;  ///< one direction, all links
  double nvlink_efficiency = 1;     ///< usable fraction of it in NCCL rings
  Seconds nvlink_latency;           ///< one hop of a collective inside the domain
  Bytes nvlink_half_message;  ///< start-up of a collective, as the bytes it costs at bus bandwidth
  double nvlink_own_share =
      0.5;            ///< ring step a rank spends on its own shard (copy, pipeline fill)
  Bytes nvlink_ramp;  ///< bytes W of a ring take (W + sqrt(W * ramp)) / bus: it runs up slowly
  double nvls_efficiency = 0;  ///< of the port, when the NVSwitch adds up and multicasts; 0: cannot
  Bytes nvls_ramp;
  Seconds nvls_latency;                           ///< of such a collective, launch included
  BytesPerSecond nvlink_channel_bandwidth{20e9};  ///< one channel of a send/recv pair; 0: no limit
  BytesPerSecond host_bandwidth;  ///< of the link to host memory, one direction; 0: not described
  double host_efficiency = 1;     ///< usable fraction of it in large copies
  Seconds host_latency;           ///< of a copy, before bytes move
  BytesPerSecond host_adam;       ///< host memory traffic of an Adam step there; 0: not known
  std::array<DispatchRates, dispatcher_count> dispatch{};  ///< of kernels that move tokens
};
/// The device as `library` runs on it; as it is where it has no entry of that name.
Device with_library(const Device& device, const std::string& library);

}  // namespace stepsim
