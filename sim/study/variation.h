// What a sweep varies: axes of values, zipped or multiplied into points.
//
//   key=1,2,4          a list; commas inside brackets and quotes belong to the value
//   key=1..8           integers, both ends included
//   key=0..32+8        steps of 8;   key=1..64*2   doubling
// A value is written as an override is: JSON, True, False, None, or a bare word.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace stepsim {

/// A dotted key and its value as written.
struct Assignment {
  std::string key, value;
  bool operator==(const Assignment&) const = default;
};
/// One scenario of a sweep: what is laid on the base, in order. `cluster` alone is NAME[:NODES].
using Point = std::vector<Assignment>;

/// Points that are tried in turn; all assign the same keys when they come from the command line.
struct Axis {
  std::vector<std::string> keys;
  std::vector<Point> points;
};

inline constexpr size_t most_points = 200'000;

/// "key=values". `flag` is what errors point at.
Axis parse_axis(const std::string& text, const std::string& flag);
/// Axes of one length that advance together.
Axis zipped(std::span<const Axis> axes);
/// A JSON or YAML list of objects (or such a list under `points`), dotted keys or nested ones.
Axis read_axis(const std::filesystem::path& file);
/// Every combination, the last axis fastest; refused beyond `most_points`.
std::vector<Point> product(std::span<const Axis> axes);
/// Keys in order of appearance.
std::vector<std::string> keys_of(std::span<const Axis> axes);
/// The words of `point` as overrides and, where it names one, its cluster.
std::vector<std::string> override_words(const Point& point, std::string& cluster);

}  // namespace stepsim
