#include "sim/study/errands.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/lower/inventory.h"
#include "sim/study/lower_bound.h"
#include "sim/study/workers.h"

namespace stepsim {
namespace {

using Fields = std::vector<std::string>;

template <typename Number>
std::string bytes_of_number(Number number) {
  const uint64_t bits = std::bit_cast<uint64_t>(number);
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>(bits >> (8 * i) & 0xff);
  return bytes;
}
template <typename Number>
Number number_of_bytes(std::string_view bytes) {
  assert(bytes.size() >= 8);
  uint64_t bits = 0;
  for (unsigned i = 0; i < 8; ++i)
    bits |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return std::bit_cast<Number>(bits);
}

/// Each with its length before it.
std::string joined_fields(const Fields& fields) {
  std::string bytes;
  for (const std::string& field : fields)
    bytes += bytes_of_number(static_cast<uint64_t>(field.size())) + field;
  return bytes;
}
Fields split_fields(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const auto size = number_of_bytes<uint64_t>(bytes);
    fields.emplace_back(bytes.substr(8, size));
    bytes.remove_prefix(8 + size);
  }
  return fields;
}

/// Everything that is written, in the values that gates left of it, and what they added.
std::map<std::string, std::string> settings_in_effect(const std::string& text, const Scenario& s) {
  std::map<std::string, std::string> settings = s.effective;
  std::set<std::string> known;  // gates name keys by the section that keeps them
  for (const auto& [key, value] : s.effective) known.insert(key.substr(key.rfind('.') + 1));
  const nlohmann::json written = nlohmann::json::parse(text);
  for (const auto& [section, keys] : written.items()) {
    if (!keys.is_object()) continue;
    for (const auto& [key, value] : keys.items())
      if (!known.contains(key)) settings[section + "." + key] = value.dump();
  }
  return settings;
}
/// FNV-1a, 64 bits (draft-eastlake-fnv).
uint64_t print_of(const std::map<std::string, std::string>& settings) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](const std::string& word) {
    for (const char c : word + '\n') {
      hash ^= static_cast<unsigned char>(c);
      hash *= 0x100000001b3;
    }
  };
  for (const auto& [key, value] : settings) {
    add(key);
    add(value);
  }
  return hash;
}

std::string sized_answer(const std::string& text, const std::string& file, const DataPaths& data) {
  Sized sized;
  try {
    const Scenario s = read_scenario_text(text, file, {}, "", data);
    for (const StageInventory& stage : inventory(s))
      sized.needed_bytes = std::max(sized.needed_bytes, stage.memory.peak() + stage.memory.reserve);
    sized.valid = true;
    sized.in_effect = print_of(settings_in_effect(text, s));
    sized.capacity_bytes = s.cluster.device.memory_capacity.value;
    sized.fits = sized.needed_bytes <= sized.capacity_bytes;
    if (sized.fits) sized.bound_seconds = lower_bound(s).value;
  } catch (const Error&) {
    sized = {};
  }
  return joined_fields({sized.valid ? "valid" : "", sized.fits ? "fits" : "",
                        bytes_of_number(sized.needed_bytes), bytes_of_number(sized.capacity_bytes),
                        bytes_of_number(sized.bound_seconds), bytes_of_number(sized.in_effect)});
}

}  // namespace

std::string size_errand(const std::string& text, const std::string& file) {
  return joined_fields({"size", text, file});
}
std::string step_errand(const std::string& text, const std::string& file) {
  return joined_fields({"step", text, file});
}
std::string point_errand(const Experiment& experiment, std::span<const std::string> words,
                         const std::string& cluster) {
  Fields fields{"point", experiment.file, cluster.empty() ? experiment.cluster : cluster};
  fields.insert(fields.end(), experiment.words.begin(), experiment.words.end());
  fields.insert(fields.end(), words.begin(), words.end());
  return joined_fields(fields);
}

std::string answer_of(const std::string& errand, const DataPaths& data) {
  const Fields fields = split_fields(errand);
  if (fields[0] == "size") return sized_answer(fields[1], fields[2], data);
  const Outcome outcome = fields[0] == "step"
                              ? simulated_text(fields[1], fields[2], data)
                              : simulated({.file = fields[1],
                                           .words = {fields.begin() + 3, fields.end()},
                                           .cluster = fields[2],
                                           .data = data},
                                          {}, "");
  return joined_fields({outcome.report, outcome.failure_pointer, outcome.failure});
}

Sized sized_by(const std::string& answer) {
  const Fields fields = split_fields(answer);
  return {.valid = !fields[0].empty(),
          .fits = !fields[1].empty(),
          .needed_bytes = number_of_bytes<double>(fields[2]),
          .capacity_bytes = number_of_bytes<double>(fields[3]),
          .bound_seconds = number_of_bytes<double>(fields[4]),
          .in_effect = number_of_bytes<uint64_t>(fields[5])};
}

Outcome outcome_by(const std::string& answer) {
  Fields fields = split_fields(answer);
  return {.report = std::move(fields[0]),
          .failure_pointer = std::move(fields[1]),
          .failure = std::move(fields[2])};
}

Crew crew_of_threads(size_t threads, const DataPaths& data) {
  return [threads, data](const Errands& errands) {
    std::mutex one;
    const auto piece = [&](size_t i) {
      const std::string answer = answer_of(errands.errand(i), data);
      const std::lock_guard lock(one);
      errands.answered(i, answer);
    };
    for_each_piece(errands.count, threads, piece, {}, errands.stop);
  };
}

}  // namespace stepsim
