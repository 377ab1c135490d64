#include "sim/config/import_text.h"

#include <algorithm>

#include "sim/base/error.h"
#include "sim/config/document.h"

namespace stepsim {
namespace {

/// Bytes of the character at `at`, 0 when it is no UTF-8: overlong forms, surrogates and numbers
/// beyond U+10FFFF included (RFC 3629).
size_t character_bytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool beyond = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : bytes;
}

}  // namespace

std::string place_of(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
  return std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ":" +
         std::to_string(1 + before.size() - line_start);
}

void check_text(const std::string& text, const std::string& file) {
  if (text.size() > max_file_bytes)
    throw Error(file, "",
                "is larger than the limit of " + std::to_string(max_file_bytes >> 20) + " MiB");
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
      throw Error(file, place_of(text, at),
                  "control character " + printable(text.substr(at, 1)) + " in a text file");
    const size_t bytes = character_bytes(text, at);
    if (bytes == 0)
      throw Error(file, place_of(text, at),
                  "not UTF-8: byte " + printable(text.substr(at, 1)) + " begins no character");
    at += bytes;
  }
}

}  // namespace stepsim
