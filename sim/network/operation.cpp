#include "sim/network/operation.h"

#include <array>

namespace stepsim {
namespace {

struct OperationRow {
  std::string_view name, plain;  ///< `plain`: without underscores
  Collective op;
};
constexpr std::array<OperationRow, 6> operation_rows{{
    {"all_reduce", "allreduce", Collective::all_reduce},
    {"all_gather", "allgather", Collective::all_gather},
    {"reduce_scatter", "reducescatter", Collective::reduce_scatter},
    {"broadcast", "broadcast", Collective::broadcast},
    {"all_to_all", "alltoall", Collective::all_to_all},
    {"send_recv", "sendrecv", Collective::send_recv},
}};

}  // namespace

std::optional<Collective> operation_named(std::string_view name) {
  if (name.ends_with("_perf")) name.remove_suffix(5);
  std::string plain;
  for (const char c : name)
    if (c != '_' && c != '-') plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const OperationRow& row : operation_rows)
    if (row.plain == plain) return row.op;
  return std::nullopt;
}

std::string_view operation_name(Collective op) {
  for (const OperationRow& row : operation_rows)
    if (row.op == op) return row.name;
  return "peer_copy";
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const OperationRow& row : operation_rows) names.emplace_back(row.name);
  return names;
}

double bus_factor(Collective op, int members) {
  const double n = members;
  switch (op) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return (n - 1) / n;
    default:
      return 1;
  }
}

}  // namespace stepsim
