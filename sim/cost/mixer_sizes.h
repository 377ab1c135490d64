// Matrix products, scan and elementwise bytes of a layer that mixes tokens by a recurrence, on one
// rank. Shapes after Megatron-Core ssm/mamba_mixer.py and ssm/gated_delta_net.py: the features are
// cut over TP.
#pragma once

#include "sim/cost/layer_sizes.h"

namespace stepsim {

/// Per rank and microbatch. Both kinds project in, convolve, scan, gate and normalise, project out.
struct MixerSizes {
  Gemm in, out;
  StateScan scan;
  double conv_bytes = 0;  ///< the causal convolution reads and writes its channels in 16 bits
  double gate_bytes = 0;  ///< the gated norm reads the scan's output and the gate and writes one
};

inline MixerSizes mamba_sizes(const LayerSizes& z, const Mamba& m, int tp) {
  const double inner = static_cast<double>(m.inner()) / tp,
               conv = static_cast<double>(m.conv_width()) / tp;
  return {.in = {z.tokens, static_cast<double>(m.in_width()) / tp, z.hidden},
          .out = {z.tokens, z.hidden, inner},
          .scan = {z.tokens, inner, static_cast<double>(m.state)},
          .conv_bytes = z.tokens * conv * 4,
          .gate_bytes = z.tokens * inner * 6};
}

inline MixerSizes delta_net_sizes(const LayerSizes& z, const DeltaNet& d, int tp) {
  const double values = static_cast<double>(d.values()) / tp,
               conv = static_cast<double>(d.conv_width()) / tp;
  return {.in = {z.tokens, static_cast<double>(d.in_width()) / tp, z.hidden},
          .out = {z.tokens, z.hidden, values},
          .scan = {z.tokens, values, static_cast<double>(d.key_dim)},
          .conv_bytes = z.tokens * conv * 4,
          .gate_bytes = z.tokens * values * 6};
}

/// Of a mixer that is a recurrence.
inline MixerSizes mixer_sizes(const Scenario& s, const LayerSizes& z, Mixer mixer) {
  return mixer == Mixer::mamba ? mamba_sizes(z, s.model.mamba, s.parallel.tp)
                               : delta_net_sizes(z, s.model.delta_net, s.parallel.tp);
}

}  // namespace stepsim
