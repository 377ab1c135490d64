// Gradient and parameter buckets of one model chunk (Megatron-Core distrib_optimizer.py,
// param_and_grad_buffer.py): parameters in reverse registration order, each start aligned to 64
// elements; a bucket closes once it holds at least bucket_size *elements* and is padded to lcm(dp,
// 128). Bucket 0 holds the end of the chunk, whose gradients are ready first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stepsim {

/// One parameter tensor on one rank. `owner` says which unit of work makes its gradient
/// (chunk-local layer index).
struct Parameter {
  int64_t elements = 0;
  int owner = 0;
  bool alone = false;   ///< gets a bucket of its own (a tied embedding on two pipeline ranks)
  int bytes = 2;        ///< of one element when gathered: 1 for a weight kept in fp8
  bool frozen = false;  ///< has no gradient: in no bucket, but gathered with an FSDP unit
};

/// A bucket's padded size and the units of work it covers.
struct Bucket {
  int64_t elements = 0;
  int64_t frozen = 0;                   ///< of an FSDP unit, beside them and without gradients
  int first_owner = 0, last_owner = 0;  ///< smallest and largest owner inside
  double parameter_bytes = 0;           ///< gathered by one rank; padding counts as its neighbours
  bool holds(int owner) const { return first_owner <= owner && owner <= last_owner; }
};

/// fp8 weights have buffers of their own; the buckets of everything else join the last of theirs
/// (param_and_grad_buffer.py, partition_buckets). `bucket_size` unset: one bucket. `dp`: size of
/// the group that shares the optimizer (data x context parallel).
std::vector<Bucket> form_buckets(std::span<const Parameter> parameters,
                                 std::optional<int64_t> bucket_size, int64_t dp);

/// One bucket an owner, in the same order: what FSDP gathers and reduces together.
std::vector<Bucket> form_units(std::span<const Parameter> parameters, int64_t dp);

}  // namespace stepsim
