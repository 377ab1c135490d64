// How much of a difference each change is answerable for: the Shapley value.
//
//   share(i) = sum over S without i of |S|! (n-|S|-1)! / n! (v(S + i) - v(S))
// (Shapley 1953): the only split that adds up to v(all) - v(none), treats alike what acts alike,
// gives nothing to what changes nothing, and adds over games. Interaction of a pair (Grabisch and
// Roubens 1999): the same mean, over n - 1 players, of v(S+i+j) - v(S+i) - v(S+j) + v(S).
// Law: with v'(S) = v(all - S), the game seen from the other end, every share has the other sign
// to the last bit: terms are added in pairs that the exchange maps onto each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stepsim {

/// `values`: v by set, bit i of the index telling that player i is in; 2^n of them.
std::vector<double> exact_shapley(std::span<const double> values);

/// What two players do together beyond what each does.
struct Interaction {
  size_t first = 0, second = 0;
  double seconds = 0;
};
/// All pairs.
std::vector<Interaction> pair_interactions(std::span<const double> values);

/// Random orders of n players, each followed by its reverse. Same seed, same orders, everywhere.
std::vector<std::vector<size_t>> sampled_orders(size_t n, size_t pairs, uint64_t seed);

/// Shares estimated from orders and their reverses, and the standard errors of those means.
struct SampledShares {
  std::vector<double> shares, errors;
};
/// `values[k]`: v of the first 0 .. n players of `orders[k]`.
SampledShares sampled_shapley(const std::vector<std::vector<size_t>>& orders,
                              const std::vector<std::vector<double>>& values);

}  // namespace stepsim
