#include "sim/config/import_scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace stepsim {
namespace {

using nlohmann::json;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

/// One of the three spellings YAML 1.1 knows: name, Name, NAME.
bool is_word(std::string_view text, std::string_view name) {
  std::string upper(name), title(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  title.front() = upper.front();
  return text == name || text == title || text == upper;
}

/// Shape of a decimal: digits with underscores, at most one dot, an exponent. `digits` counts those
/// of the mantissa.
struct DecimalShape {
  bool valid = false, integer = false;
};
DecimalShape decimal_shape(std::string_view text) {
  size_t at = !text.empty() && (text.front() == '-' || text.front() == '+') ? 1 : 0;
  const auto digits = [&] {
    size_t count = 0;
    for (; at < text.size() && ((text[at] >= '0' && text[at] <= '9') || text[at] == '_'); ++at)
      if (text[at] != '_') ++count;
    return count;
  };
  const bool starts_with_digit = at < text.size() && text[at] != '_';
  const size_t whole = digits();
  if (at == text.size()) return {starts_with_digit && whole > 0, true};
  size_t fraction = 0;
  if (text[at] == '.') {
    ++at;
    fraction = digits();
  }
  if (!starts_with_digit || whole + fraction == 0) return {};
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (digits() == 0) return {};
  }
  return {at == text.size(), false};
}

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  return digits;
}

template <class Number>
std::optional<Number> parsed(std::string_view digits, int base) {
  Number value{};
  const auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (code != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<json> real(const std::string& digits) {
  double value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  // Beyond the smallest double is zero, beyond the largest no number.
  if (code == std::errc::result_out_of_range) {
    const size_t exponent = digits.find_first_of("eE");
    const bool tiny = exponent != std::string::npos && digits[exponent + 1] == '-';
    return tiny ? std::optional<json>(0.0) : std::nullopt;
  }
  if (code != std::errc{} || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Integers beyond 64 bits become doubles, as in JSON.
std::optional<json> whole(const std::string& digits) {
  if (const auto value = parsed<int64_t>(digits, 10)) return *value;
  if (const auto value = parsed<uint64_t>(digits, 10)) return *value;
  return real(digits);
}

/// 0x1f, 0b101, 017. The sign stays in front.
std::optional<json> in_other_base(const std::string& text) {
  std::string digits = without_underscores(text);
  const bool negative = digits.starts_with('-');
  if (negative) digits.erase(0, 1);
  int base = 8;
  size_t prefix = 1;
  if (digits.starts_with("0x")) base = 16, prefix = 2;
  if (digits.starts_with("0b")) base = 2, prefix = 2;
  if (digits.size() <= prefix || digits.front() != '0') return std::nullopt;
  const std::string_view rest = std::string_view(digits).substr(prefix);
  if (rest.front() == '-' || rest.front() == '+') return std::nullopt;
  if (const auto value = parsed<int64_t>(rest, base)) return negative ? -*value : *value;
  return std::nullopt;
}

}  // namespace

std::optional<json> decimal_number(const std::string& text) {
  const DecimalShape shape = decimal_shape(text);
  if (!shape.valid) return std::nullopt;
  return shape.integer ? whole(without_underscores(text)) : real(without_underscores(text));
}

std::optional<json> plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || is_word(text, "null")) return json(nullptr);
  for (const char* word : {"true", "yes", "on"})
    if (is_word(text, word)) return json(true);
  for (const char* word : {"false", "no", "off"})
    if (is_word(text, word)) return json(false);
  const std::string_view bare =
      text.front() == '-' || text.front() == '+' ? std::string_view(text).substr(1) : text;
  if (is_one_of(bare, {".inf", ".Inf", ".INF"}) || is_one_of(text, {".nan", ".NaN", ".NAN"}))
    return std::nullopt;
  if (const auto value = in_other_base(text)) return value;
  const DecimalShape shape = decimal_shape(text);
  // A zero in front of more digits that are not octal is text for PyYAML: "08".
  const bool padded = shape.integer && bare.size() > 1 && bare.front() == '0';
  if (!shape.valid || padded) return json(text);
  return decimal_number(text);
}

}  // namespace stepsim
