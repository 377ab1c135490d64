#include "sim/study/coalitions.h"

#include <algorithm>
#include <map>

namespace stepsim {
namespace {

using Known = std::map<Subset, bool>;

void add_with_complement(std::vector<Subset>& sets, const Players& players, size_t changes,
                         std::vector<bool> in) {
  sets.push_back(made_by(players, changes, in));
  in.flip();
  sets.push_back(made_by(players, changes, in));
}

/// Tries what is not known yet.
void learn(Known& known, const std::vector<Subset>& sets, const Accepts& accepts) {
  std::vector<Subset> fresh;
  for (const Subset& set : sets)
    if (known.try_emplace(set, true).second) fresh.push_back(set);
  const std::vector<bool> answers = accepts(fresh);
  for (size_t i = 0; i < fresh.size(); ++i) known[fresh[i]] = answers[i];
}

/// Whether the mixture never takes one change of a player without its others.
bool keeps_together(const Players& players, const Subset& set) {
  return std::all_of(players.begin(), players.end(), [&](const std::vector<size_t>& p) {
    return std::all_of(p.begin(), p.end(), [&](size_t c) { return set[c] == set[p.front()]; });
  });
}

struct Sorted {
  std::vector<Subset> refused, accepted;
};
Sorted sorted(const Known& known, const Players& players) {
  Sorted result;
  for (const auto& [set, good] : known)
    if (keeps_together(players, set)) (good ? result.accepted : result.refused).push_back(set);
  return result;
}

std::vector<bool> only(size_t n, std::initializer_list<size_t> players) {
  std::vector<bool> in(n, false);
  for (const size_t p : players) in[p] = true;
  return in;
}

/// Each player alone; around those that are refused, alone or left out, its pairs, and where none
/// of them helps its triples.
void try_around(Known& known, const Players& players, size_t changes, const Accepts& accepts) {
  const size_t n = players.size();
  constexpr size_t most_for_triples = 24;
  std::vector<Subset> sets;
  for (size_t i = 0; i < n; ++i) add_with_complement(sets, players, changes, only(n, {i}));
  learn(known, sets, accepts);
  std::vector<size_t> offenders;
  for (size_t i = 0; i < n; ++i)
    if (!known.at(sets[2 * i]) || !known.at(sets[2 * i + 1])) offenders.push_back(i);
  for (const size_t i : offenders) {
    sets.clear();
    for (size_t j = 0; j < n; ++j)
      if (j != i) add_with_complement(sets, players, changes, only(n, {i, j}));
    learn(known, sets, accepts);
    const bool helped =
        std::any_of(sets.begin(), sets.end(), [&](const Subset& set) { return known.at(set); });
    if (helped || n > most_for_triples) continue;
    sets.clear();
    for (size_t j = 0; j < n; ++j)
      for (size_t k = j + 1; k < n; ++k)
        if (j != i && k != i) add_with_complement(sets, players, changes, only(n, {i, j, k}));
    learn(known, sets, accepts);
  }
}

}  // namespace

Subset made_by(const Players& players, size_t changes, const std::vector<bool>& in) {
  Subset made(changes, false);
  for (size_t p = 0; p < players.size(); ++p)
    for (const size_t c : players[p]) made[c] = in[p];
  return made;
}

Players merged(const Players& players, const std::vector<Subset>& refused,
               const std::vector<Subset>& accepted) {
  const auto told_apart = [&](const std::vector<Subset>& sets, size_t i, size_t j) {
    return std::count_if(sets.begin(), sets.end(), [&](const Subset& set) {
      return set[players[i].front()] != set[players[j].front()];
    });
  };
  std::pair<size_t, size_t> best{0, 1};
  std::pair<std::ptrdiff_t, std::ptrdiff_t> best_count{-1, 0};
  for (size_t i = 0; i < players.size(); ++i) {
    for (size_t j = i + 1; j < players.size(); ++j) {
      const std::pair count(told_apart(refused, i, j), -told_apart(accepted, i, j));
      if (count > best_count) {
        best_count = count;
        best = {i, j};
      }
    }
  }
  Players result = players;
  std::vector<size_t>& into = result[best.first];
  into.insert(into.end(), players[best.second].begin(), players[best.second].end());
  std::sort(into.begin(), into.end());
  result.erase(result.begin() + static_cast<std::ptrdiff_t>(best.second));
  return result;
}

Players coalitions(size_t changes, size_t most_enumerated, const Accepts& accepts) {
  Players players;
  for (size_t c = 0; c < changes; ++c) players.push_back({c});
  Known known;
  while (players.size() > 1) {
    const size_t n = players.size();
    if (n <= most_enumerated) {
      std::vector<Subset> sets;
      for (size_t set = 1; set + 1 < size_t{1} << n; ++set) {
        std::vector<bool> in(n);
        for (size_t p = 0; p < n; ++p) in[p] = (set >> p & 1) != 0;
        sets.push_back(made_by(players, changes, in));
      }
      learn(known, sets, accepts);
    } else {
      try_around(known, players, changes, accepts);
    }
    const Sorted now = sorted(known, players);
    if (now.refused.empty()) return players;
    players = merged(players, now.refused, now.accepted);
  }
  return players;
}

}  // namespace stepsim
