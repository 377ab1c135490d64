#include "sim/report/overlap_gates.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace stepsim {
namespace {

using enum OpKind;

bool tp_of_a_layer(const Label& l) {
  return l.layer != Label::no_layer &&
         (l.op == tp_all_gather || l.op == tp_reduce_scatter || l.op == tp_all_reduce);
}
bool gradient_reduction(const Label& l) {
  return l.op == dp_reduce_scatter || l.op == dp_all_reduce || l.op == edp_reduce_scatter ||
         l.op == edp_all_reduce;
}
bool parameter_gather(const Label& l) { return l.op == dp_all_gather || l.op == edp_all_gather; }
bool pipeline_message(const Label& l) { return l.op == pp_forward || l.op == pp_backward; }
bool token_transfer(const Label& l) { return l.op == ep_dispatch || l.op == ep_combine; }
bool keys_and_values(const Label& l) {
  return l.op == cp_all_gather || l.op == cp_reduce_scatter || l.op == cp_all_to_all;
}

/// Megatron-FSDP and FSDP2 gather and reduce unit by unit, whatever these switches say.
bool replicated(const Scenario& s) {
  return s.data_parallel.fully_sharded == FullySharded::none && s.parallel.dp * s.parallel.cp > 1;
}

/// A switch, when it could be in effect here and is not, and what it takes.
struct GateRow {
  std::string_view key;
  bool (*closed)(const Scenario&);
  bool (*holds)(const Label&);
  std::string_view needs;
};
constexpr std::array<GateRow, 6> gate_rows{{
    {"model.tp_comm_overlap",
     [](const Scenario& s) {
       return s.parallel.tp > 1 && !s.overlap.tp_comm_overlap && !s.model.mla.present();
     },
     tp_of_a_layer, "userbuffers need model.sequence_parallel"},
    {"ddp.overlap_grad_reduce",
     [](const Scenario& s) { return replicated(s) && !s.overlap.overlap_grad_reduce; },
     gradient_reduction, ""},
    {"ddp.overlap_param_gather",
     [](const Scenario& s) {
       return replicated(s) && s.data_parallel.distributed_optimizer &&
              !s.overlap.overlap_param_gather;
     },
     parameter_gather, "with overlap_grad_reduce"},
    {"model.overlap_p2p_comm",
     [](const Scenario& s) {
       return s.parallel.pp > 1 && s.parallel.vp.value_or(1) > 1 && !s.overlap.overlap_p2p;
     },
     pipeline_message, "with batch_p2p_comm false"},
    {"model.overlap_moe_expert_parallel_comm",
     [](const Scenario& s) {
       return s.parallel.experts && s.parallel.ep > 1 && !s.moe_runtime.overlap_ep &&
              s.moe_runtime.dispatcher != Dispatcher::allgather &&
              (s.parallel.pp == 1 || s.parallel.vp.value_or(1) > 1);
     },
     token_transfer, ""},
    {"model.cp_comm_type",
     [](const Scenario& s) {
       return s.parallel.cp > 1 && !s.parallel.context.empty() &&
              std::all_of(s.parallel.context.begin(), s.parallel.context.end(),
                          [](ContextKind k) { return k != ContextKind::p2p; });
     },
     keys_and_values, "p2p runs under attention, this kind does not"},
}};

/// The finding that says what became of a request for `key`, whichever section asked.
const Finding* undone(const Scenario& s, std::string_view key) {
  const std::string_view name = key.substr(key.find('.') + 1);
  const auto found = std::find_if(s.findings.begin(), s.findings.end(), [&](const Finding& f) {
    return f.kind != Finding::Kind::advice && f.requested == "true" && f.effective == "false" &&
           (f.key == name || f.key.ends_with("." + std::string(name)));
  });
  return found == s.findings.end() ? nullptr : &*found;
}

}  // namespace

std::vector<ClosedGate> closed_gates(const Scenario& scenario) {
  std::vector<ClosedGate> gates;
  if (scenario.costs) return gates;
  for (const GateRow& row : gate_rows) {
    if (!row.closed(scenario)) continue;
    const Finding* finding = undone(scenario, row.key);
    gates.push_back({.key = std::string(row.key),
                     .requested = finding != nullptr,
                     .reason = finding != nullptr ? finding->reason : std::string(row.needs),
                     .holds = row.holds});
  }
  return gates;
}

}  // namespace stepsim
