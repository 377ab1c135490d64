#include "sim/study/kernel_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "sim/base/error.h"
#include "sim/config/cluster_read.h"
#include "sim/cost/quantize.h"
#include "sim/study/csv.h"
#include "sim/study/kernel_rules.h"

namespace stepsim {
namespace {

constexpr double large_gemm_flops = 1e9;

constexpr std::array<std::string_view, 6> kind_names{
    "gemm", "gemm below 1 GFLOP", "grouped", "attention", "memory", "scan"};

/// Columns of one row as numbers.
struct RowSizes {
  double m, n, k, groups, seqlen, heads, headdim, batch;
  explicit RowSizes(const CsvRow& row, const std::string& file)
      : m(number_in(row, "m", file)),
        n(number_in(row, "n", file)),
        k(number_in(row, "k", file)),
        groups(std::max(1.0, number_in(row, "groups", file))),
        seqlen(number_in(row, "seqlen", file)),
        heads(number_in(row, "heads", file)),
        headdim(number_in(row, "headdim", file)),
        batch(std::max(1.0, number_in(row, "batch", file))) {}
};

/// A number that follows `words` in a text; 0: there is none.
double number_after(const std::string& text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string::npos) return 0;
  double value = 0;
  for (size_t i = at + words.size(); i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
    value = 10 * value + (text[i] - '0');
  return value;
}

void place_gemm(KernelRow& row, const RowSizes& size, const KernelRule* rule, bool grouped) {
  if (size.m <= 0 || size.n <= 0 || size.k <= 0) {
    row.failure = "no shape";
    return;
  }
  row.gemm = {size.m, size.n, size.k, size.groups};
  if (rule != nullptr) {
    if (rule->rows == "total m") row.gemm.m = size.m / size.groups;
    if (rule->rows == "total k") row.gemm = {size.k / size.groups, size.m, size.n, size.groups};
    if (rule->rows == "k is m") row.gemm = {size.n, size.k, size.m, size.groups};
    row.products = rule->products;
    row.concurrent = rule->concurrent;
    const Gemm& g = row.gemm;
    row.bytes = {g.m * g.batch * rule->products *
                 (rule->result_bytes * g.n + rule->input_bytes * g.k)};
    row.bytes += Bytes{g.k * g.batch * (g.m + g.n) * rule->operand_bytes};
    if (rule->quantize != Fp8Recipe::none) {
      Precision recipe;
      recipe.fp8 = rule->quantize;
      row.bytes += Bytes{row.gemm.k * row.gemm.batch *
                         (row.gemm.m * quantize_bytes(recipe, Operand::input) +
                          row.gemm.n * quantize_bytes(recipe, Operand::weight))};
    }
  }
  row.kind = grouped                                                    ? KernelKind::grouped_gemm
             : row.gemm.flops().value * row.products < large_gemm_flops ? KernelKind::small_gemm
                                                                        : KernelKind::gemm;
}

void place_attention(KernelRow& row, const CsvRow& fields, const RowSizes& size) {
  row.kind = KernelKind::attention;
  const std::string& notes = fields.at("notes");
  const std::string& pass = fields.at("pass");
  row.forward = pass != "bwd";
  row.backward = pass == "bwd" || pass == "fwd+bwd";
  if (size.seqlen <= 0 || size.headdim <= 0) {
    row.failure = "no shape";
    return;
  }
  if (fields.at("causal").empty()) {
    row.failure = "the mask is not said";
    return;
  }
  double values = 0;
  for (const char* words : {"d_v ", "v head dim ", "head dim v "})
    if (values <= 0) values = number_after(notes, words);
  // A rate without its batch: enough heads to fill the device.
  constexpr double many_heads = 64;
  const double heads = size.heads > 0 ? size.heads : many_heads;
  const double window = number_after(notes, "sliding window ");
  row.attention = causal_attention(size.batch, heads, size.headdim, size.seqlen, size.seqlen,
                                   row.dtype, window, values);
  if (fields.at("causal") == "False") row.attention.visible = 1;
}

double attention_flops(const KernelRow& row) {
  return (row.forward ? row.attention.forward_flops().value : 0) +
         (row.backward ? row.attention.backward_flops().value : 0);
}

void place_stream(KernelRow& row, const RowSizes& size, const KernelRule* rule) {
  row.kind = KernelKind::memory;
  const double rows = size.m > 0 ? size.m : size.seqlen > 0 ? size.seqlen * size.batch : 1;
  if (rule == nullptr || size.n <= 0) {
    row.failure = rule == nullptr ? "nothing says what '" + row.op + "' moves" : "no shape";
    return;
  }
  row.bytes = {size.groups * size.n * rows * rule->element_bytes +
               size.k * size.n * rule->table_bytes + size.k * size.n * rows * rule->copy_bytes};
  if (row.bytes.value <= 0) row.failure = "no shape";
}

void place_scan(KernelRow& row, const RowSizes& size) {
  row.kind = KernelKind::scan;
  row.scan = {size.seqlen * size.batch, size.heads * size.headdim, size.k};
  if (row.scan.forward_flops().value <= 0) row.failure = "no shape";
}

void place(KernelRow& row, const CsvRow& fields, const std::string& file,
           const KernelRules& rules) {
  if (const KernelRule* out = rules.find(rules.left_out, fields)) {
    row.failure = "left out: " + out->reason;
    return;
  }
  const KernelRule* device = rules.find(rules.devices, fields);
  if (device == nullptr) {
    row.failure = "no GPU is known for '" + row.gpu + "'";
    return;
  }
  row.device = device->use;
  row.stack = rules.stack_of(fields);
  const KernelRule* type = rules.find(rules.types, fields);
  const Dtype* dtype = dtype_named(type == nullptr ? fields.at("dtype") : type->use);
  if (const KernelRule* library = rules.find(rules.libraries, fields)) row.library = library->use;
  const KernelRule* timing = rules.find(rules.timing, fields);
  const RowSizes size(fields, file);
  const std::string& op = fields.at("op");
  const bool gemm = op.find("gemm") != std::string::npos && op.find("quantize_") != 0;
  const bool attention = op.starts_with("attention");
  if ((gemm || attention) && dtype == nullptr) {
    row.failure = "no type is known for '" + row.dtype_said + "'";
    return;
  }
  if (dtype != nullptr) row.dtype = *dtype;
  const KernelRule* stream = gemm || attention ? nullptr : rules.find(rules.streams, fields);
  if (gemm)
    place_gemm(row, size, rules.find(rules.shapes, fields), op.starts_with("grouped"));
  else if (attention)
    place_attention(row, fields, size);
  else if (op == "mamba2_ssd")
    place_scan(row, size);
  else
    place_stream(row, size, stream);
  if (!row.failure.empty()) return;
  if (stream != nullptr) {
    row.adds = stream->adds;
    row.floor = stream->floor;
  }
  if (timing != nullptr) {
    row.adds += timing->adds;
    row.short_call = timing->short_call;
    row.floor = std::max({row.floor, timing->floor, timing->each * size.groups});
  }
  const double flops = gemm ? row.gemm.flops().value * row.products : attention_flops(row);
  if (row.measured_seconds <= 0 && number_in(fields, "tflops", file) > 0)
    row.measured_seconds = flops / (number_in(fields, "tflops", file) * 1e12);
  if (row.measured_seconds <= 0 && number_in(fields, "gbps", file) > 0)
    row.measured_seconds = row.bytes.value / (number_in(fields, "gbps", file) * 1e9);
  if (row.measured_seconds <= 0) row.failure = "no time";
}

/// A loop of calls runs at full clocks until the power limit binds.
Seconds gemm_seconds(const KernelRow& row, const Device& device) {
  const auto one = [&](bool burst) {
    StackProfile stack = row.stack;
    stack.burst = burst;
    return KernelModel(device, stack).gemm(row.gemm, row.dtype).duration;
  };
  const Seconds sustained = one(row.stack.burst) * row.products;
  if (row.short_call.value <= 0) return sustained;
  const Seconds full = one(true) * row.products;
  if (full <= row.short_call) return full;
  return row.short_call + (full - row.short_call) * (sustained / full);
}

}  // namespace

std::string_view kernel_kind_name(KernelKind kind) {
  return kind_names.at(static_cast<size_t>(kind));
}

std::vector<KernelRow> read_kernel_rows(const std::string& file, const DataPaths& data) {
  std::error_code unreadable;
  if (std::filesystem::is_directory(file, unreadable))
    throw Error(file, "", "is a directory; expected a CSV file");
  const std::vector<CsvRow> records =
      parse_csv(read_text(file), file,
                {"gpu", "op", "dtype", "m", "n", "k", "groups", "seqlen", "heads", "headdim",
                 "batch", "causal", "pass", "time_us", "source", "notes"});
  const KernelRules rules(data);
  std::vector<KernelRow> rows;
  for (const CsvRow& fields : records) {
    KernelRow& row = rows.emplace_back();
    row.line = fields.line;
    row.gpu = printable(fields.at("gpu"));
    row.op = printable(fields.at("op"));
    row.dtype_said = printable(fields.at("dtype"));
    row.source = printable(fields.at("source"));
    row.measured_seconds = number_in(fields, "time_us", file) * 1e-6;
    place(row, fields, file, rules);
  }
  return rows;
}

Seconds kernel_seconds(const KernelRow& row, const Device& device) {
  const KernelModel kernels(device, row.stack);
  Seconds time;
  switch (row.kind) {
    case KernelKind::gemm:
    case KernelKind::small_gemm:
      time = gemm_seconds(row, device);
      if (row.bytes.value > 0) time += kernels.traffic(row.bytes).duration;
      break;
    case KernelKind::grouped_gemm:
      time = kernels.grouped_gemm(row.gemm, row.dtype, row.concurrent).duration * row.products;
      if (row.bytes.value > 0) time += kernels.traffic(row.bytes).duration;
      break;
    case KernelKind::attention:
      if (row.forward) time += kernels.attention_forward(row.attention).duration;
      if (row.backward) time += kernels.attention_backward(row.attention).duration;
      break;
    case KernelKind::memory:
      time = kernels.streaming(row.bytes).duration;
      break;
    case KernelKind::scan:
      time = kernels.scan_forward(row.scan).duration;
      break;
  }
  return std::max(time + row.adds, row.floor);
}

const Device& MeasuredDevices::at(const std::string& device, const std::string& library) {
  const auto known = devices_.find({device, library});
  if (known != devices_.end()) return known->second;
  const Document document = load_document(data_.root / "hardware/gpus" / (device + ".json"));
  return devices_
      .emplace(std::pair{device, library}, with_library(read_device(Reader(document, "")), library))
      .first->second;
}

}  // namespace stepsim
