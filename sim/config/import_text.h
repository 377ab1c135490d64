// What every imported text must be before it is parsed: small enough, UTF-8, free of control
// characters.
#pragma once

#include <string>
#include <string_view>

namespace stepsim {

/// "line:column" of a byte, both from 1; columns count bytes.
std::string place_of(std::string_view text, size_t offset);
/// Refuses text beyond `max_file_bytes`, invalid UTF-8 and control characters other than tab and
/// line breaks (YAML 1.1 section 5.1 allows no others; no shell script holds them).
void check_text(const std::string& text, const std::string& file);

}  // namespace stepsim
