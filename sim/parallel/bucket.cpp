#include "sim/parallel/bucket.h"

#include <algorithm>
#include <numeric>

namespace stepsim {

namespace {
int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
}  // namespace

std::vector<Bucket> form_buckets(std::span<const Parameter> parameters,
                                 std::optional<int64_t> bucket_size, int64_t dp) {
  constexpr int64_t parameter_alignment = 64;
  const int64_t bucket_alignment = std::lcm(dp, int64_t{128});
  std::vector<Bucket> buckets;
  bool open = false;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (!open) {
      buckets.push_back({.elements = 0, .first_owner = p->owner, .last_owner = p->owner});
      open = true;
    }
    Bucket& bucket = buckets.back();
    bucket.elements = round_up(bucket.elements, parameter_alignment) + p->elements;
    bucket.first_owner = std::min(bucket.first_owner, p->owner);
    bucket.last_owner = std::max(bucket.last_owner, p->owner);
    if (bucket_size && bucket.elements >= *bucket_size) {
      bucket.elements = round_up(bucket.elements, bucket_alignment);
      open = false;
    }
  }
  if (open) buckets.back().elements = round_up(buckets.back().elements, bucket_alignment);
  return buckets;
}

}  // namespace stepsim
