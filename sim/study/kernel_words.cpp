#include "sim/study/kernel_words.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>

namespace stepsim {
namespace {

std::string small_letters(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return out;
}
bool holds(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

/// A word in a group's description and its class; the first that occurs decides.
struct GroupRow {
  std::string_view word;
  CommClass comm;
};
// Megatron-Core's descriptions (megatron/core/parallel_state.py, group_desc), then the mesh
// dimensions of PyTorch's DTensor programs. Reductions over all ranks count as dp here too.
constexpr std::array<GroupRow, 21> group_rows{{
    {"expert_data", CommClass::edp},
    {"edp", CommClass::edp},
    {"expert", CommClass::ep},
    {"embedding", CommClass::embedding},
    {"pipeline", CommClass::pp},
    {"optimizer_instance", CommClass::dp},
    {"data_parallel", CommClass::dp},
    {"tensor_and_context", CommClass::tp},
    {"tensor", CommClass::tp},
    {"context", CommClass::cp},
    {"model_parallel", CommClass::dp},
    {"default", CommClass::dp},
    {"fsdp", CommClass::dp},
    {"dp", CommClass::dp},
    {"replicate", CommClass::dp},
    {"shard", CommClass::dp},
    {"tp", CommClass::tp},
    {"pp", CommClass::pp},
    {"cp", CommClass::cp},
    {"ep", CommClass::ep},
    {"data", CommClass::dp},
}};

CommClass class_of_group(std::string_view description) {
  const std::string text = small_letters(description);
  for (const GroupRow& row : group_rows)
    if (holds(text, row.word)) return row.comm;
  return CommClass::none;
}

/// Kernels of communication that are not NCCL's collectives.
constexpr std::array<GroupRow, 6> own_kernels{{
    {"deep_ep", CommClass::ep},
    {"hybrid_ep", CommClass::ep},
    {"hybridep", CommClass::ep},
    {"userbuffers", CommClass::tp},
    {"intranode::", CommClass::ep},
    {"internode::", CommClass::ep},
}};

/// What an operation is used for, most likely first.
struct OperationRow {
  std::string_view word;
  std::array<CommClass, 5> likely;
};
constexpr std::array<OperationRow, 5> operation_rows{{
    {"alltoall", {CommClass::ep, CommClass::cp}},
    {"sendrecv", {CommClass::pp, CommClass::cp, CommClass::ep}},
    {"allgather", {CommClass::tp, CommClass::dp, CommClass::edp, CommClass::ep, CommClass::cp}},
    {"reducescatter", {CommClass::tp, CommClass::dp, CommClass::edp, CommClass::ep, CommClass::cp}},
    {"allreduce", {CommClass::tp, CommClass::dp, CommClass::embedding}},
}};

CommClass likely_class(const std::string& operation,
                       const std::array<bool, comm_class_count>& present) {
  for (const OperationRow& row : operation_rows) {
    if (!holds(operation, row.word)) continue;
    for (const CommClass c : row.likely)
      if (c != CommClass::none && present[static_cast<size_t>(c)]) return c;
    return row.likely[0];
  }
  return CommClass::dp;
}

/// Kernels by a word in their name; the first that occurs decides.
struct WordRow {
  std::string_view word;
  KernelClass kernel;
};
constexpr std::array<WordRow, 17> word_rows{{
    {"multi_tensor", KernelClass::optimizer},
    {"adam", KernelClass::optimizer},
    {"flash", KernelClass::attention},
    {"fmha", KernelClass::attention},
    {"sdpa", KernelClass::attention},
    {"attention", KernelClass::attention},
    {"attn", KernelClass::attention},
    {"scan", KernelClass::scan},
    {"conv1d", KernelClass::scan},
    {"splitkreduce", KernelClass::elementwise},
    {"gemm", KernelClass::gemm},
    {"nvjet", KernelClass::gemm},
    {"cutlass", KernelClass::gemm},
    {"xmma", KernelClass::gemm},
    {"s16816", KernelClass::gemm},
    {"wgmma", KernelClass::gemm},
    {"matmul", KernelClass::gemm},
}};

}  // namespace

RecordedKind recorded_kind(const RecordedWords& words,
                           const std::array<bool, comm_class_count>& present) {
  const std::string kernel = small_letters(words.kernel);
  if (words.category == "gpu_memcpy") {
    if (holds(kernel, "ptop")) return {.comm = CommClass::tp, .guessed = true};
    if (holds(kernel, "dtoh") || holds(kernel, "htod")) return {.comm = CommClass::offload};
    return {};
  }
  for (const GroupRow& row : own_kernels)
    if (holds(kernel, row.word)) return {.comm = row.comm};
  if (holds(kernel, "nccl")) {
    for (const std::string_view group : {words.description, words.group})
      if (const CommClass c = class_of_group(group); c != CommClass::none) return {.comm = c};
    std::string operation = small_letters(words.collective) + " " + kernel;
    std::erase(operation, '_');
    return {.comm = likely_class(operation, present), .guessed = true};
  }
  for (const WordRow& row : word_rows)
    if (holds(kernel, row.word)) return {.kernel = row.kernel};
  return {};
}

}  // namespace stepsim
