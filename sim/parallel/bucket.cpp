#include "sim/parallel/bucket.h"

#include <algorithm>
#include <numeric>

namespace stepsim {

namespace {
int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Buckets of one buffer: the parameters whose elements have `bytes` bytes.
std::vector<Bucket> buffer_buckets(std::span<const Parameter> parameters,
                                   std::optional<int64_t> bucket_size, int64_t dp, int bytes) {
  constexpr int64_t parameter_alignment = 64;
  const int64_t bucket_alignment = std::lcm(dp, int64_t{128});
  std::vector<Bucket> buckets;
  bool open = false;
  const auto close = [&] {
    if (open) buckets.back().elements = round_up(buckets.back().elements, bucket_alignment);
    open = false;
  };
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (p->bytes != bytes || p->frozen) continue;
    if (p->alone) close();
    if (!open)
      buckets.push_back(
          {.elements = 0, .first_owner = p->owner, .last_owner = p->owner, .parameter_bytes = 0});
    open = true;
    Bucket& bucket = buckets.back();
    bucket.elements = round_up(bucket.elements, parameter_alignment) + p->elements;
    bucket.first_owner = std::min(bucket.first_owner, p->owner);
    bucket.last_owner = std::max(bucket.last_owner, p->owner);
    if (p->alone || (bucket_size && bucket.elements >= *bucket_size)) close();
  }
  close();
  for (Bucket& b : buckets) b.parameter_bytes = static_cast<double>(b.elements) * bytes;
  return buckets;
}
}  // namespace

std::vector<Bucket> form_buckets(std::span<const Parameter> parameters,
                                 std::optional<int64_t> bucket_size, int64_t dp) {
  std::vector<Bucket> buckets = buffer_buckets(parameters, bucket_size, dp, 1);
  const std::vector<Bucket> others = buffer_buckets(parameters, bucket_size, dp, 2);
  if (buckets.empty()) return others;
  Bucket& last = buckets.back();
  for (const Bucket& b : others) {
    last.elements += b.elements;
    last.parameter_bytes += b.parameter_bytes;
    last.first_owner = std::min(last.first_owner, b.first_owner);
    last.last_owner = std::max(last.last_owner, b.last_owner);
  }
  return buckets;
}

std::vector<Bucket> form_units(std::span<const Parameter> parameters, int64_t dp) {
  std::vector<Bucket> units;
  for (size_t end = parameters.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && parameters[begin - 1].owner == parameters[end - 1].owner) --begin;
    std::vector<Parameter> own(parameters.begin() + static_cast<std::ptrdiff_t>(begin),
                               parameters.begin() + static_cast<std::ptrdiff_t>(end));
    for (Parameter& p : own) p.alone = false;
    const std::vector<Bucket> trained = form_buckets(own, std::nullopt, dp);
    Bucket unit{.first_owner = own.front().owner, .last_owner = own.front().owner};
    if (!trained.empty()) unit = trained.front();
    for (const Parameter& p : own) {
      if (!p.frozen) continue;
      unit.frozen += p.elements;
      unit.parameter_bytes += static_cast<double>(p.elements) * p.bytes;
    }
    units.push_back(unit);
    end = begin;
  }
  return units;
}

}  // namespace stepsim
