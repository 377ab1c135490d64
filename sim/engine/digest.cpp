#include "sim/engine/digest.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace stepsim {
namespace {

/// Two lanes that multiply and rotate, with different odd constants (fractional parts of square
/// roots, as in SHA-512), so that a word moves all bits behind it.
class Mixer {
 public:
  void word(uint64_t w) {
    a_ = std::rotl((a_ ^ w) * 0x6a09e667f3bcc909u, 31);
    b_ = std::rotl(b_ + w, 29) * 0xbb67ae8584caa73bu;
  }
  /// Plain values without padding, eight bytes at a time.
  template <class T>
  void all(std::span<const T> values) {
    static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>);
    word(values.size());
    const char* bytes = reinterpret_cast<const char*>(values.data());
    size_t left = values.size() * sizeof(T);
    for (; left > 0;) {
      uint64_t w = 0;
      const size_t take = left < sizeof w ? left : sizeof w;
      std::memcpy(&w, bytes, take);
      word(w);
      bytes += take;
      left -= take;
    }
  }
  Digest value() const { return {a_ ^ std::rotl(b_, 17), b_ + std::rotl(a_, 43)}; }

 private:
  uint64_t a_ = 0x3c6ef372fe94f82bu, b_ = 0xa54ff53a5f1d36f1u;
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
