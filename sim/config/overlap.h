// How each tensor-parallel GEMM hides its collective: Transformer Engine's built-in methods,
// Megatron-Bridge's presets, or an object per GEMM. (transformer_engine/pytorch/module/base.py,
// Megatron-Bridge training/comm_overlap.py)
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.h"
#include "sim/config/scenario.h"

namespace stepsim {

using TpOverlaps = std::array<TpOverlap, tp_gemm_count>;

/// Bridge's key of a GEMM ("qkv_fprop") and the methods that Transformer Engine can run it with.
struct TpGemmRow {
  TpGemm gemm;
  std::string_view name;
  TpMethod built_in;                ///< when no configuration names it
  std::array<TpMethod, 2> allowed;  ///< the second may be `none` = only one
};
inline constexpr std::array<TpGemmRow, tp_gemm_count> tp_gemm_rows{{
    {TpGemm::qkv_fprop,
     "qkv_fprop",
     TpMethod::ring_exchange,
     {TpMethod::ring_exchange, TpMethod::none}},
    {TpGemm::proj_fprop,
     "proj_fprop",
     TpMethod::pipeline,
     {TpMethod::pipeline, TpMethod::ring_exchange}},
    {TpGemm::fc1_fprop,
     "fc1_fprop",
     TpMethod::ring_exchange,
     {TpMethod::ring_exchange, TpMethod::none}},
    {TpGemm::fc2_fprop,
     "fc2_fprop",
     TpMethod::pipeline,
     {TpMethod::pipeline, TpMethod::ring_exchange}},
    {TpGemm::qkv_dgrad, "qkv_dgrad", TpMethod::bulk, {TpMethod::bulk, TpMethod::pipeline}},
    {TpGemm::proj_dgrad,
     "proj_dgrad",
     TpMethod::ring_exchange,
     {TpMethod::ring_exchange, TpMethod::none}},
    {TpGemm::fc1_dgrad, "fc1_dgrad", TpMethod::bulk, {TpMethod::bulk, TpMethod::pipeline}},
    {TpGemm::fc2_dgrad,
     "fc2_dgrad",
     TpMethod::ring_exchange,
     {TpMethod::ring_exchange, TpMethod::none}},
    {TpGemm::qkv_wgrad, "qkv_wgrad", TpMethod::bulk, {TpMethod::bulk, TpMethod::none}},
    {TpGemm::fc1_wgrad, "fc1_wgrad", TpMethod::bulk, {TpMethod::bulk, TpMethod::none}},
}};
std::string_view name(TpMethod method);

/// Transformer Engine's choice when nothing is configured: `tp` splits in a ring, 4 in a pipeline,
/// 16 SMs.
TpOverlaps built_in_overlaps(int tp);
/// Lays a named preset over `overlaps`; false = no such preset.
bool apply_preset(std::string_view preset, int tp, TpOverlaps& overlaps);
std::vector<std::string> preset_names();
/// What a preset was tuned for, from its name: "bf16 h100 hidden 8192 TP4 MBS1 seq 8192".
std::string preset_purpose(std::string_view preset);
/// Lays `section` (an object per GEMM) over `overlaps`.
void read_tp_overlaps(const Reader& section, int tp, TpOverlaps& overlaps);

}  // namespace stepsim
