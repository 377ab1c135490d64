// The userbuffers presets of Megatron-Bridge training/comm_overlap.py, as data.
#include <algorithm>

#include "sim/config/overlap.h"

namespace stepsim {
namespace {

/// proj and fc2 forward: pipelined with `num_sm`, or a ring when 0.
constexpr int ring = 0;
/// In all rows qkv_fprop, fc1_fprop, proj_dgrad, fc2_dgrad are rings with one SM and the four bulk
/// GEMMs set no SM margin.
struct PresetRow {
  std::string_view name;
  int qkv_dgrad, qkv_wgrad, fc1_dgrad, fc1_wgrad;  ///< SMs of the bulk collectives
  int proj_fprop, fc2_fprop;
};
constexpr std::array<PresetRow, 17> preset_rows{{
    {"userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192", 4, 24, 2, 4, 24, 16},
    {"userbuffers_fp8_h100_h8192_tp4_mbs1_seqlen8192", 4, 24, 2, 4, ring, ring},
    {"userbuffers_bf16_b200_h8192_tp2_mbs1_seqlen8192", 16, 24, 2, 4, 32, 16},
    {"userbuffers_fp8_b200_h8192_tp2_mbs1_seqlen8192", 4, 24, 2, 4, ring, ring},
    {"userbuffers_bf16_h100_h16384_tp8_cp2_mbs1_seqlen8192", 2, 24, 2, 2, 24, 8},
    {"userbuffers_fp8_h100_h16384_tp8_cp2_mbs1_seqlen8192", 2, 24, 2, 2, ring, ring},
    {"userbuffers_bf16_b200_h16384_tp4_cp2_mbs1_seqlen8192", 8, 24, 2, 2, 32, 8},
    {"userbuffers_fp8_b200_h16384_tp4_cp2_mbs1_seqlen8192", 8, 32, 2, 8, ring, ring},
    {"userbuffers_bf16_h100_h6144_tp2_mbs2_seqlen2048", 8, 16, 4, 16, 16, 24},
    {"userbuffers_fp8_h100_h6144_tp2_mbs2_seqlen2048", 8, 16, 4, 16, 16, 24},
    {"userbuffers_bf16_h100_h12288_tp4_mbs1_seqlen2048", 4, 4, 2, 4, 24, ring},
    {"userbuffers_fp8_h100_h12288_tp4_mbs1_seqlen2048", 4, 4, 2, 4, ring, ring},
    {"userbuffers_bf16_b200_h12288_tp4_mbs1_seqlen2048", 4, 16, 2, 8, ring, ring},
    {"userbuffers_fp8_b200_h12288_tp4_mbs1_seqlen2048", 4, 16, 2, 8, ring, ring},
    {"userbuffers_bf16_b200_h6144_tp2_mbs1_seqlen4096", 8, 32, 2, 8, ring, ring},
    {"userbuffers_bf16_b200_h18432_tp8_mbs1_seqlen4096", 8, 32, 2, 8, ring, 24},
    {"userbuffers_fp8_b200_h18432_tp8_mbs1_seqlen4096", 8, 32, 2, 8, ring, ring},
}};

/// For frozen weights: fc1's data gradient is reduce-scattered piece by piece on 16 SMs instead of
/// beside a weight gradient that nobody makes (with model.tp_comm_overlap_rs_dgrad).
struct LoraPresetRow {
  std::string_view name;
  int qkv_dgrad;  ///< SMs of the bulk collective
  int fc1_dgrad, proj_fprop, fc2_fprop;
  bool rings_margin, rings_aggregate;
};
constexpr std::array<LoraPresetRow, 2> lora_preset_rows{{
    {"userbuffers_fp8_h100_h8192_tp2_mbs1_seqlen4096_lora", 2, 16, ring, ring, true, false},
    {"userbuffers_fp8_h100_h16384_tp4_mbs1_seqlen2048_lora", 2, 16, 32, 16, false, true},
}};

TpOverlap bulk_overlap(int num_sm) { return {TpMethod::bulk, num_sm, 1, false, false}; }
TpOverlap scattered_overlap(int num_sm, int tp) {
  return num_sm == ring ? TpOverlap{TpMethod::ring_exchange, 1, tp, false, true}
                        : TpOverlap{TpMethod::pipeline, num_sm, 4, false, true};
}

bool apply_lora_preset(std::string_view preset, int tp, TpOverlaps& overlaps) {
  const auto at = [&](TpGemm gemm) -> TpOverlap& { return overlaps[static_cast<size_t>(gemm)]; };
  for (const LoraPresetRow& row : lora_preset_rows) {
    if (row.name != preset) continue;
    for (const TpGemm gemm :
         {TpGemm::qkv_fprop, TpGemm::fc1_fprop, TpGemm::proj_dgrad, TpGemm::fc2_dgrad})
      at(gemm) = {TpMethod::ring_exchange, 1, tp, row.rings_aggregate, row.rings_margin};
    at(TpGemm::qkv_dgrad) = bulk_overlap(row.qkv_dgrad);
    at(TpGemm::fc1_dgrad) = scattered_overlap(row.fc1_dgrad, tp);
    at(TpGemm::fc1_wgrad) = {};
    at(TpGemm::proj_fprop) = scattered_overlap(row.proj_fprop, tp);
    at(TpGemm::fc2_fprop) = scattered_overlap(row.fc2_fprop, tp);
    return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetRow& row : preset_rows) names.emplace_back(row.name);
  for (const LoraPresetRow& row : lora_preset_rows) names.emplace_back(row.name);
  return names;
}

bool apply_preset(std::string_view preset, int tp, TpOverlaps& overlaps) {
  for (const PresetRow& row : preset_rows) {
    if (row.name != preset) continue;
    const auto at = [&](TpGemm gemm) -> TpOverlap& { return overlaps[static_cast<size_t>(gemm)]; };
    const TpOverlap exchange{TpMethod::ring_exchange, 1, tp, false, false};
    for (const TpGemm gemm :
         {TpGemm::qkv_fprop, TpGemm::fc1_fprop, TpGemm::proj_dgrad, TpGemm::fc2_dgrad})
      at(gemm) = exchange;
    at(TpGemm::qkv_dgrad) = bulk_overlap(row.qkv_dgrad);
    at(TpGemm::qkv_wgrad) = bulk_overlap(row.qkv_wgrad);
    at(TpGemm::fc1_dgrad) = bulk_overlap(row.fc1_dgrad);
    at(TpGemm::fc1_wgrad) = bulk_overlap(row.fc1_wgrad);
    at(TpGemm::proj_fprop) = scattered_overlap(row.proj_fprop, tp);
    at(TpGemm::fc2_fprop) = scattered_overlap(row.fc2_fprop, tp);
    return true;
  }
  return apply_lora_preset(preset, tp, overlaps);
}

std::string preset_purpose(std::string_view preset) {
  // userbuffers_<type>_<gpu>_h<hidden>_tp<n>[_cp<n>]_mbs<n>_seqlen<n>
  std::string text;
  size_t part = 0;
  for (size_t start = 0; start <= preset.size(); ++part) {
    const size_t end = std::min(preset.find('_', start), preset.size());
    const std::string word(preset.substr(start, end - start));
    start = end + 1;
    if (part == 1) text = word;
    if (part == 2) text += " " + word;
    if (part == 3) text += " hidden " + word.substr(1);
    if (word.starts_with("tp")) text += " TP" + word.substr(2);
    if (word.starts_with("cp")) text += " CP" + word.substr(2);
    if (word.starts_with("mbs")) text += " MBS" + word.substr(3);
    if (word.starts_with("seqlen")) text += " seq " + word.substr(6);
    if (word == "lora") text += " LoRA";
  }
  return text;
}

}  // namespace stepsim
