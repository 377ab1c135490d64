// The Shapley value against games whose shares are known, and the laws that make it one.
#include "sim/study/shapley.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <numeric>

using namespace stepsim;

namespace {

/// Uneven values for n players, v(none) included.
std::vector<double> some_game(size_t n) {
  std::vector<double> v;
  for (size_t set = 0; set < size_t{1} << n; ++set) {
    double sum = 13.99;
    for (size_t i = 0; i < n; ++i)
      if ((set >> i & 1) != 0) sum += 0.1 / static_cast<double>(3 * i + 1);
    v.push_back(sum + 0.017 * std::popcount(set) * std::popcount(set & 5));
  }
  return v;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

TEST_CASE("shares of two players, by hand") {
  // none 0, first 10, second 20, both 50: the first adds 10 or 30, the second 20 or 40.
  const std::vector<double> v{0, 10, 20, 50};
  const std::vector<double> shares = exact_shapley(v);
  CHECK(shares[0] == doctest::Approx(20));
  CHECK(shares[1] == doctest::Approx(30));
  const std::vector<Interaction> pairs = pair_interactions(v);
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].seconds == doctest::Approx(20));
}

// Littlechild and Owen 1973: a runway costs what its largest aeroplane needs; each part is shared
// by those that need it. Needs 6, 12 and 42: 6/3, 6/3 + 6/2, 6/3 + 6/2 + 30.
TEST_CASE("the airport game") {
  const std::vector<double> needs{6, 12, 42};
  std::vector<double> v;
  for (size_t set = 0; set < 8; ++set) {
    double cost = 0;
    for (size_t i = 0; i < 3; ++i)
      if ((set >> i & 1) != 0) cost = std::max(cost, needs[i]);
    v.push_back(cost);
  }
  const std::vector<double> shares = exact_shapley(v);
  CHECK(shares[0] == doctest::Approx(2));
  CHECK(shares[1] == doctest::Approx(5));
  CHECK(shares[2] == doctest::Approx(35));
}

// A left glove and two right ones (the textbook's example): 2/3, 1/6, 1/6.
TEST_CASE("the glove game, and a player that changes nothing") {
  std::vector<double> v;
  for (size_t set = 0; set < 16; ++set) v.push_back((set & 1) != 0 && (set & 6) != 0 ? 1 : 0);
  const std::vector<double> shares = exact_shapley(v);
  CHECK(shares[0] == doctest::Approx(2.0 / 3));
  CHECK(shares[1] == doctest::Approx(1.0 / 6));
  CHECK(shares[2] == doctest::Approx(1.0 / 6));
  CHECK(shares[3] == 0);
}

TEST_CASE("shares add up, and the game seen from the other end flips every sign to the bit") {
  for (size_t n = 1; n <= 7; ++n) {
    const std::vector<double> v = some_game(n);
    const std::vector<double> back(v.rbegin(), v.rend());  // all but S instead of S
    const std::vector<double> shares = exact_shapley(v), other = exact_shapley(back);
    CHECK(sum_of(shares) == doctest::Approx(v.back() - v.front()).epsilon(1e-12));
    for (size_t i = 0; i < n; ++i) CHECK(shares[i] == -other[i]);
    const auto pairs = pair_interactions(v), same = pair_interactions(back);
    CHECK(pairs.size() == n * (n - 1) / 2);
    for (size_t k = 0; k < pairs.size(); ++k) CHECK(pairs[k].seconds == same[k].seconds);
  }
}

namespace {

SampledShares sampled(const std::vector<double>& v, size_t n, size_t pairs) {
  const auto orders = sampled_orders(n, pairs, 1);
  std::vector<std::vector<double>> values;
  for (const auto& order : orders) {
    size_t set = 0;
    values.push_back({v[0]});
    for (const size_t player : order) values.back().push_back(v[set |= size_t{1} << player]);
  }
  return sampled_shapley(orders, values);
}

}  // namespace

TEST_CASE("random orders: they add up, flip, and come within a few standard errors") {
  constexpr size_t n = 6;
  const std::vector<double> v = some_game(n), back(v.rbegin(), v.rend());
  const std::vector<double> exact = exact_shapley(v);
  const SampledShares found = sampled(v, n, 12), other = sampled(back, n, 12);
  CHECK(sum_of(found.shares) == doctest::Approx(v.back() - v.front()).epsilon(1e-12));
  for (size_t i = 0; i < n; ++i) {
    CHECK(found.shares[i] == -other.shares[i]);
    CHECK(std::abs(found.shares[i] - exact[i]) <= 4 * found.errors[i] + 1e-12);
  }
  // An order and its reverse halve what two do together evenly, so a game of pairs has no error.
  std::vector<double> of_pairs;
  for (size_t set = 0; set < 16; ++set) of_pairs.push_back(std::popcount(set) * std::popcount(set));
  const SampledShares sure = sampled(of_pairs, 4, 3);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(sure.shares[i] == doctest::Approx(4));
    CHECK(sure.errors[i] == doctest::Approx(0));
  }
}

TEST_CASE("orders: each a permutation, followed by its reverse, the same for the same seed") {
  const auto orders = sampled_orders(5, 4, 7);
  REQUIRE(orders.size() == 8);
  for (size_t k = 0; k < orders.size(); k += 2) {
    std::vector<size_t> sorted = orders[k];
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == std::vector<size_t>{0, 1, 2, 3, 4});
    CHECK(std::equal(orders[k].rbegin(), orders[k].rend(), orders[k + 1].begin()));
  }
  CHECK(orders == sampled_orders(5, 4, 7));
  CHECK(orders != sampled_orders(5, 4, 8));
}
