// Parts of C++20's library that Debian's Emscripten (its libc++ is version 13) lacks; compiled in
// front of every file of the lab. Newer versions have them, and see nothing of this.
#pragma once

#include <version>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 14000
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>

namespace std {

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

template <class Array>
unique_ptr<Array> make_unique_for_overwrite(size_t count) {
  return unique_ptr<Array>(new remove_extent_t<Array>[count]);
}

/// A decimal number; no sign but minus, no blanks in front. musl's strtod rounds correctly, as
/// from_chars must.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const char* end = first;
  const auto digits = [&] {
    const char* begin = end;
    while (end != last && *end >= '0' && *end <= '9') ++end;
    return end - begin;
  };
  if (end != last && *end == '-') ++end;
  const auto whole = digits();
  const char* point = end;
  ptrdiff_t part = 0;
  if (end != last && *end == '.') {
    ++end;
    part = digits();
  }
  if (whole + part == 0) return {first, errc::invalid_argument};
  if (part == 0 && whole == 0) end = point;
  if (const char* mantissa = end; end != last && (*end == 'e' || *end == 'E')) {
    ++end;
    if (end != last && (*end == '+' || *end == '-')) ++end;
    if (digits() == 0) end = mantissa;
  }
  const double read = strtod(string(first, end).c_str(), nullptr);
  const double size = read < 0 ? -read : read;
  if (size > numeric_limits<double>::max()) return {end, errc::result_out_of_range};
  value = read;
  return {end, errc{}};
}

}  // namespace std
#endif
