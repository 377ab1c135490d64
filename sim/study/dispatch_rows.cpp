#include "sim/study/dispatch_rows.h"

#include <algorithm>
#include <cctype>

namespace stepsim {
namespace {

int sms_in(const std::string& algo) {
  const size_t end = algo.find(" SMs");
  if (end == std::string::npos) return 0;
  int number = 0;
  size_t begin = end;
  while (begin > 0 && end - begin < 4 &&
         std::isdigit(static_cast<unsigned char>(algo[begin - 1])) != 0)
    --begin;
  for (size_t i = begin; i < end; ++i) number = number * 10 + (algo[i] - '0');
  return number;
}

}  // namespace

bool is_dispatch(const std::string& op) {
  return op.starts_with("ep_dispatch") || op.starts_with("ep_combine");
}

DispatchRow dispatch_row(const DispatchBenchmark& benchmark, const std::string& op,
                         const std::string& algo, const std::string& dtype,
                         const GroupPlacement& group) {
  DispatchRow row;
  for (const DispatcherRow& known : dispatcher_rows)
    if (known.name == benchmark.dispatcher) row.dispatcher = known.dispatcher;
  const bool combine = op.starts_with("ep_combine");
  row.pass = combine ? DispatchPass::combine : DispatchPass::dispatch;
  row.sms = sms_in(algo);
  constexpr double scaled_fp8 = 1 + 4.0 / 128, bf16 = 2;
  DispatchShape& shape = row.shape;
  shape.tokens = benchmark.tokens;
  shape.width = benchmark.hidden;
  shape.element_bytes = dtype.starts_with("fp8") && !combine ? scaled_fp8 : bf16;
  shape.ep = group.size;
  shape.experts =
      benchmark.experts_per_rank > 0 ? benchmark.experts_per_rank * group.size : benchmark.experts;
  shape.top_k = benchmark.top_k;
  if (benchmark.groups_top_k > 0 && group.domains > 1) {
    shape.groups = group.domains;
    shape.groups_top_k = std::min(benchmark.groups_top_k, group.domains);
  }
  const bool copies = row.dispatcher == Dispatcher::deepep_low_latency;
  const double vectors =
      copies ? shape.top_k : distinct_blocks(shape, group.domains > 1 ? group.domains : group.size);
  row.counted = {shape.tokens * vectors * shape.width * shape.element_bytes};
  return row;
}

}  // namespace stepsim
