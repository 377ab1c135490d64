#include "sim/study/shapley.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <numeric>
#include <random>

namespace stepsim {
namespace {

/// s! (n - s - 1)! / n! = 1 / (n * binomial(n - 1, s)), by size.
std::vector<double> weights(size_t n) {
  std::vector<double> result(n);
  double binomial = 1;
  for (size_t s = 0; s < n; ++s) {
    result[s] = 1 / (static_cast<double>(n) * binomial);
    binomial = binomial * static_cast<double>(n - 1 - s) / static_cast<double>(s + 1);
  }
  // Equal to the last bit from both ends.
  for (size_t s = 0; s < n / 2; ++s) result[n - 1 - s] = result[s];
  return result;
}

/// Mean of `term` over the sets without the players of `out`, each set beside its complement.
template <class Term>
double mean_over_sets(size_t n, size_t out, const Term& term) {
  const size_t all = (size_t{1} << n) - 1, rest = all & ~out;
  const std::vector<double> w = weights(n - static_cast<size_t>(std::popcount(out)) + 1);
  double sum = 0;
  for (size_t set = 0; set <= all; ++set) {
    const size_t other = rest & ~set;
    if ((set & out) != 0 || set > other) continue;
    const double weight = w[static_cast<size_t>(std::popcount(set))];
    sum += set == other ? weight * term(set) : weight * (term(set) + term(other));
  }
  return sum;
}

}  // namespace

std::vector<double> exact_shapley(std::span<const double> values) {
  const auto n = static_cast<size_t>(std::bit_width(values.size()) - 1);
  assert(values.size() == size_t{1} << n);
  std::vector<double> shares;
  for (size_t i = 0; i < n; ++i) {
    const size_t bit = size_t{1} << i;
    shares.push_back(
        mean_over_sets(n, bit, [&](size_t set) { return values[set | bit] - values[set]; }));
  }
  return shares;
}

std::vector<Interaction> pair_interactions(std::span<const double> values) {
  const auto n = static_cast<size_t>(std::bit_width(values.size()) - 1);
  std::vector<Interaction> pairs;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      const size_t first = size_t{1} << i, second = size_t{1} << j;
      pairs.push_back({i, j, mean_over_sets(n, first | second, [&](size_t set) {
                         return (values[set | first | second] + values[set]) -
                                (values[set | first] + values[set | second]);
                       })});
    }
  }
  return pairs;
}

std::vector<std::vector<size_t>> sampled_orders(size_t n, size_t pairs, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<size_t>> orders;
  for (size_t p = 0; p < pairs; ++p) {
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    // Fisher and Yates; the library's own shuffle differs between platforms.
    for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    orders.push_back(order);
    orders.emplace_back(order.rbegin(), order.rend());
  }
  return orders;
}

SampledShares sampled_shapley(const std::vector<std::vector<size_t>>& orders,
                              const std::vector<std::vector<double>>& values) {
  const size_t n = orders.front().size(), pairs = orders.size() / 2;
  std::vector<std::vector<double>> of_pair(pairs, std::vector<double>(n, 0));
  for (size_t k = 0; k < orders.size(); ++k)
    for (size_t i = 0; i < n; ++i)
      of_pair[k / 2][orders[k][i]] += (values[k][i + 1] - values[k][i]) / 2;
  SampledShares result{std::vector<double>(n, 0), std::vector<double>(n, 0)};
  const auto count = static_cast<double>(pairs);
  for (size_t i = 0; i < n; ++i) {
    for (const auto& one : of_pair) result.shares[i] += one[i];
    result.shares[i] /= count;
    double squares = 0;
    for (const auto& one : of_pair)
      squares += (one[i] - result.shares[i]) * (one[i] - result.shares[i]);
    result.errors[i] = pairs > 1 ? std::sqrt(squares / (count - 1) / count) : 0;
  }
  return result;
}

}  // namespace stepsim
