// Work that is spread over all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace stepsim {

/// Calls `work(i)` for every i below `count`, in any order and at once; none may throw.
void on_all_cores(size_t count, const std::function<void(size_t)>& work);

}  // namespace stepsim
