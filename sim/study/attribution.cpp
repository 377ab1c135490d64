#include "sim/study/attribution.h"

#include <algorithm>
#include <cmath>

namespace stepsim {
namespace {

std::vector<bool> bits(size_t set, size_t n) {
  std::vector<bool> in(n);
  for (size_t i = 0; i < std::min<size_t>(n, 63); ++i) in[i] = (set >> i & 1) != 0;
  return in;
}

/// Simulates mixtures of the players of one difference.
class Attributing {
 public:
  Attributing(Mixtures& mixtures, size_t changes, const std::vector<size_t>& live, const Ends& ends,
              const AttributionOptions& options)
      : mixtures_(mixtures), changes_(changes), live_(live), ends_(ends), options_(options) {}

  Attribution run() {
    find_players();
    if (size() > options_.most_exact) set_dormant_aside();
    mixtures_.know(made({}), ends_.a_seconds);
    mixtures_.know(made(std::vector<bool>(size(), true)), ends_.b_seconds);
    // A mixture that is accepted and cannot finish merges players too.
    while (!attribute()) {
    }
    result_.simulated = mixtures_.simulated();
    for (const std::vector<size_t>& player : dormant_) {
      result_.players.push_back(player);
      result_.shares.push_back(0);
      if (!result_.errors.empty()) result_.errors.push_back(0);
    }
    result_.dormant = dormant_.size();
    return std::move(result_);
  }

 private:
  size_t size() const { return result_.players.size(); }
  /// The mixture of all changes that these players make.
  Subset made(const std::vector<bool>& in) const {
    if (in.empty()) return Subset(changes_, false);
    Subset set = made_by(result_.players, changes_, in);
    // Dormant changes go with the majority, so that both ends are whole and either is as good.
    const auto count = 2 * static_cast<size_t>(std::count(in.begin(), in.end(), true));
    const bool most = count == in.size() ? in.front() : count > in.size();
    for (const std::vector<size_t>& player : dormant_)
      for (const size_t c : player) set[c] = most;
    return set;
  }

  /// Of many players, those that change nothing alone and nothing on top of all others.
  void set_dormant_aside() {
    const size_t n = size();
    std::vector<Subset> sets{made(bits(0, n)), made(std::vector<bool>(n, true))};
    for (size_t i = 0; i < n; ++i) {
      std::vector<bool> in(n, false);
      in[i] = true;
      sets.push_back(made(in));
      in.flip();
      sets.push_back(made(in));
    }
    const auto seconds = mixtures_.steps(sets, Rounds{1});
    Players live;
    for (size_t i = 0; i < n; ++i) {
      const bool nothing = seconds[2 + 2 * i] && seconds[2 + 2 * i] == seconds[0] &&
                           seconds[3 + 2 * i] && seconds[3 + 2 * i] == seconds[1];
      (nothing ? dormant_ : live).push_back(result_.players[i]);
    }
    if (live.empty()) std::swap(live, dormant_);
    result_.players = std::move(live);
  }

  void find_players() {
    // Coalitions know nothing of the changes that cannot matter.
    const Players local = coalitions(live_.size(), options_.most_exact, [&](const auto& sets) {
      std::vector<Subset> all;
      for (const Subset& set : sets) {
        Subset one(changes_, false);
        for (size_t i = 0; i < live_.size(); ++i) one[live_[i]] = set[i];
        all.push_back(std::move(one));
      }
      return mixtures_.accepted(all);
    });
    for (const std::vector<size_t>& player : local) {
      result_.players.emplace_back();
      for (const size_t i : player) result_.players.back().push_back(live_[i]);
    }
  }

  /// Tasks of one mixture at that many rounds, as the mean of both ends.
  double cost(Rounds rounds) const {
    double tasks = 0;
    for (const auto& [scenario, whole] :
         {std::pair{&ends_.a, ends_.a_tasks}, std::pair{&ends_.b, ends_.b_tasks}}) {
      const auto shorter = short_steps(*scenario, rounds);
      tasks += whole / 2 *
               (!shorter ? 1
                         : static_cast<double>(shorter->first + shorter->second) /
                               static_cast<double>(scenario->batch.microbatches));
    }
    return tasks;
  }

  /// Combinations at that cost are within what may be simulated. Short steps may cost more: they
  /// are what makes up to ten changes exact.
  bool affordable(double combinations, Rounds rounds) const {
    return combinations * cost(rounds) <= options_.most_tasks * (rounds == Rounds::whole ? 1 : 2.2);
  }

  /// Ends and, where that costs little, every player alone and all without it.
  std::vector<std::vector<bool>> checked() const {
    const size_t n = size();
    std::vector<std::vector<bool>> sets{bits(0, n), std::vector<bool>(n, true)};
    if (2 * static_cast<double>(n) * cost(Rounds::whole) > options_.most_tasks / 2) return sets;
    for (size_t i = 0; i < n; ++i) {
      std::vector<bool> in(n, false);
      in[i] = true;
      sets.push_back(in);
      in.flip();
      sets.push_back(in);
    }
    return sets;
  }

  /// How mixtures are to be simulated.
  struct Plan {
    Rounds rounds = Rounds::whole;
    double combinations = 0;  ///< different ones, as far as can be told from single changes
  };

