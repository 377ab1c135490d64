// Why communication is exposed: for each class the seconds that the ledger gives to it, by reason.
// Law: the reasons of a class add up to its exposed seconds, which are the ledger's.
//
// Every exposed second is given one reason, the first that holds of:
//   gate_off           a switch that would put this transfer beside kernels is not in effect
//   communicator_busy  what waits could have gone on, but an earlier operation held its stream
//   launch_order       the same, held by a launch queue or a launch that came late
//   no_sm, hbm, links  the transfer itself began late for want of SMs, or shared its bandwidth
//   first_last_bucket  gradients after the last backward, parameters before the first forward
//   warmup_cooldown    pipeline messages before the first backward or after the last forward
//   dependency         the next kernel needs it, and nothing else is ready
// A delay that lies under running kernels counts too: a transfer that came D late exposes at most D
// because of it. Worked case: a queue busy until 6, a transfer ready at 0 runs [6, 10], kernels run
// until 6: without the queue it would have been hidden; 4 seconds are communicator_busy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/ledger.h"
#include "sim/report/overlap_gates.h"
#include "sim/report/report.h"

namespace stepsim {

enum class ExposedReason : uint8_t {
  dependency,
  communicator_busy,
  launch_order,
  no_sm,
  hbm,
  links,
  first_last_bucket,
  warmup_cooldown,
  gate_off
};
inline constexpr int exposed_reason_count = 9;
std::string_view name(ExposedReason reason);         ///< as in JSON
std::string_view plain_words(ExposedReason reason);  ///< for a person
using ReasonSeconds = std::array<double, exposed_reason_count>;

/// One operation of a layer, chunk or bucket on one stage, all microbatches together.
struct ExposedOp {
  Label label;  ///< without its microbatch
  int stage = 0;
  double seconds = 0;  ///< mean of all ranks, so that they add up to the class
  ExposedReason reason = ExposedReason::dependency;  ///< of most of it
};
/// "tp all-gather forward L12, stage 1".
std::string describe(const ExposedOp& op);

/// One class, seconds of the mean rank.
struct ExposedClass {
  double seconds = 0;         ///< the ledger's exposed_<class>
  double hidden_seconds = 0;  ///< of the overlap table
  ReasonSeconds reasons{};
  std::vector<ExposedOp> offenders;  ///< most first
  std::vector<ClosedGate> gates;     ///< those that gate_off is about
};

/// Absent: no transfer of that class.
struct ExposedTable {
  std::array<std::optional<ExposedClass>, comm_class_count> by_class;
};

/// `report`: of the same step. Idle that goes away with injected faults is skew there and is left
/// out here, in proportion.
ExposedTable exposed(const LoweredStep& step, const Timeline& timeline, const Report& report,
                     const std::vector<ClosedGate>& gates);

/// The block of `run --why`.
std::string exposed_text(const ExposedTable& table, double step_seconds);

}  // namespace stepsim
