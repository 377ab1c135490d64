// Input number i of a seeded series: a seed text with a few things done to it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

/// What takes the place of a token: ends of number ranges, other types, words that mean something
/// to one of the parsers.
inline constexpr auto strange_tokens = std::to_array<std::string_view>({"0",
                                                                        "-1",
                                                                        "1",
                                                                        "3",
                                                                        "7",
                                                                        "255",
                                                                        "256",
                                                                        "1048576",
                                                                        "1048577",
                                                                        "2147483647",
                                                                        "2147483648",
                                                                        "-2147483648",
                                                                        "9223372036854775807",
                                                                        "9223372036854775808",
                                                                        "-9223372036854775808",
                                                                        "18446744073709551615",
                                                                        "18446744073709551616",
                                                                        "1e308",
                                                                        "1e309",
                                                                        "-1e309",
                                                                        "1e-320",
                                                                        "0.5",
                                                                        "-0",
                                                                        "0x7fffffffffffffff",
                                                                        "NaN",
                                                                        ".nan",
                                                                        ".inf",
                                                                        "null",
                                                                        "~",
                                                                        "true",
                                                                        "yes",
                                                                        "\"\"",
                                                                        "''",
                                                                        "[]",
                                                                        "{}",
                                                                        "[[[[",
                                                                        "{{{{",
                                                                        "\"x\"",
                                                                        "*a",
                                                                        "&a ",
                                                                        "<<",
                                                                        "!!int",
                                                                        "---",
                                                                        "$X",
                                                                        "${X:-1}",
                                                                        "$((1/0))",
                                                                        "$((2**62*4))",
                                                                        "\\",
                                                                        "\"",
                                                                        "'",
                                                                        "`",
                                                                        "(",
                                                                        ")",
                                                                        ";",
                                                                        "|",
                                                                        "#",
                                                                        "\n",
                                                                        "\t",
                                                                        ":",
                                                                        ",",
                                                                        "--num-layers",
                                                                        "--bf16",
                                                                        "\"80 GB\"",
                                                                        "\"1e300 TB/s\"",
                                                                        "\xff",
                                                                        "\xc3\xa9"});

/// A small deterministic source of choices.
class Choices {
 public:
  explicit Choices(uint64_t seed) : engine_(seed) {}
  /// From 0 to n - 1; the same on every platform, unlike std's distributions.
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(engine_() % n); }

 private:
  std::mt19937_64 engine_;
};

/// The token around `at`: letters, digits and what joins them, else one character.
inline std::pair<size_t, size_t> token_at(std::string_view text, size_t at) {
  const auto joins = [&](size_t i) {
    const char c = text[i];
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '-';
  };
  size_t start = at, end = std::min(at + 1, text.size());
  if (at >= text.size() || !joins(at)) return {start, end - start};
  while (start > 0 && joins(start - 1)) --start;
  while (end < text.size() && joins(end)) ++end;
  return {start, end - start};
}

inline void mutate(std::string& text, const std::vector<std::string>& seeds, Choices& choices) {
  const size_t at = choices.below(text.size() + 1);
  const size_t length = choices.below(std::min<size_t>(text.size() - at, 200) + 1);
  const auto [start, size] = token_at(text, at);
  switch (choices.below(13)) {
    case 0:  // a bit
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << choices.below(8)));
      return;
    case 1:
      text.erase(at, length);
      return;
    case 2:
      text.insert(at, text.substr(at, length));
      return;
    case 3: {  // two tokens change places
      const auto [other, other_size] = token_at(text, choices.below(text.size()));
      const std::string a = text.substr(start, size), b = text.substr(other, other_size);
      if (start + size <= other) text.replace(other, other_size, a).replace(start, size, b);
      return;
    }
    case 4:
    case 5:
    case 6:
      text.replace(start, size, strange_tokens[choices.below(strange_tokens.size())]);
      return;
    case 7:
      text.insert(at, strange_tokens[choices.below(strange_tokens.size())]);
      return;
    case 8: {  // nesting
      constexpr std::array<std::string_view, 7> opens{
          "[", "{\"a\":", "(", "{a: ", "- ", "${A:-", "$(("};
      const std::string_view open = opens[choices.below(opens.size())];
      std::string deep;
      for (size_t i = choices.below(300); i > 0; --i) deep += open;
      text.insert(at, deep);
      return;
    }
    case 9:
      text.resize(at);
      return;
    case 10: {  // a piece of another seed
      const std::string& other = seeds[choices.below(seeds.size())];
      text.insert(at, other.substr(choices.below(other.size() + 1), length));
      return;
    }
    case 11:  // a letter of a token
      if (at < text.size()) text[at] = static_cast<char>('!' + choices.below(94));
      return;
    default: {                                       // a line elsewhere
      const size_t line = text.rfind('\n', at) + 1;  // npos + 1 = 0
      const std::string copy = text.substr(line, text.find('\n', line) - line) + "\n";
      const size_t target = text.find('\n', choices.below(text.size() + 1));
      text.insert(target == std::string::npos ? 0 : target + 1, copy);
    }
  }
}

inline std::string mutated(const std::vector<std::string>& seeds, uint64_t seed, uint64_t i) {
  Choices choices(seed * 0x9e3779b97f4a7c15u + i);
  std::string text = seeds[choices.below(seeds.size())];
  for (size_t left = choices.below(6); left > 0; --left) mutate(text, seeds, choices);
  return text;
}

}  // namespace stepsim
