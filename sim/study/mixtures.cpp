#include "sim/study/mixtures.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/base/error.h"

namespace stepsim {
namespace {

Scenario with_microbatches(Scenario s, int64_t count) {
  s.batch.microbatches = count;
  s.batch.global = count * s.batch.micro * s.parallel.dp;
  return s;
}

std::optional<double> step_of(const Scenario& s, Rounds rounds, StepMemo& memo) {
  const std::optional<ShortSteps> shorter = short_steps(s, rounds);
  if (!shorter) return step_seconds(s, memo);
  const auto one = step_seconds(with_microbatches(s, shorter->first), memo);
  if (!one) return one;
  const auto two = step_seconds(with_microbatches(s, shorter->second), memo);
  if (!two) return two;
  const auto more = static_cast<double>(s.batch.microbatches - shorter->first);
  return *one + more / static_cast<double>(shorter->second - shorter->first) * (*two - *one);
}

}  // namespace

std::optional<ShortSteps> short_steps(const Scenario& s, Rounds rounds) {
  if (rounds == Rounds::whole || s.batch.token_sum > 0 || !s.order.empty()) return std::nullopt;
  const Parallelism& p = s.parallel;
  // A round: one microbatch on every stage; of two directions, one each.
  int64_t unit = std::max({p.pp, p.microbatch_group, 1});
  if (p.placement != Placement::ring) unit *= 2;
  const int64_t m = s.batch.microbatches;
  // A single microbatch is the first and the last at once.
  const int64_t first = (unit == 1 ? 1 : 0) + static_cast<int64_t>(rounds) * unit + m % unit;
  const int64_t second = first + unit;
  if (4 * (first + second) > 3 * m) return std::nullopt;
  return ShortSteps{first, second};
}

Mixtures::Mixtures(const DocumentPair& documents, const DataPaths& data, double tasks,
                   Progress progress)
    : documents_(documents),
      data_(data),
      workers_(worker_count(tasks)),
      progress_(std::move(progress)) {}

std::optional<Scenario> Mixtures::read(const Subset& made) const {
  try {
    return read_scenario_text(documents_.mixture(made), documents_.file(), {}, "", data_);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<bool> Mixtures::accepted(const std::vector<Subset>& sets) {
  constexpr size_t most_kept = 2048;
  std::vector<std::shared_ptr<const Scenario>> found(sets.size());
  for_each_piece(sets.size(), workers_, [&](size_t i) {
    if (auto scenario = read(sets[i])) found[i] = std::make_shared<Scenario>(std::move(*scenario));
  });
  std::vector<bool> good;
  for (size_t i = 0; i < sets.size(); ++i) {
    good.push_back(found[i] != nullptr);
    if (found[i] && read_.size() < most_kept) read_[sets[i]] = std::move(found[i]);
  }
  return good;
}

void Mixtures::know(const Subset& made, double seconds) { known_[{Rounds::whole, made}] = seconds; }

std::vector<std::optional<double>> Mixtures::steps(const std::vector<Subset>& sets, Rounds rounds) {
  std::set<Subset> unknown;
  for (const Subset& set : sets)
    if (!known_.contains({rounds, set})) unknown.insert(set);
  const std::vector<Subset> fresh(unknown.begin(), unknown.end());
  std::vector<std::optional<double>> found(fresh.size());
  for_each_piece(
      fresh.size(), workers_,
      [&](size_t i) {
        const auto kept = read_.find(fresh[i]);
        std::optional<Scenario> fetched;
        if (kept == read_.end()) fetched = read(fresh[i]);
        if (kept == read_.end() && !fetched) return;
        try {
          found[i] = step_of(kept == read_.end() ? *fetched : *kept->second, rounds, memo_);
        } catch (const Error&) {
          // Too large to simulate, or without a finite time: refused like what cannot be read.
        }
      },
      progress_);
  for (size_t i = 0; i < fresh.size(); ++i) known_[{rounds, fresh[i]}] = found[i];
  std::vector<std::optional<double>> result;
  for (const Subset& set : sets) result.push_back(known_.at({rounds, set}));
  return result;
}

}  // namespace stepsim
