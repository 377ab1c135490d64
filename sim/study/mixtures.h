// Steps of every mixture of two scenarios, each simulated once.
//
// Microbatches of a pipeline in its steady state take equally long, so a step of m is told from
// two short ones: t(m) = t(m0) + (m - m0) / u (t(m0 + u) - t(m0)), with u a round of the pipeline
// and m0 as many rounds as it takes to reach that state. That holds only as far as it is checked:
// `deviation` compares with whole steps.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>

#include "sim/config/read.h"
#include "sim/simulate.h"
#include "sim/study/changes.h"
#include "sim/study/workers.h"

namespace stepsim {

/// How a step is simulated: whole (0), or told from steps of so many rounds and one more.
enum class Rounds { whole = 0 };

/// Steps by mixture. Not for use from many threads; it uses many itself.
class Mixtures {
 public:
  /// `tasks`: of one whole step, for how many may run at once.
  Mixtures(const DocumentPair& documents, const DataPaths& data, double tasks, Progress progress);

  /// The scenario of a mixture; nothing where Megatron or this program refuses it.
  std::optional<Scenario> read(const Subset& made) const;
  /// Whether each mixture is accepted, by reading it; what was read is kept for its step.
  std::vector<bool> accepted(const std::vector<Subset>& sets);
  /// Seconds of each; nothing where it is refused or cannot finish.
  std::vector<std::optional<double>> steps(const std::vector<Subset>& sets, Rounds rounds);
  /// Puts a step that is known into the memory of whole ones.
  void know(const Subset& made, double seconds);

  size_t simulated() const { return memo_.size(); }  ///< different lowered graphs that were run
  size_t asked() const { return known_.size(); }

 private:
  const DocumentPair& documents_;
  DataPaths data_;
  size_t workers_;
  Progress progress_;
  StepMemo memo_;
  std::map<Subset, std::shared_ptr<const Scenario>> read_;
  std::map<std::pair<Rounds, Subset>, std::optional<double>> known_;
};

/// Microbatches of the two short steps that stand for a whole one; nothing where they save nothing
/// or microbatches are not alike (packed sequences, schedules spelled out).
struct ShortSteps {
  int64_t first = 0, second = 0;
};
std::optional<ShortSteps> short_steps(const Scenario& scenario, Rounds rounds);

}  // namespace stepsim
