// What a device's compute stream does, as papers draw it: the kernels of one action of the schedule
// joined to a block.
//
// A kernel belongs to the block of its chunk, microbatch and direction. Where two actions run
// merged (a forward and another microbatch's backward, layer by layer) their blocks overlap in
// time. Of a schedule that runs the halves of a backward apart, a block whose weight kernels all
// follow the others is two: input half and weight half. Kernels of no microbatch (optimizer,
// copies) are blocks of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/report/step_end.h"

namespace stepsim {

enum class BlockKind : uint8_t { forward, backward, backward_input, backward_weight, step };

/// Kernels that run one after the other for one chunk of one microbatch.
struct Block {
  uint32_t device = 0;
  BlockKind kind{};
  uint8_t chunk = 0;
  uint16_t microbatch = 0;  ///< as in labels; Label::no_microbatch for kind step
  double start_seconds = 0, finish_seconds = 0;
  double busy_seconds = 0;  ///< kernels, without the gaps between them
  TaskId first{};
};

inline constexpr uint32_t no_block = UINT32_MAX;

/// Blocks by device, each device's in order of their first kernel.
struct Blocks {
  std::vector<Block> rows;
  std::vector<uint32_t> offsets;  ///< of devices in `rows`, devices + 1
  std::vector<uint32_t> of_task;  ///< no_block for what is not on a compute stream within the step
};

/// `halves`: the schedule runs the halves of a backward apart.
Blocks merged_blocks(const LoweredStep& step, const Timeline& timeline, const StepEnd& end,
                     bool halves);

}  // namespace stepsim
