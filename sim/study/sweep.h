// A sweep: one scenario at many points, on all cores, in the order in which they were asked for.
// Law: the rows do not depend on the number of threads and processes, nor on whether some came from
// a journal.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/study/errands.h"
#include "sim/study/experiment.h"
#include "sim/study/variation.h"

namespace stepsim {

/// One point and what became of it.
struct SweepRow {
  Point point;
  bool done = false;  ///< false: the sweep was interrupted before it
  Outcome outcome;
  Figures figures;  ///< where it did not fail
  /// Runs and fits.
  bool feasible() const { return done && !outcome.failed() && figures.fits; }
};

/// What makes one row better than another.
enum class SweepAim { step, tokens };

struct Sweep {
  std::string file;
  std::vector<std::string> keys;  ///< that are varied
  std::vector<Axis> axes;
  std::vector<SweepRow> rows;
  /// Rows of equal GPUs and tokens are compared by their step, others by tokens a second and GPU.
  SweepAim aim = SweepAim::step;
  static constexpr size_t none = static_cast<size_t>(-1);
  size_t best = none;  ///< of the feasible rows
  bool complete() const;
};

/// How a sweep is run.
struct SweepRun {
  size_t threads = 1;
  Crew crew{};                                  ///< in place of threads
  std::function<bool()> stop{};                 ///< asked before each point
  std::function<void(const SweepRow&)> done{};  ///< after each point, by one thread at a time
  std::map<std::string, Outcome> known{};       ///< by point_text: not simulated again
};

Sweep sweep(const Experiment& experiment, std::vector<Axis> axes, const SweepRun& run);

/// `key=value key=value`: names a point.
std::string point_text(const Point& point);

/// A journal keeps what is done: its first line names the experiment, each other line is a row.
std::string journal_header(const Experiment& experiment);
std::string journal_line(const std::string& point, const Outcome& outcome);
/// Rows of a journal; a torn last line is left out. Throws Error when it is of another experiment.
std::map<std::string, Outcome> read_journal(const std::string& text, const std::string& file,
                                            const Experiment& experiment);

/// Tables of the rows. Text is at most 100 columns wide.
std::string sweep_text(const Sweep& sweep);
std::string sweep_csv(const Sweep& sweep);
std::string sweep_json(const Sweep& sweep);
/// One varied axis: a line; two: a heat map; more: the best over the rest, which the title says.
std::string sweep_svg(const Sweep& sweep);
/// One page for a browser, which loads nothing: a line or a heat map, the ledgers, a table.
std::string sweep_html(const Sweep& sweep);
/// What a row spends most on beside compute, or why it cannot be.
std::string reason(const SweepRow& row);
/// The last word of a dotted key, or its usual abbreviation.
std::string short_key(const std::string& key);
/// Keys of an axis and values of a point, with commas.
std::string axis_text(const Axis& axis);
std::string values_text(const Point& point);

}  // namespace stepsim
