// Independent pieces of work on all cores. Results go to their own places, so that the outcome does
// not depend on the number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace stepsim {

/// Cores of this machine.
int core_count();

/// Calls work(0) ... work(count - 1), each once, on `threads` threads, in ascending order as
/// threads become free, until `stop` says so. `work` must not throw.
void for_each_index(size_t count, int threads, const std::function<bool()>& stop,
                    const std::function<void(size_t)>& work);

}  // namespace stepsim
