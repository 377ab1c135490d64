// Which changes are merged: those that only work together, and no other.
#include "sim/study/coalitions.h"

#include <doctest/doctest.h>

using namespace stepsim;

namespace {

/// Changes are letters; `good` says which sets of them are accepted.
template <class Good>
Players players(size_t changes, size_t most, const Good& good) {
  return coalitions(changes, most, [&](const std::vector<Subset>& sets) {
    std::vector<bool> answers;
    for (const Subset& s : sets) answers.push_back(good(s));
    return answers;
  });
}

}  // namespace

TEST_CASE("what works alone stays alone") {
  CHECK(players(3, 10, [](const Subset&) { return true; }) == Players{{0}, {1}, {2}});
  CHECK(players(1, 10, [](const Subset&) { return false; }) == Players{{0}});
  CHECK(players(0, 10, [](const Subset&) { return false; }).empty());
}

TEST_CASE("a change that needs another is merged with that one") {
  // 1 needs 3, as overlap of p2p needs virtual stages.
  const auto needs = [](const Subset& s) { return !s[1] || s[3]; };
  CHECK(players(5, 10, needs) == Players{{0}, {1, 3}, {2}, {4}});
  CHECK(players(5, 2, needs) == Players{{0}, {1, 3}, {2}, {4}});  // without trying all sets
  // Two that only go together, either way.
  const auto both = [](const Subset& s) { return s[0] == s[4]; };
  CHECK(players(5, 10, both) == Players{{0, 4}, {1}, {2}, {3}});
  CHECK(players(5, 2, both) == Players{{0, 4}, {1}, {2}, {3}});
}

TEST_CASE("three that only work together") {
  const auto three = [](const Subset& s) { return !s[2] || (s[0] && s[3]); };
  CHECK(players(5, 10, three) == Players{{0, 2, 3}, {1}, {4}});
  CHECK(players(6, 2, three) == Players{{0, 2, 3}, {1}, {4}, {5}});
}

TEST_CASE("the ends exchanged give the same players") {
  const auto good = [](const Subset& s) { return (!s[1] || s[3]) && (s[0] == s[2] || s[4]); };
  const auto from_b = [&](Subset s) {
    s.flip();
    return good(s);
  };
  CHECK(players(5, 10, good) == players(5, 10, from_b));
  CHECK(players(5, 2, good) == players(5, 2, from_b));
}
