#include "sim/config/reader.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/table.h"

namespace stepsim {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), 60);
}

/// Beyond these a figure is a slip of the pen, and sums of them leave what arithmetic can hold.
struct Sane {
  double low, high;
  const char* words;
};
constexpr Sane sane_range(Dimension dimension) {
  switch (dimension) {
    case Dimension::time:
      return {0, 100, "0 to 100 s"};
    case Dimension::bytes:
      return {1, 1e18, "1 B to 1e6 TB"};
    case Dimension::bytes_per_second:
      return {1e3, 1e18, "0.001 MB/s to 1e6 TB/s"};
    case Dimension::flops_per_second:
      return {1e6, 1e24, "0.001 GFLOP/s to 1e9 PFLOP/s"};
    case Dimension::frequency:
      return {1, 1e15, "1 Hz to 1000 THz"};
  }
  return {};
}

const json* at_pointer(const Document& document, const std::string& pointer) {
  const json* at = document.root.get();
  for (size_t start = 1; start <= pointer.size();) {
    const size_t end = std::min(pointer.find('/', start), pointer.size());
    const std::string key = pointer.substr(start, end - start);
    if (at->is_array()) {
      at = &at->at(std::stoul(key));
    } else {
      const auto found = at->is_object() ? at->find(key) : at->end();
      if (found == at->end()) return nullptr;
      at = &*found;
    }
    start = end + 1;
  }
  return at->is_null() ? nullptr : at;
}

}  // namespace

Reader::Reader(const Document& document, std::string pointer)
    : document_(&document), pointer_(std::move(pointer)) {
  value_ = at_pointer(document, pointer_);
  if (value_ != nullptr && !value_->is_object()) {
    const json& found = *value_;
    value_ = nullptr;
    fail_here("must be an object; got " + shown(found));
  }
  if (pointer_.empty() && value_ == nullptr) fail_here("must be an object; got null");
}

const json* Reader::find(const std::string& key) const {
  used_.insert(key);
  if (value_ == nullptr) return nullptr;
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

bool Reader::has(const std::string& key) const { return find(key) != nullptr; }

std::vector<std::string> Reader::keys() const {
  std::vector<std::string> names;
  if (value_ != nullptr)
    for (const auto& item : value_->items()) names.push_back(item.key());
  return names;
}

std::string Reader::text_of(const std::string& key) const {
  const json* value = find(key);
  return value == nullptr ? "null" : value->dump(-1, ' ', true, json::error_handler_t::replace);
}

std::optional<int64_t> Reader::optional_int(const std::string& key, Range range) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string bounds = "must be an integer from " + std::to_string(range.low) + " to " +
                             std::to_string(range.high) + "; got " + shown(*value);
  if (!value->is_number_integer()) fail(key, bounds);
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    fail(key, bounds);
  const auto number = value->get<int64_t>();
  if (number < range.low || number > range.high) fail(key, bounds);
  return number;
}

int64_t Reader::required_int(const std::string& key, Range range) const {
  const std::optional<int64_t> value = optional_int(key, range);
  if (!value) fail(key, "is missing; expected an integer");
  return *value;
}

int Reader::integer(const std::string& key, int fallback, Range range) const {
  return static_cast<int>(optional_int(key, range).value_or(fallback));
}

std::optional<bool> Reader::optional_bool(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(key, "must be true or false; got " + shown(*value));
  return value->get<bool>();
}

bool Reader::boolean(const std::string& key, bool fallback) const {
  return optional_bool(key).value_or(fallback);
}

std::string Reader::string(const std::string& key, const std::string& fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) fail(key, "must be a string; got " + shown(*value));
  return value->get<std::string>();
}

std::string Reader::required_string(const std::string& key) const {
  if (!has(key)) fail(key, "is missing; expected a string");
  return string(key, "");
}

