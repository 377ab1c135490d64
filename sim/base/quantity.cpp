#include "sim/base/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "sim/base/table.h"

namespace stepsim {
namespace {

struct UnitRow {
  Dimension dimension;
  std::string_view name;
  double factor;
};
constexpr double kib = 1024.0, bit = 1.0 / 8;
constexpr std::array<UnitRow, 32> unit_rows{{
    {Dimension::time, "s", 1},
    {Dimension::time, "ms", 1e-3},
    {Dimension::time, "us", 1e-6},
    {Dimension::time, "ns", 1e-9},
    {Dimension::bytes, "B", 1},
    {Dimension::bytes, "kB", 1e3},
    {Dimension::bytes, "MB", 1e6},
    {Dimension::bytes, "GB", 1e9},
    {Dimension::bytes, "TB", 1e12},
    {Dimension::bytes, "KiB", kib},
    {Dimension::bytes, "MiB", kib* kib},
    {Dimension::bytes, "GiB", kib* kib* kib},
    {Dimension::bytes, "TiB", kib* kib* kib* kib},
    {Dimension::bytes_per_second, "MB/s", 1e6},
    {Dimension::bytes_per_second, "GB/s", 1e9},
    {Dimension::bytes_per_second, "TB/s", 1e12},
    {Dimension::bytes_per_second, "MiB/s", kib* kib},
    {Dimension::bytes_per_second, "GiB/s", kib* kib* kib},
    {Dimension::bytes_per_second, "TiB/s", kib* kib* kib* kib},
    {Dimension::bytes_per_second, "Mb/s", bit * 1e6},
    {Dimension::bytes_per_second, "Gb/s", bit * 1e9},
    {Dimension::bytes_per_second, "Tb/s", bit * 1e12},
    {Dimension::bytes_per_second, "Gbit/s", bit * 1e9},
    {Dimension::bytes_per_second, "Gbps", bit * 1e9},
    {Dimension::flops_per_second, "GFLOP/s", 1e9},
    {Dimension::flops_per_second, "TFLOP/s", 1e12},
    {Dimension::flops_per_second, "PFLOP/s", 1e15},
    {Dimension::frequency, "Hz", 1},
    {Dimension::frequency, "kHz", 1e3},
    {Dimension::frequency, "MHz", 1e6},
    {Dimension::frequency, "GHz", 1e9},
    {Dimension::frequency, "THz", 1e12},
}};

std::vector<std::string> units_of(Dimension dimension) {
  std::vector<std::string> names;
  for (const UnitRow& row : unit_rows)
    if (row.dimension == dimension) names.emplace_back(row.name);
  return names;
}

}  // namespace

std::string valid_units(Dimension dimension) {
  std::string text;
  for (const std::string& name : units_of(dimension)) text += (text.empty() ? "" : ", ") + name;
  return text;
}

QuantityText parse_quantity(std::string_view text, Dimension dimension) {
  const std::string units = " (units: " + valid_units(dimension) + ")";
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc::invalid_argument)
    return {0, "must be a number and a unit" + units + "; got '" + std::string(text) + "'"};
  if (code != std::errc{} || !std::isfinite(number))
    return {0, "is out of range; got '" + std::string(text) + "'"};
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty()) return {0, "needs a unit" + units + "; got '" + std::string(text) + "'"};
  for (const UnitRow& row : unit_rows)
    if (row.dimension == dimension && row.name == unit) return {number * row.factor, {}};
  const std::vector<std::string> names = units_of(dimension);
  std::string_view near = nearest(unit, names);
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const auto alike = [&](char a, char b) { return lower(a) == lower(b); };
  for (const std::string& name : names)  // wrong case is the likeliest slip
    if (std::equal(name.begin(), name.end(), unit.begin(), unit.end(), alike)) near = name;
  return {0, "has unknown unit '" + std::string(unit) + "'" +
                 (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?") + units};
}

}  // namespace stepsim
