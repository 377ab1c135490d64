// What changed between two scenarios, what it costs, and through what.
//
// Law: by_change and by_cause each add up to the difference; A and B exchanged flip every sign; a
// scenario against itself is empty.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/study/attribution.h"
#include "sim/study/causes.h"
#include "sim/study/changes.h"
#include "sim/study/effective.h"

namespace stepsim {

/// A scenario and its step.
struct DiffSide {
  Scenario scenario;
  Report report;
  std::optional<Simulation> run{};  ///< for a trace, where it is kept
};

/// What one change, or several that only work together, is answerable for.
struct ChangeShare {
  std::vector<size_t> changes;  ///< numbers in `Diff::requested`
  double delta_seconds = 0, error_seconds = 0;
  std::vector<EffectiveChange> effective;  ///< what comes of it, alone or on top of all others
};

/// A requested setting that a gate undoes at one end only, though it is asked for at both: it went
/// out of effect, or came into it.
struct GateChange {
  Finding finding;
  bool lost = true;                     ///< in B; else in A
  std::optional<size_t> share;          ///< which of `by_change` opens or closes the gate
  std::optional<double> delta_seconds;  ///< what the setting alone is worth
};

/// A requested change that does not come into effect, and why.
struct UndoneChange {
  size_t change = 0;  ///< number in `Diff::requested`
  std::string reason;
};

/// Two changes that do something together: beyond what each does.
struct PairShare {
  size_t first = 0, second = 0;  ///< numbers in `Diff::by_change`
  double seconds = 0;
};

struct Diff {
  DiffSide a, b;
  double delta_seconds = 0;
  std::vector<KeyChange> requested;
  std::vector<EffectiveChange> effective;
  std::vector<GateChange> gates;  ///< the most expensive first
  std::vector<UndoneChange> undone;
  std::vector<ChangeShare> by_change;  ///< largest first; without changes that cannot matter
  std::vector<PairShare> pairs;        ///< beyond a fifth of the difference
  std::vector<CauseRow> by_cause, critical_path;
  Attribution attribution;

  /// Of A's step.
  double relative() const {
    return a.report.step_seconds > 0 ? delta_seconds / a.report.step_seconds : 0;
  }
  bool fits() const { return !b.report.memory || b.report.memory->fits(); }
};

struct DiffOptions {
  AttributionOptions attribution{};
  bool keep_runs = false;
};

/// A side whose step cannot finish, and why.
struct StalledSide {
  std::string file;
  Stall stall;
};

/// Throws as `simulate` does.
std::variant<Diff, StalledSide> diff(Scenario a, Scenario b, const DataPaths& data,
                                     const DiffOptions& options = {});

/// Findings of kind `silent` that B has and A has not.
std::vector<Finding> new_silent_findings(const Scenario& a, const Scenario& b);

}  // namespace stepsim
