// Independent pieces of work on all cores. Law: results do not depend on how many there are, since
// each piece writes only its own place.
#pragma once

#include <cstddef>
#include <functional>

namespace stepsim {

/// Of this machine.
size_t core_count();

/// Pieces done and pieces there are; called from one thread at a time.
using Progress = std::function<void(size_t done, size_t all)>;

/// Calls `work` with each of 0 .. count - 1 in ascending order as threads become free, on at most
/// `most` of them, until `stop` says so. The first exception (by piece) is thrown on when all have
/// ended.
void for_each_piece(size_t count, size_t most, const std::function<void(size_t)>& work,
                    const Progress& progress = {}, const std::function<bool()>& stop = {});

/// Threads that simulate steps of so many tasks side by side without exhausting memory.
size_t worker_count(double tasks_of_each);

}  // namespace stepsim
