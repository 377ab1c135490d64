// Names as profilers print them.
#include "sim/study/kernel_words.h"

#include <doctest/doctest.h>

using namespace stepsim;

TEST_CASE("communication is told by its group, else by its operation and the layout") {
  const auto comm = [](const char* kernel, const char* description,
                       std::initializer_list<CommClass> layout = {}) {
    std::array<bool, comm_class_count> present{};
    for (const CommClass c : layout) present[static_cast<size_t>(c)] = true;
    return recorded_kind({.category = "kernel",
                          .kernel = kernel,
                          .collective = {},
                          .group = "12",
                          .description = description},
                         present)
        .comm;
  };
  const char* gather = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
  CHECK(comm(gather, "TENSOR_MODEL_PARALLEL_GROUP") == CommClass::tp);
  CHECK(comm(gather, "DATA_PARALLEL_GROUP_WITH_CP") == CommClass::dp);
  CHECK(comm(gather, "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP") == CommClass::dp);
  CHECK(comm(gather, "CONTEXT_PARALLEL_GROUP") == CommClass::cp);
  CHECK(comm(gather, "EXPERT_DATA_PARALLEL_GROUP") == CommClass::edp);
  CHECK(comm("ncclDevKernel_SendRecv", "EXPERT_MODEL_PARALLEL_GROUP") == CommClass::ep);
  CHECK(comm("ncclDevKernel_SendRecv", "PIPELINE_MODEL_PARALLEL_GROUP") == CommClass::pp);
  CHECK(comm("ncclDevKernel_AllReduce_Sum_f32_TREE_LL", "EMBEDDING_GROUP") == CommClass::embedding);
  CHECK(comm("ncclDevKernel_AllReduce_Sum_f32_TREE_LL", "MODEL_PARALLEL_GROUP") == CommClass::dp);
  // "undefined" is what PyTorch says of a group without description.
  CHECK(comm(gather, "undefined", {CommClass::dp}) == CommClass::dp);
  CHECK(comm(gather, "undefined", {CommClass::tp, CommClass::dp}) == CommClass::tp);
  CHECK(comm("ncclDevKernel_SendRecv", "", {CommClass::ep}) == CommClass::ep);
  CHECK(comm("void deep_ep::internode::dispatch<false, 2>(int4*)", "") == CommClass::ep);
  CHECK(comm("userbuffers_fp16_sum_inplace_gpu_rr_rs_oop", "") == CommClass::tp);
  CHECK(comm("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_TNT", "") == CommClass::none);
}

TEST_CASE("kernels by words in their names") {
  const auto kind = [](const char* kernel) {
    return recorded_kind({.category = "kernel",
                          .kernel = kernel,
                          .collective = {},
                          .group = {},
                          .description = {}},
                         {})
        .kernel;
  };
  CHECK(kind("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_TNT") == KernelClass::gemm);
  CHECK(kind("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n") == KernelClass::gemm);
  CHECK(kind("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>") == KernelClass::gemm);
  CHECK(kind("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16") ==
        KernelClass::attention);
  CHECK(kind("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128>>") == KernelClass::attention);
  CHECK(kind("void at::native::multi_tensor_apply_kernel<AdamFunctorMaster>") ==
        KernelClass::optimizer);
  CHECK(kind("_chunk_scan_fwd_kernel") == KernelClass::scan);
  CHECK(kind("void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel") ==
        KernelClass::elementwise);
  CHECK(kind("void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16>") ==
        KernelClass::elementwise);
  const auto copy = [](const char* name) {
    return recorded_kind({.category = "gpu_memcpy",
                          .kernel = name,
                          .collective = {},
                          .group = {},
                          .description = {}},
                         {})
        .comm;
  };
  CHECK(copy("Memcpy DtoH (Device -> Pinned)") == CommClass::offload);
  CHECK(copy("Memcpy PtoP (Device -> Device)") == CommClass::tp);
  CHECK(copy("Memcpy DtoD (Device -> Device)") == CommClass::none);
}
