// Whatever the layout, the reasons of exposed communication add up to what the ledger calls
// exposed.
#include "sim/report/exposed.h"

#include <doctest/doctest.h>

#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// Seconds by reason, all classes together, once the law has been checked.
ReasonSeconds reasons_of(const Scenario& s) {
  const Simulation sim = step_of(s);
  const ExposedTable table = exposed(sim.lowered, sim.timeline, sim.report, closed_gates(s));
  ReasonSeconds all{};
  for (size_t c = 1; c < comm_class_count; ++c) {
    const double ledger = sim.report.ledger.seconds[static_cast<size_t>(Cause::exposed_tp) + c - 1];
    double sum = 0;
    if (table.by_class[c])
      for (size_t r = 0; r < all.size(); ++r) {
        CHECK(table.by_class[c]->reasons[r] >= 0);
        sum += table.by_class[c]->reasons[r];
        all[r] += table.by_class[c]->reasons[r];
      }
    CHECK(std::abs(sum - ledger) <= 1e-9 * sim.report.step_seconds);
  }
  return all;
}

double part(const ReasonSeconds& all, ExposedReason r) { return all[static_cast<size_t>(r)]; }

}  // namespace

TEST_CASE("reasons add up to the ledger: layouts, overlaps, faults, experts") {
  const Layout small{.tp = 2, .dp = 2, .pp = 2, .vp = 2, .microbatches = 4, .sp = true};
  Layout overlapped = small;
  overlapped.tp_overlap = overlapped.grad_overlap = overlapped.gather_overlap = true;
  const nlohmann::json off = scenario_json("llama3-8b", "dgx-h100", small);
  const nlohmann::json on = scenario_json("llama3-8b", "dgx-h100", overlapped);
  CHECK(part(reasons_of(read(off)), ExposedReason::gate_off) > 0);
  const ReasonSeconds open = reasons_of(read(on));
  CHECK(part(open, ExposedReason::gate_off) == 0);
  CHECK(part(open, ExposedReason::first_last_bucket) > 0);
  CHECK(part(open, ExposedReason::warmup_cooldown) > 0);

  nlohmann::json late = on;
  late["cluster"]["faults"] = {{{"gpu", 3}, {"compute_factor", 0.8}}};
  reasons_of(read(late));

  nlohmann::json queue = on;
  queue["env_vars"]["CUDA_DEVICE_MAX_CONNECTIONS"] = 1;
  reasons_of(read(queue));

  nlohmann::json experts =
      scenario_json("moonlight-16b-a3b", "dgx-h100", {.dp = 4, .microbatches = 2, .layers = 3});
  experts["model"]["expert_model_parallel_size"] = 4;
  experts["model"]["moe_token_dispatcher_type"] = "alltoall";
  reasons_of(read(experts));
}
