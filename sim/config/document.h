// JSON text becomes a tree that knows which file every part came from.
// Law: whatever is wrong with the text is one stepsim::Error, and nothing is allocated that its
// size does not justify.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace stepsim {

inline constexpr int max_nesting = 64;
inline constexpr size_t max_file_bytes = size_t{64} << 20;
inline constexpr std::string_view command_line_name = "<command line>";

/// A parsed document. Values merged in from other files keep their own file name for messages.
struct Document {
  std::string file;
  std::shared_ptr<nlohmann::json> root;
  std::map<std::string, std::string>
      origins;  ///< JSON pointer -> file, for merged parts; covers what is beneath it

  const std::string& file_of(const std::string& pointer) const;
};

/// Whole file, refused with an Error when missing, a directory, unreadable or larger than
/// `max_file_bytes`.
std::string read_text(const std::filesystem::path& path);
/// Refuses syntax errors (by line:column), duplicate keys, NaN, numbers beyond double, nesting
/// beyond `max_nesting`, invalid UTF-8.
Document parse_document(const std::string& text, const std::string& file);
Document load_document(const std::filesystem::path& path);

/// Lays `over` on `below`: objects merge key by key, everything else is replaced.
void merge(Document& below, const Document& over);
/// Sets the value at `pointer` ("/model/num_layers"), creating objects on the way, as written on
/// the command line.
void set_value(Document& document, const std::string& pointer, const nlohmann::json& value);

/// RFC 6901 escaping of one key.
std::string escape_pointer(std::string_view key);
/// One printable line: control characters and broken UTF-8 escaped, at most `most` characters.
std::string printable(std::string_view text, size_t most = 120);

}  // namespace stepsim
