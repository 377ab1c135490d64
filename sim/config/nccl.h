// What NCCL is told by its environment variables, and which release it is.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace stepsim {

class Reader;

/// Names that NCCL_ALGO, NCCL_PROTO and their per-function form take, in small letters (NVIDIA/nccl
/// src/graph/tuning.cc). The last two are ours: the pairwise form of any collective, and kernels
/// over symmetric windows, which NCCL takes for registered buffers.
inline constexpr std::array<std::string_view, 9> nccl_algorithms{
    "tree",     "ring", "collnetdirect", "collnetchain", "nvls",
    "nvlstree", "pat",  "direct",        "symmetric"};
inline constexpr std::array<std::string_view, 3> nccl_protocols{"ll", "ll128", "simple"};
inline constexpr std::array<std::string_view, 5> nccl_functions{
    "allreduce", "allgather", "reducescatter", "broadcast", "reduce"};

/// Bit of `name` in a mask over one of these arrays; 0: not in it.
template <size_t N>
constexpr unsigned name_bit(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name) return 1U << i;
  return 0;
}

/// Settings of one communicator. Nothing said: NCCL's own choices by its newest rules.
struct NcclSettings {
  int version = 0;  ///< 22907 is 2.29.7; 0: not said
  /// Allowed names by function, as bits; 0: whatever NCCL would consider.
  std::array<unsigned, nccl_functions.size()> algorithms{}, protocols{};
  bool nvls = true;      ///< NCCL_NVLS_ENABLE
  bool collnet = false;  ///< NCCL_COLLNET_ENABLE: reduction in the network (SHARP)
  int min_ctas = 0,
      max_ctas = 0;               ///< NCCL_MIN_CTAS; NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS; 0: no limit
  int channels_per_net_peer = 0;  ///< NCCL_NCHANNELS_PER_NET_PEER; 0: by the rule
  bool zero_ctas = false;         ///< NCCL_CTA_POLICY=2: copies without SMs where they can be
};

/// Reads them from the section env_vars; refuses names that NCCL does not know.
NcclSettings read_nccl(const Reader& env_vars, const std::string& version);

}  // namespace stepsim