double Reader::number(const std::string& key, double fallback, double low, double high) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) fail(key, "must be a number; got " + shown(*value));
  const auto number = value->get<double>();
  if (!std::isfinite(number) || number < low || number > high)
    fail(key, "must be from " + json(low).dump() + " to " + json(high).dump() + "; got " +
                  shown(*value));
  return number;
}

double Reader::required_number(const std::string& key, double low, double high) const {
  if (!has(key)) fail(key, "is missing; expected a number");
  return number(key, low, low, high);
}

std::string Reader::choice(const std::string& key, const std::string& fallback,
                           std::span<const std::string> names) const {
  const std::string value = string(key, fallback);
  if (!has(key)) return value;
  for (const std::string& name : names)
    if (name == value) return value;
  fail(key, "unknown name '" + printable(value) + "'" + suggestion(value, names));
}

double Reader::quantity(const std::string& key, Dimension dimension, double fallback,
                        bool zero_allowed) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_number())
    fail(key,
         "needs a unit (units: " + valid_units(dimension) + "); got the number " + shown(*value));
  if (!value->is_string())
    fail(key, "must be a string such as \"2 us\" or \"450 GB/s\"; got " + shown(*value));
  const QuantityText parsed = parse_quantity(value->get<std::string>(), dimension);
  if (!parsed.problem.empty()) fail(key, parsed.problem);
  if (parsed.value < 0 || (parsed.value == 0 && !zero_allowed))
    fail(key, std::string("must be ") + (zero_allowed ? "zero or more" : "greater than zero") +
                  "; got " + shown(*value));
  const Sane range = sane_range(dimension);
  if (parsed.value > range.high || (parsed.value > 0 && parsed.value < range.low))
    fail(key, "must be from " + std::string(range.words) + "; got " + shown(*value));
  return parsed.value;
}

double Reader::required_quantity(const std::string& key, Dimension dimension,
                                 bool zero_allowed) const {
  if (!has(key))
    fail(key,
         "is missing; expected a quantity with a unit (units: " + valid_units(dimension) + ")");
  return quantity(key, dimension, 0, zero_allowed);
}

std::vector<std::string> Reader::strings(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) fail(key, "must be a list of strings; got " + shown(*value));
  std::vector<std::string> list;
  for (const json& item : *value) {
    if (!item.is_string()) fail(key, "must be a list of strings; it holds " + shown(item));
    list.push_back(item.get<std::string>());
  }
  return list;
}

Reader Reader::child(const std::string& key) const {
  used_.insert(key);
  return Reader(*document_, pointer(key));
}

std::vector<Reader> Reader::children(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) fail(key, "must be a list of objects; got " + shown(*value));
  std::vector<Reader> list;
  for (size_t i = 0; i < value->size(); ++i)
    list.emplace_back(*document_, pointer(key) + "/" + std::to_string(i));
  return list;
}

std::vector<std::string> Reader::unused() const {
  std::vector<std::string> names;
  for (std::string& key : keys())
    if (!used_.contains(key) && !key.starts_with("_")) names.push_back(std::move(key));
  return names;
}

void Reader::refuse_unused(std::span<const std::string> also) const {
  const std::vector<std::string> extra = unused();
  if (extra.empty()) return;
  std::vector<std::string> valid(used_.begin(), used_.end());
  valid.insert(valid.end(), also.begin(), also.end());
  fail(extra.front(), "unknown key" + suggestion(extra.front(), valid));
}

void Reader::fail(const std::string& key, const std::string& message) const {
  throw Error(file(key), pointer(key), message);
}

void Reader::fail_here(const std::string& message) const {
  throw Error(document_->file_of(pointer_), pointer_, message);
}

std::string json_text(bool value) { return value ? "true" : "false"; }
std::string json_text(int64_t value) { return std::to_string(value); }
std::string json_text(const std::string& value) {
  return json(value).dump(-1, ' ', true, json::error_handler_t::replace);
}
std::string json_text(std::optional<int64_t> value) { return value ? json_text(*value) : "null"; }

}  // namespace stepsim
