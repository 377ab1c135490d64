#include "sim/config/import.h"

#include <array>

#include "sim/base/error.h"
#include "sim/config/import_megatron.h"
#include "sim/config/import_yaml.h"

namespace stepsim {
namespace {

/// A kind of input: its endings and its parser.
struct InputRow {
  std::array<std::string_view, 3> endings;
  Document (*parse)(const std::string& text, const std::string& file);
};
constexpr std::array<InputRow, 3> input_rows{{
    {{".json"}, parse_document},
    {{".yaml", ".yml"}, parse_yaml},
    {{".sh", ".bash", ".args"}, parse_megatron},
}};

}  // namespace

Document parse_any(const std::string& text, const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension().string();
  for (const InputRow& row : input_rows)
    for (const std::string_view known : row.endings)
      if (!known.empty() && known == ending) return row.parse(text, file);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] == '{' || text[first] == '[')
    return parse_document(text, file);
  return looks_like_megatron(text) ? parse_megatron(text, file) : parse_yaml(text, file);
}

Document load_any(const std::filesystem::path& path) {
  return parse_any(read_text(path), path.string());
}

}  // namespace stepsim
