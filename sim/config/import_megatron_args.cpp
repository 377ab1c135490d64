#include "sim/config/import_megatron_args.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/document.h"
#include "sim/config/import_scalar.h"

namespace stepsim {
namespace {

using nlohmann::json;

std::vector<std::string> split(std::string_view list, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find(separator, start), list.size());
    parts.emplace_back(list.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

const ArgumentRow* row_of(std::string_view flag) {
  const std::span<const ArgumentRow> rows = argument_rows();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const ArgumentRow& row) { return row.flag == flag; });
  return found == rows.end() ? nullptr : &*found;
}

/// One flag of the command line with the words up to the next.
class Argument {
 public:
  Argument(const std::string& file, std::string flag, std::vector<ShellWord> words)
      : file_(file), flag_(std::move(flag)), words_(std::move(words)) {}

  /// Megatron-LM's parser takes no abbreviations, so a flag is a row's, another program's, or
  /// misspelt: two slips at most, or underscores for dashes.
  void check_spelling() const {
    // "--num-layers 24" in quotes reaches the program as one word, which its parser does not know.
    if (const size_t blank = flag_.find_first_of(" \t\n");
        blank != std::string::npos && row_of(flag_.substr(0, blank)) != nullptr)
      fail("flag and value are one word; remove the quotes around them");
    std::string dashed = flag_;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    constexpr size_t slip = 2, dashes = 2;
    for (const ArgumentRow& row : argument_rows()) {
      const bool near =
          flag_.size() > dashes + 2 * slip && flag_.size() < 200 &&
          std::max(row.flag.size(), flag_.size()) - std::min(row.flag.size(), flag_.size()) <=
              slip &&
          edit_distance(flag_, row.flag) <= static_cast<int>(slip);
      if (near || dashed == row.flag)
        fail("unknown flag; did you mean '" + std::string(row.flag) + "'?");
    }
  }

  json value(const ArgumentRow& row) const {
    switch (row.takes) {
      case Takes::sets_true:
      case Takes::sets_false:
        for (const ShellWord& word : words_)
          if (word.lacks.empty()) fail("takes no value; got '" + printable(word.text, 40) + "'");
        return row.takes == Takes::sets_true;
      case Takes::integer:
        return integer(single());
      case Takes::number:
        return number(single());
      case Takes::text:
        return choice(row, single());
      default:
        break;
    }
    json list = json::array();
    for (const ShellWord& word : words_) {
      if (!word.lacks.empty()) fail("one of its values is " + word.lacks + reason);
      list.push_back(row.takes == Takes::integers  ? integer(word)
                     : row.takes == Takes::numbers ? number(word)
                                                   : choice(row, word));
    }
    if (list.empty()) fail("needs a value");
    return list;
  }

 private:
  static constexpr const char* reason = ", which this file does not set";

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(file_, "/" + escape_pointer(flag_), message);
  }
  const ShellWord& single() const {
    if (words_.empty()) fail("needs a value");
    if (!words_.front().lacks.empty()) fail("its value is " + words_.front().lacks + reason);
    for (size_t i = 1; i < words_.size(); ++i)
      if (words_[i].lacks.empty())
        fail("takes one value; got '" + printable(words_[0].text, 40) + "' and '" +
             printable(words_[i].text, 40) + "'");
    return words_.front();
  }
  json integer(const ShellWord& word) const {
    const std::optional<json> value = decimal_number(word.text);
    if (!value || !value->is_number_integer())
      fail("must be an integer; got '" + printable(word.text, 40) + "'");
    return *value;
  }
  json number(const ShellWord& word) const {
    const std::optional<json> value = decimal_number(word.text);
    if (!value) fail("must be a number; got '" + printable(word.text, 40) + "'");
    return *value;
  }
  json choice(const ArgumentRow& row, const ShellWord& word) const {
    const std::vector<std::string> names = split(row.choices, '|');
    if (!names.empty() && std::find(names.begin(), names.end(), word.text) == names.end())
      fail("unknown name '" + printable(word.text, 40) + "'" + suggestion(word.text, names));
    return word.text;
  }

  const std::string& file_;
  std::string flag_;
  std::vector<ShellWord> words_;
};

}  // namespace

json read_arguments(std::span<const ShellWord> words, const std::string& file, json& not_modelled) {
  json arguments = json::object();
  std::set<std::string> others;
  not_modelled = json::array();
  for (size_t i = 0; i < words.size();) {
    std::string flag = words[i].text;
    ++i;
    if (!flag.starts_with("--") || flag.size() == 2) continue;  // what no flag asked for
    std::vector<ShellWord> values;
    if (const size_t equals = flag.find('='); equals != std::string::npos) {
      values.push_back({flag.substr(equals + 1), words[i - 1].lacks});
      flag.erase(equals);
    }
    while (i < words.size() && !words[i].text.starts_with("--")) values.push_back(words[i++]);
    const Argument argument(file, flag, std::move(values));
    if (const ArgumentRow* row = row_of(flag)) {
      arguments[flag] = argument.value(*row);
    } else if (!others.contains(flag)) {
      constexpr size_t most = 2000;  // several times what Megatron-LM itself knows
      if (others.size() >= most)
        throw Error(file, "/" + escape_pointer(flag),
                    "is one unknown flag too many; the limit is " + std::to_string(most));
      argument.check_spelling();
      others.insert(flag);
      not_modelled.push_back(printable(flag));
    }
  }
  return arguments;
}

void write_arguments(const json& arguments, json& root) {
  for (const ArgumentRow& row : argument_rows()) {
    const auto value = arguments.find(row.flag);
    if (row.key.empty() || value == arguments.end()) continue;
    const size_t dot = row.key.find('.');
    root[std::string(row.key.substr(0, dot))][std::string(row.key.substr(dot + 1))] = *value;
  }
}

}  // namespace stepsim
