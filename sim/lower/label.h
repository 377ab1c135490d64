// What a task of the graph is in the language of training. The engine carries it as an opaque
// 64-bit word.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/config/op_kind.h"
#include "sim/config/pass.h"
#include "sim/lower/stream.h"

namespace stepsim {

/// Packed into the graph's 64-bit labels.
struct Label {
  OpKind op = OpKind::given;
  Pass pass = Pass::forward;
  uint8_t chunk = 0;        ///< model chunk on its rank
  uint8_t part = 0;         ///< ring step, split or bucket number (saturated)
  uint16_t layer = 0;       ///< global layer number; no_layer for embedding, head, optimizer
  uint16_t microbatch = 0;  ///< saturated at 65534; no_microbatch outside the pipeline

  static constexpr uint16_t no_layer = UINT16_MAX, no_microbatch = UINT16_MAX;
  constexpr uint64_t packed() const { return std::bit_cast<uint64_t>(*this); }
  static constexpr Label unpack(uint64_t word) { return std::bit_cast<Label>(word); }
};
static_assert(sizeof(Label) == 8);
constexpr uint8_t saturated_part(size_t part) {
  return static_cast<uint8_t>(part < UINT8_MAX ? part : UINT8_MAX);
}
constexpr uint16_t saturated_microbatch(int microbatch) {
  return static_cast<uint16_t>(microbatch < UINT16_MAX ? microbatch : UINT16_MAX - 1);
}

/// "fc1 gemm forward L12 mb3", for traces and messages.
std::string describe(Label label);

}  // namespace stepsim