  /// The fewest rounds whose steps agree with whole ones; whole where none do.
  Plan plan() {
    const std::vector<std::vector<bool>> in = checked();
    std::vector<Subset> sets;
    for (const std::vector<bool>& one : in) sets.push_back(made(one));
    const auto whole = mixtures_.steps(sets, Rounds::whole);
    // A player that changes nothing alone and nothing on top of all others doubles nothing.
    double combinations = std::exp2(static_cast<double>(size()));
    for (size_t i = 2; i + 1 < in.size(); i += 2)
      if (whole[i] == whole[0] && whole[i + 1] == whole[1]) combinations /= 2;
    const double allowed = 1e-3 * std::abs(ends_.b_seconds - ends_.a_seconds);
    for (const int rounds : {1, 2}) {
      if (cost(Rounds{rounds}) >= cost(Rounds::whole)) break;
      const auto told = mixtures_.steps(sets, Rounds{rounds});
      double deviation = 0;
      for (size_t i = 0; i < sets.size(); ++i)
        if (whole[i] && told[i]) deviation = std::max(deviation, std::abs(*whole[i] - *told[i]));
      if (deviation > allowed) continue;
      result_.deviation_seconds = deviation;
      result_.shortened = true;
      return {Rounds{rounds}, combinations};
    }
    return {Rounds::whole, combinations};
  }

  /// Steps of player sets: of ends always whole. Nothing, and players merged, where one is missing.
  std::optional<std::vector<double>> steps(const std::vector<std::vector<bool>>& in,
                                           Rounds rounds) {
    std::vector<Subset> sets;
    for (const std::vector<bool>& one : in) sets.push_back(made(one));
    std::vector<std::optional<double>> found = mixtures_.steps(sets, rounds);
    std::vector<double> seconds;
    std::vector<Subset> refused, accepted;
    for (size_t i = 0; i < sets.size(); ++i) {
      const auto players = static_cast<size_t>(std::count(in[i].begin(), in[i].end(), true));
      if (players == 0) found[i] = ends_.a_seconds;
      if (players == in[i].size()) found[i] = ends_.b_seconds;
      (found[i] ? accepted : refused).push_back(sets[i]);
      Subset other = made([&] {
        std::vector<bool> flipped = in[i];
        flipped.flip();
        return flipped;
      }());
      if (!found[i]) refused.push_back(std::move(other));
      seconds.push_back(found[i].value_or(0));
    }
    if (refused.empty()) return seconds;
    result_.players = merged(result_.players, refused, accepted);
    return std::nullopt;
  }

  /// False: players were merged, and all begins anew.
  bool attribute() {
    const size_t n = size();
    const double all = std::exp2(static_cast<double>(n));
    const bool few = n <= options_.most_exact;
    if (few && (options_.whole || affordable(all, Rounds::whole))) return enumerate(Rounds::whole);
    const Plan how = plan();
    return few && affordable(how.combinations, how.rounds) ? enumerate(how.rounds)
                                                           : sample(how.rounds);
  }

  bool enumerate(Rounds rounds) {
    const size_t n = size(), count = size_t{1} << n;
    std::vector<std::vector<bool>> sets;
    for (size_t set = 0; set < count; ++set) sets.push_back(bits(set, n));
    const auto seconds = steps(sets, rounds);
    if (!seconds) return false;
    result_.values = *seconds;
    result_.combinations = count;
    result_.shares = exact_shapley(result_.values);
    result_.pairs = pair_interactions(result_.values);
    return true;
  }

  bool sample(Rounds rounds) {
    const size_t n = size();
    const double of_pair = 2 * static_cast<double>(n) * cost(rounds);
    constexpr double fewest = 3, most = 64;
    const double pairs = std::clamp(std::floor(options_.most_tasks / of_pair), fewest, most);
    const auto orders = sampled_orders(n, static_cast<size_t>(pairs), options_.seed);
    std::vector<std::vector<bool>> sets;
    for (const std::vector<size_t>& order : orders) {
      std::vector<bool> in(n, false);
      sets.push_back(in);
      for (const size_t player : order) {
        in[player] = true;
        sets.push_back(in);
      }
    }
    const auto seconds = steps(sets, rounds);
    if (!seconds) return false;
    std::vector<std::vector<double>> values;
    for (size_t k = 0; k < orders.size(); ++k) {
      const auto first = seconds->begin() + static_cast<std::ptrdiff_t>(k * (n + 1));
      values.emplace_back(first, first + static_cast<std::ptrdiff_t>(n + 1));
    }
    SampledShares shares = sampled_shapley(orders, values);
    result_.shares = std::move(shares.shares);
    result_.errors = std::move(shares.errors);
    result_.orders = orders.size();
    std::sort(sets.begin(), sets.end());
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    result_.combinations = sets.size();
    return true;
  }

  Mixtures& mixtures_;
  size_t changes_;
  const std::vector<size_t>& live_;
  const Ends& ends_;
  const AttributionOptions& options_;
  Players dormant_;  ///< set aside
  Attribution result_{};
};

}  // namespace

Attribution attribute(Mixtures& mixtures, size_t changes, const std::vector<size_t>& live,
                      const Ends& ends, const AttributionOptions& options) {
  if (live.empty()) return {};
  return Attributing(mixtures, changes, live, ends, options).run();
}

}  // namespace stepsim
