#include "sim/study/validate_steps.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace stepsim {
namespace {

StepCell cell_of(const std::string& group, const std::vector<const MeasuredStep*>& rows) {
  StepCell cell{group, {}, {}, 0, 0};
  std::vector<double> all, scored;
  std::map<std::string, std::vector<double>> votes;
  int inside = 0, of_scored = 0;
  for (const MeasuredStep* row : rows) {
    if (!row->failure.empty()) {
      ++cell.failed;
      continue;
    }
    all.push_back(row->error());
    if (!row->scored) continue;
    votes[row->scenario].push_back(row->error());
    ++of_scored;
    inside += row->inside();
  }
  for (const auto& [scenario, errors] : votes)
    scored.push_back(std::accumulate(errors.begin(), errors.end(), 0.0) /
                     static_cast<double>(errors.size()));
  cell.inside = of_scored > 0 ? static_cast<double>(inside) / of_scored : 0;
  cell.all = statistics_of(all);
  cell.scored = statistics_of(scored);
  return cell;
}

}  // namespace

StepValidation validate_steps(const std::string& file, const DataPaths& data, int every,
                              const std::string& cluster) {
  StepValidation result;
  std::vector<StepRow> rows = read_step_rows(file, data, every, cluster);
  predict(rows);
  for (StepRow& row : rows) result.rows.push_back(std::move(row.row));
  std::map<std::string, std::vector<const MeasuredStep*>> groups;
  std::vector<const MeasuredStep*> all;
  for (const MeasuredStep& row : result.rows) {
    groups[row.group].push_back(&row);
    all.push_back(&row);
  }
  for (const auto& [group, rows] : groups) result.groups.push_back(cell_of(group, rows));
  std::stable_sort(
      result.groups.begin(), result.groups.end(),
      [](const StepCell& a, const StepCell& b) { return a.all.mean_abs > b.all.mean_abs; });
  result.overall = cell_of("overall", all);
  return result;
}

}  // namespace stepsim
