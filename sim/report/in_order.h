// Lists that are each in order, as the tasks of one queue are: merged instead of sorted.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace stepsim {

/// All elements in order; the lists are used up. A list that is not in order is sorted first.
template <class T, class Before>
std::vector<T> merge_lists(std::span<std::vector<T>> lists, Before before) {
  for (std::vector<T>& list : lists)
    if (!std::is_sorted(list.begin(), list.end(), before))
      std::stable_sort(list.begin(), list.end(), before);
  // The longest last: it is copied once.
  std::sort(lists.begin(), lists.end(),
            [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<T> all;
  for (std::vector<T>& list : lists) {
    if (all.empty()) {
      all = std::move(list);
      continue;
    }
    std::vector<T> both;
    both.reserve(all.size() + list.size());
    std::merge(all.begin(), all.end(), list.begin(), list.end(), std::back_inserter(both), before);
    all = std::move(both);
    list = {};
  }
  return all;
}

}  // namespace stepsim
