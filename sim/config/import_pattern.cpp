#include "sim/config/import_pattern.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/config/model_read.h"

namespace stepsim {
namespace {

/// sum: product ('+' product)*; product: atom ('*' number)*; atom: '[' numbers ']' | '(' sum ')'.
class Pattern {
 public:
  explicit Pattern(std::string_view text) : text_(text) {}

  std::optional<std::vector<int64_t>> value() {
    auto list = sum();
    return list && rest().empty() ? std::move(list) : std::nullopt;
  }

 private:
  using List = std::optional<std::vector<int64_t>>;

  std::string_view rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_);
  }
  bool take(char sign) {
    if (!rest().starts_with(sign)) return false;
    ++at_;
    return true;
  }
  std::optional<int64_t> number() {
    const std::string_view from = rest();
    int64_t value = 0;
    const auto [end, code] = std::from_chars(from.data(), from.data() + from.size(), value);
    if (code != std::errc{}) return std::nullopt;
    at_ += static_cast<size_t>(end - from.data());
    return value;
  }
  List sum() {
    List list = product();
    while (list && take('+')) {
      const List more = product();
      if (!more || list->size() + more->size() > most) return std::nullopt;
      list->insert(list->end(), more->begin(), more->end());
    }
    return list;
  }
  List product() {
    List list = atom();
    while (list && take('*')) {
      const auto times = number();
      if (!times || *times < 0 || *times > static_cast<int64_t>(most) ||
          list->size() * static_cast<size_t>(*times) > most)
        return std::nullopt;
      const std::vector<int64_t> once = std::move(*list);
      list.emplace();
      for (int64_t i = 0; i < *times; ++i) list->insert(list->end(), once.begin(), once.end());
    }
    return list;
  }
  List atom() {
    if (take('(')) {
      constexpr int deepest = 32;
      if (++depth_ > deepest) return std::nullopt;
      List list = sum();
      --depth_;
      return take(')') ? list : std::nullopt;
    }
    if (!take('[')) return std::nullopt;
    std::vector<int64_t> list;
    while (!take(']')) {
      const auto entry = number();
      if (!entry || list.size() >= most) return std::nullopt;
      list.push_back(*entry);
      if (!take(',') && !rest().starts_with(']')) return std::nullopt;
    }
    return list;
  }

  static constexpr size_t most = static_cast<size_t>(layers_range.high);
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<nlohmann::json> layer_pattern(std::string_view text) {
  int64_t every = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), every);
  if (code == std::errc{} && end == text.data() + text.size()) return nlohmann::json(every);
  if (const auto list = Pattern(text).value()) return nlohmann::json(*list);
  return std::nullopt;
}

}  // namespace stepsim
