#include "sim/config/import_arithmetic.h"

#include <charconv>

namespace stepsim {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Recursive descent over one expression. `nullopt` anywhere ends it.
class Expression {
 public:
  Expression(std::string_view text,
             const std::function<std::optional<int64_t>(std::string_view)>& variable)
      : text_(text), variable_(variable) {}

  std::optional<int64_t> value() {
    const std::optional<int64_t> sum = this->sum();
    skip();
    return at_ == text_.size() ? sum : std::nullopt;
  }

 private:
  using Value = std::optional<int64_t>;

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }
  bool take(std::string_view sign) {
    skip();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  Value sum() {
    Value left = product();
    while (left) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      const Value right = product();
      int64_t result = 0;
      if (!right || (plus ? __builtin_add_overflow(*left, *right, &result)
                          : __builtin_sub_overflow(*left, *right, &result)))
        return std::nullopt;
      left = result;
    }
    return left;
  }
  Value product() {
    Value left = power();
    while (left) {
      skip();
      const char sign = at_ < text_.size() ? text_[at_] : ' ';
      if (sign != '*' && sign != '/' && sign != '%') break;
      ++at_;
      const Value right = power();
      if (!right) return std::nullopt;
      int64_t result = 0;
      if (sign == '*') {
        if (__builtin_mul_overflow(*left, *right, &result)) return std::nullopt;
      } else {
        if (*right == 0 || (*left == INT64_MIN && *right == -1)) return std::nullopt;
        result = sign == '/' ? *left / *right : *left % *right;
      }
      left = result;
    }
    return left;
  }
  Value power() {
    const Value base = atom();
    if (!base || !take("**")) return base;
    if (++depth_ > deepest) return std::nullopt;
    const Value exponent = power();
    --depth_;
    if (!exponent || *exponent < 0 || *exponent > 63) return std::nullopt;
    int64_t result = 1;
    for (int64_t i = 0; i < *exponent; ++i)
      if (__builtin_mul_overflow(result, *base, &result)) return std::nullopt;
    return result;
  }
  Value atom() {
    if (++depth_ > deepest) return std::nullopt;
    const Value value = signed_atom();
    --depth_;
    return value;
  }
  Value signed_atom() {
    if (take("+")) return atom();
    if (take("-")) {
      const Value value = atom();
      return value && *value != INT64_MIN ? Value(-*value) : std::nullopt;
    }
    if (take("(")) {
      const Value value = sum();
      return take(")") ? value : std::nullopt;
    }
    take("$");
    const bool braces = take("{");
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    if (braces && !take("}")) return std::nullopt;
    if (word.empty()) return std::nullopt;
    if (word.front() < '0' || word.front() > '9') return variable_(word);
    return braces ? std::nullopt : number(word);
  }
  static Value number(std::string_view word) {
    const bool hexadecimal = word.starts_with("0x") || word.starts_with("0X");
    const int base = hexadecimal ? 16 : word.size() > 1 && word.front() == '0' ? 8 : 10;
    if (hexadecimal) word.remove_prefix(2);
    int64_t value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    return code == std::errc{} && end == word.data() + word.size() ? Value(value) : std::nullopt;
  }

  static constexpr int deepest = 64;
  std::string_view text_;
  const std::function<Value(std::string_view)>& variable_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<int64_t> shell_arithmetic(
    std::string_view expression,
    const std::function<std::optional<int64_t>(std::string_view)>& variable) {
  return Expression(expression, variable).value();
}

}  // namespace stepsim
