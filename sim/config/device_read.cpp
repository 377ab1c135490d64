#include "sim/config/device_read.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/config/dispatch.h"

namespace stepsim {
namespace {

using nlohmann::json;

struct DtypeRow {
  const char* name;
  Dtype dtype;
};
constexpr std::array<DtypeRow, dtype_count> dtype_rows{{{"fp32", Dtype::fp32},
                                                        {"tf32", Dtype::tf32},
                                                        {"bf16", Dtype::bf16},
                                                        {"fp16", Dtype::fp16},
                                                        {"fp8", Dtype::fp8},
                                                        {"fp8_block", Dtype::fp8_block},
                                                        {"mxfp8", Dtype::mxfp8},
                                                        {"nvfp4", Dtype::nvfp4}}};

constexpr double largest_spread = 0.1;
constexpr int largest_tile = 4096;
bool is_tile(const json& tile) {
  return tile.is_array() && tile.size() == 2 && tile[0].is_number_unsigned() &&
         tile[1].is_number_unsigned() && tile[0] >= 1 && tile[1] >= 1 && tile[0] <= largest_tile &&
         tile[1] <= largest_tile;
}
Tile tile_in(const json& tile) { return {tile[0].get<int>(), tile[1].get<int>()}; }

void read_gemm(const Reader& gemm, std::array<GemmCurve, dtype_count>& curves) {
  for (const DtypeRow& row : dtype_rows) {
    const Reader curve = gemm.child(row.name);
    if (!curve.present()) continue;
    GemmCurve& into = curves[static_cast<size_t>(row.dtype)];
    into.peak = {curve.required_quantity("peak", Dimension::flops_per_second)};
    into.ceiling = curve.required_number("ceiling", smallest_share, 1);
    into.half_k = curve.number("half_k", 0, 0, 1e5);
    into.tile_reuse = curve.number("tile_reuse", -1, 0, 4096);
    into.split_k = curve.boolean("split_k", true);
    into.tiles.clear();
    if (const json* tiles = curve.find("tiles"); tiles != nullptr) {
      if (!tiles->is_array() || tiles->empty() || tiles->size() > 16 ||
          !std::all_of(tiles->begin(), tiles->end(), is_tile))
        curve.fail("tiles", "must be a list of 1 to 16 tiles, each two sizes from 1 to 4096");
      for (const json& tile : *tiles) into.tiles.push_back(tile_in(tile));
    }
    annotations(curve);
  }
  annotations(gemm);
}

void read_attention_curve(const Reader& from, AttentionCurve& curve) {
  curve.forward = {from.quantity("forward", Dimension::flops_per_second, curve.forward.value)};
  curve.backward = {from.quantity("backward", Dimension::flops_per_second, curve.backward.value)};
  curve.half_sequence = from.number("half_sequence", curve.half_sequence, 0, 1e6);
  curve.backward_half_sequence =
      from.number("backward_half_sequence", curve.backward_half_sequence, 0, 1e6);
  curve.head_dim_64_factor =
      from.number("head_dim_64_factor", curve.head_dim_64_factor, smallest_share, 2);
  curve.wide_forward = from.number("wide_forward", curve.wide_forward, smallest_share, 2);
  curve.wide_backward = from.number("wide_backward", curve.wide_backward, smallest_share, 2);
}

/// What is not given stays as it is, for types of 8 bits as in 16 bits.
void read_attention(const Reader& from, AttentionCurves& curves) {
  read_attention_curve(from, curves.bf16);
  for (const auto& [name, curve] :
       {std::pair{"fp8", &curves.fp8}, std::pair{"mxfp8", &curves.mxfp8}}) {
    const Reader narrow = from.child(name);
    if (!narrow.present()) continue;
    if (curve->forward.value <= 0) *curve = curves.bf16;
    read_attention_curve(narrow, *curve);
    annotations(narrow);
  }
  annotations(from);
}

}  // namespace

double fraction(const Reader& from, const std::string& key, double fallback) {
  return from.number(key, fallback, smallest_share, 1);
}

void annotations(const Reader& config) {
  for (const char* key : {"source", "sources", "notes", "unknown"}) config.use(key);
  config.refuse_unused();
}

const Dtype* dtype_named(const std::string& name) {
  for (const DtypeRow& row : dtype_rows)
    if (row.name == name) return &row.dtype;
  return nullptr;
}

Device with_library(const Device& device, const std::string& library) {
  Device result = device;
  for (const Library& known : device.libraries) {
    if (known.name != library) continue;
    result.gemm = known.gemm;
    result.attention = known.attention;
  }
  return result;
}

Device read_device(const Reader& config) {
  Device device;
  device.name = config.required_string("name");
  device.description = config.string("description", "");
  device.architecture = config.string("architecture", "");
  device.sms = static_cast<int>(config.required_int("sms", {1, 100'000}));
  if (const json* tile = config.find("tile"); tile != nullptr) {
    if (!is_tile(*tile))
      config.fail("tile", "must be two sizes from 1 to 4096, rows and columns of an output tile");
    device.tile = tile_in(*tile);
  }
  device.tile_reuse = config.number("tile_reuse", 0, 0, 4096);
  read_gemm(config.child("gemm"), device.gemm);
  device.sustained = fraction(config, "sustained", 1);
  device.spread = config.number("spread", 0, 0, largest_spread);
  if (device.gemm[static_cast<size_t>(Dtype::bf16)].ceiling <= 0 &&
      device.gemm[static_cast<size_t>(Dtype::fp16)].ceiling <= 0)
    config.fail("gemm", "needs at least one of bf16 and fp16");
  const Reader attention = config.child("attention");
  read_attention(attention, device.attention);
  if (device.attention.bf16.forward.value <= 0)
    attention.fail("forward", "is missing; expected a rate such as \"600 TFLOP/s\"");
  if (device.attention.bf16.backward.value <= 0)
    attention.fail("backward", "is missing; expected a rate such as \"600 TFLOP/s\"");
  const Reader libraries = config.child("libraries");
  for (const std::string& name : libraries.keys()) {
    const Reader from = libraries.child(name);
    Library& library = device.libraries.emplace_back(Library{name, device.gemm, device.attention});
    read_gemm(from.child("gemm"), library.gemm);
    read_attention(from.child("attention"), library.attention);
    annotations(from);
  }
  const Reader memory = config.child("memory");
  device.memory_capacity = {memory.required_quantity("capacity", Dimension::bytes)};
  device.memory_reserve = {memory.quantity("reserve", Dimension::bytes, 0)};
  if (device.memory_reserve >= device.memory_capacity)
    memory.fail("reserve", "must be less than the capacity");
  device.memory_bandwidth = {memory.required_quantity("bandwidth", Dimension::bytes_per_second)};
  device.memory_efficiency = fraction(memory, "efficiency", 1);
  device.gather_efficiency = fraction(memory, "gather", device.memory_efficiency);
  device.gemm_memory = fraction(memory, "gemm", device.memory_efficiency);
  device.streaming_sm_share = fraction(memory, "sm_share", 1);
  device.persistent_gemm = config.boolean("persistent_gemm", false);
  annotations(memory);
  device.kernel_gap = {config.quantity("kernel_gap", Dimension::time, 0)};
  device.small_kernel = {config.quantity("small_kernel", Dimension::time, device.kernel_gap.value)};
  device.scan_share = fraction(config, "scan_share", device.scan_share);
  const Reader nvlink = config.child("nvlink");
  device.nvlink_bandwidth = {nvlink.required_quantity("bandwidth", Dimension::bytes_per_second)};
  device.nvlink_efficiency = fraction(nvlink, "efficiency", 1);
  device.nvlink_latency = {nvlink.quantity("latency", Dimension::time, 0)};
  device.nvlink_half_message = {nvlink.quantity("half_message", Dimension::bytes, 0)};
  device.nvlink_own_share = nvlink.number("own_share", device.nvlink_own_share, 0, 1);
  device.nvlink_channel_bandwidth = {nvlink.quantity("channel", Dimension::bytes_per_second,
                                                     device.nvlink_channel_bandwidth.value)};
  device.nvlink_ramp = {nvlink.quantity("ramp", Dimension::bytes, 0)};
  const Reader nvls = nvlink.child("nvls");
  if (nvls.present()) {
    device.nvls_efficiency = nvls.required_number("efficiency", smallest_share, 1);
    device.nvls_ramp = {nvls.quantity("ramp", Dimension::bytes, 0)};
    device.nvls_latency = {nvls.required_quantity("latency", Dimension::time)};
    annotations(nvls);
  }
  annotations(nvlink);
  const Reader host = config.child("host_link");
  if (host.present()) {
    device.host_bandwidth = {host.required_quantity("bandwidth", Dimension::bytes_per_second)};
    device.host_efficiency = fraction(host, "efficiency", 1);
    device.host_latency = {host.quantity("latency", Dimension::time, 0)};
    device.host_adam = {host.quantity("adam_bandwidth", Dimension::bytes_per_second, 0)};
    annotations(host);
  }
  device.dispatch = read_dispatch(config.child("dispatch"));
  config.use("$schema");
  annotations(config);
  return device;
}

}  // namespace stepsim
