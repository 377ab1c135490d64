#include "sim/engine/digest.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace stepsim {
namespace {

/// Four lanes that take every fourth word, so that a processor works on all at once. Each word
/// moves all bits of its lane behind it; the constants are the fractional parts of square roots of
/// primes, as in SHA-512.
class Mixer {
 public:
  void word(uint64_t w) {
    lanes_[next_] = mixed(lanes_[next_], w, next_);
    next_ = (next_ + 1) % lane_count;
  }
  /// Plain values without padding, eight bytes at a time.
  template <class T>
  void all(std::span<const T> values) {
    static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>);
    word(values.size());
    const char* bytes = reinterpret_cast<const char*>(values.data());
    size_t left = values.size() * sizeof(T);
    constexpr size_t block = lane_count * sizeof(uint64_t);
    for (; left >= block; left -= block, bytes += block) {
      uint64_t words[lane_count];
      std::memcpy(words, bytes, block);
      for (size_t i = 0; i < lane_count; ++i) lanes_[i] = mixed(lanes_[i], words[i], i);
    }
    while (left > 0) {
      uint64_t w = 0;
      const size_t take = left < sizeof w ? left : sizeof w;
      std::memcpy(&w, bytes, take);
      word(w);
      bytes += take;
      left -= take;
    }
  }
  Digest value() const {
    uint64_t a = next_, b = ~a;
    for (size_t i = 0; i < lane_count; ++i) {
      a = mixed(a, lanes_[i], i);
      b = mixed(b, lanes_[i], lane_count - 1 - i);
    }
    return {a, b};
  }

 private:
  static constexpr size_t lane_count = 4;
  static constexpr uint64_t constants[lane_count]{0x6a09e667f3bcc909u, 0xbb67ae8584caa73bu,
                                                  0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u};
  static uint64_t mixed(uint64_t lane, uint64_t w, size_t i) {
    return std::rotl((lane ^ w) * constants[i], 31);
  }

  uint64_t lanes_[lane_count]{1, 2, 3, 4};
  size_t next_ = 0;
};

}  // namespace

Digest digest(const TaskGraph& g) {
  Mixer mix;
  mix.all(g.durations_seconds);
  mix.all(g.streams);
  mix.all(g.labels);
  mix.all(g.finish_offsets);
  mix.all(g.finish_targets);
  mix.all(g.start_offsets);
  mix.all(g.start_targets);
  mix.all(g.start_lags_seconds);
  for (const FlowRow& f : g.flows) {
    mix.word(uint64_t{index(f.task)} << 32 | index(f.set));
    mix.word(std::bit_cast<uint64_t>(f.latency_seconds));
  }
  mix.all(g.claim_sets);
  for (const Claim& c : g.claims) {
    mix.word(uint64_t{index(c.resource)} << 32 | std::bit_cast<uint32_t>(c.rate));
    mix.word(c.multiplicity);
  }
  for (const ProcessorClaim& p : g.processor_claims) {
    mix.word(uint64_t{index(p.pool)} << 32 | p.count);
    mix.word(uint64_t{p.blocks} << 32 | p.saturating);
    mix.word(uint64_t{static_cast<uint8_t>(p.role)} << 2 | uint64_t{p.persistent} << 1 |
             uint64_t{p.yields});
  }
  mix.all(g.capacities);
  mix.all(g.pool_sizes);
  return mix.value();
}

}  // namespace stepsim
