// dataset.packed_sequence_specs: several sequences in one sample (Megatron-Bridge data/datasets/
// packed_sequence.py, training/config.py). Bridge's keys say how packs are made; the lengths in
// them, which time depends on, are keys of our own.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

/// Lengths of one pack, whichever way they are given.
struct Pack {
  double tokens = 0, squares = 0;
};

Pack read_lengths(const Reader& specs, int64_t most) {
  const std::string expected = "must list lengths from 1 that add up to at most " + text(most);
  const nlohmann::json* lengths = specs.find("sequence_lengths");
  if (!lengths->is_array() || lengths->empty()) specs.fail("sequence_lengths", expected);
  Pack pack;
  for (const nlohmann::json& length : *lengths) {
    if (!length.is_number_integer() || length < 1 || length > most)
      specs.fail("sequence_lengths", expected);
    const auto n = length.get<double>();
    pack.tokens += n;
    pack.squares += n * n;
  }
  if (pack.tokens > static_cast<double>(most)) specs.fail("sequence_lengths", expected);
  return pack;
}

}  // namespace

void resolve_packing(const ScenarioSections& sections, Scenario& scenario) {
  const Reader specs = sections.dataset.child("packed_sequence_specs");
  Batch& batch = scenario.batch;
  if (!specs.present() || batch.sequence == 0) return;
  constexpr Range sizes{-1, int64_t{1} << 32};
  const int64_t size = specs.optional_int("packed_sequence_size", sizes).value_or(batch.sequence);
  if (size > 0 && batch.micro > 1)
    refuse(sections, scenario, sections.train, "micro_batch_size", "packing-needs-micro-batch-one",
           "must be 1 with packed sequences; got " + text(batch.micro));
  if (size > batch.sequence)
    refuse(sections, scenario, specs, "packed_sequence_size", "pack-longer-than-sequence",
           "must be at most seq_length " + text(batch.sequence) + "; got " + text(size));
  Pack pack;
  const auto full = static_cast<double>(batch.sequence);
  if (specs.has("sequence_lengths")) {
    for (const char* key : {"token_sum", "square_sum"})
      if (specs.has(key)) specs.fail(key, "follows from sequence_lengths; give one of them");
    pack = read_lengths(specs, batch.sequence);
  } else if (specs.has("square_sum")) {
    pack.tokens = specs.number("token_sum", full, 1, full);
    // From tokens alone to one sequence.
    pack.squares = specs.required_number("square_sum", pack.tokens, pack.tokens * pack.tokens);
  } else if (specs.has("token_sum")) {
    specs.fail("square_sum", "is missing; expected the sum of squared lengths of one pack");
  } else {
    add_finding(scenario, sections.dataset, "packed_sequence_specs", "packed-lengths-unknown",
                Finding::Kind::advice, "", text(batch.sequence),
                "the lengths in a pack are not given: attention is that of one sequence of " +
                    text(batch.sequence) +
                    " tokens; say packed_sequence_specs.sequence_lengths, or token_sum and "
                    "square_sum");
    return;
  }
  batch.token_sum = static_cast<double>(batch.global) * pack.tokens;
  batch.square_sum = static_cast<double>(batch.global) * pack.squares;
}

}  // namespace stepsim
