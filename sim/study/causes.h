// Through what one step takes longer than another: the ledger of both, and within its kernels each
// kind. Law: the rows add up to the difference, and the parts of a row to the row.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate.h"

namespace stepsim {

/// One cause, mean seconds a rank. Its parts leave out what is zero on both sides.
struct CauseRow {
  std::string name;
  double from_seconds = 0, to_seconds = 0;
  std::vector<CauseRow> parts{};
  double delta() const { return to_seconds - from_seconds; }
};

/// Seconds of each kind of kernel at full speed, mean over all ranks: they add up to the ledger's
/// compute and optimizer.
std::vector<CauseRow> kernel_rows(const Simulation& step, TaskClass of);

/// Rows in the order of the ledger's causes.
std::vector<CauseRow> causes(const Simulation& a, const Simulation& b);
/// The same of the critical path, by kind.
std::vector<CauseRow> critical_causes(const Report& a, const Report& b);

}  // namespace stepsim
