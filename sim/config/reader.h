// A typed cursor over one JSON object. It knows its file and JSON pointer, so every failure is one
// Error that points; it remembers which keys were read, so that what nobody read can be refused or
// listed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/base/units.h"
#include "sim/config/document.h"

namespace stepsim {

/// Inclusive bounds of an integer. The default accepts any count from 1.
struct Range {
  int64_t low = 1, high = INT32_MAX;
};
inline constexpr Range any_count{0, INT32_MAX};

/// One section. `null` counts as absent (Bridge writes None for "automatic"). Keys are read at most
/// a few times each.
class Reader {
 public:
  /// The object at `pointer`; absent or null reads as an empty section. Anything but an object is
  /// an Error.
  Reader(const Document& document, std::string pointer);

  bool present() const { return value_ != nullptr; }  ///< the section itself is in the file
  bool has(const std::string& key) const;             ///< there and not null
  std::vector<std::string> keys() const;
  const std::string& pointer() const { return pointer_; }
  std::string pointer(const std::string& key) const { return pointer_ + "/" + escape_pointer(key); }
  std::string file(const std::string& key) const { return document_->file_of(pointer(key)); }
  const nlohmann::json* find(
      const std::string& key) const;  ///< marks the key used; nullptr when absent or null
  std::string text_of(const std::string& key) const;  ///< JSON text as written, "null" when absent

  int64_t required_int(const std::string& key, Range range = {}) const;
  std::optional<int64_t> optional_int(const std::string& key, Range range = {}) const;
  int integer(const std::string& key, int fallback, Range range = {}) const;
  bool boolean(const std::string& key, bool fallback) const;
  std::optional<bool> optional_bool(const std::string& key) const;
  std::string required_string(const std::string& key) const;
  std::string string(const std::string& key, const std::string& fallback) const;
  double number(const std::string& key, double fallback, double low, double high) const;
  double required_number(const std::string& key, double low, double high) const;
  /// One of `names`; anything else is refused with the nearest of them.
  std::string choice(const std::string& key, const std::string& fallback,
                     std::span<const std::string> names) const;
  double required_quantity(const std::string& key, Dimension dimension,
                           bool zero_allowed = false) const;
  double quantity(const std::string& key, Dimension dimension, double fallback,
                  bool zero_allowed = true) const;
  /// A list of strings; a single string reads as a list of one.
  std::vector<std::string> strings(const std::string& key) const;
  Reader child(const std::string& key) const;
  /// Reader of every object in an array.
  std::vector<Reader> children(const std::string& key) const;

  void use(const std::string& key) const { used_.insert(key); }
  /// Present keys that nobody asked for; `_name` keys (Bridge's own notes to itself) are skipped.
  std::vector<std::string> unused() const;
  /// Refuses the first unused key with the nearest of the keys asked for and of `also`.
  void refuse_unused(std::span<const std::string> also = {}) const;
  [[noreturn]] void fail(const std::string& key, const std::string& message) const;
  [[noreturn]] void fail_here(const std::string& message) const;

 private:
  const Document* document_;
  std::string pointer_;
  const nlohmann::json* value_ = nullptr;
  mutable std::set<std::string> used_;
};

/// JSON text of values for `effective` and messages.
std::string json_text(bool value);
std::string json_text(int64_t value);
std::string json_text(const std::string& value);
std::string json_text(std::optional<int64_t> value);

}  // namespace stepsim
