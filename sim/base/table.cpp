#include "sim/base/table.h"

#include <algorithm>

namespace stepsim {

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows suffice: the swap of neighbours looks two rows back.
  std::vector<int> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitute = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::string_view nearest(std::string_view name, std::span<const std::string> candidates) {
  // A third of the letters may be wrong (at least two); beyond that a guess misleads. Long input is
  // never a typo.
  constexpr size_t longest_typo = 200;
  if (name.size() > longest_typo) return {};
  int best = std::max(2, static_cast<int>(name.size()) / 3) + 1;
  std::string_view found;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(name, candidate);
    if (distance < best && distance < static_cast<int>(candidate.size())) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  if (candidates.empty()) return {};
  if (const std::string_view near = nearest(name, candidates); !near.empty())
    return "; did you mean '" + std::string(near) + "'?";
  constexpr size_t most = 12;
  std::string text = "; valid: ";
  for (size_t i = 0; i < candidates.size() && i < most; ++i)
    text += (i > 0 ? ", " : "") + candidates[i];
  if (candidates.size() > most) text += ", ...";
  return text;
}

}  // namespace stepsim
