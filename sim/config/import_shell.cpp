#include "sim/config/import_shell.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/import_shell_word.h"
#include "sim/config/import_text.h"

namespace stepsim {
namespace {

/// Words that may stand in front of an assignment or a command.
constexpr std::array<std::string_view, 13> openers{
    "then", "else", "do", "if", "elif", "while", "until", "!", "{", "}", "time", "exec", "done"};
constexpr std::array<std::string_view, 5> declarers{"export", "declare", "local", "readonly",
                                                    "typeset"};

template <size_t n>
bool is_one_of(std::string_view word, const std::array<std::string_view, n>& list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Reads commands one after another into a script.
class CommandReader {
 public:
  CommandReader(ShellScript& script, WordReader& words, bool plain, std::string inside)
      : script_(script), words_(words), plain_(plain), inside_(std::move(inside)) {}

  void read(Cursor& cursor, int depth) {
    while (!cursor.done()) {
      const char c = cursor.peek();
      if (c == ' ' || c == '\t' || c == '\r') {
        ++cursor.at;
      } else if (cursor.skip_continuation()) {
        continue;
      } else if (c == '#') {
        cursor.skip_past("\n", false);
      } else if (c == '\n') {
        ++cursor.at;
        end_command(cursor, depth);
        for (const std::string& end : here_ends_) skip_here_document(cursor, end);
        here_ends_.clear();
      } else if (!plain_ && is_separator(c)) {
        ++cursor.at;
        end_command(cursor, depth);
      } else if (!plain_ && (c == '<' || c == '>')) {
        redirection(cursor);
      } else if (!assignment(cursor)) {
        word(cursor);
      }
    }
    end_command(cursor, depth);
  }

 private:
  static bool is_separator(char c) {
    return c == ';' || c == '&' || c == '|' || c == '(' || c == ')';
  }

  /// NAME=value, NAME+=value, NAME=(...): only in front of a command.
  bool assignment(Cursor& cursor) {
    if (!command_.words.empty()) return false;
    const std::string_view rest = cursor.text.substr(cursor.at);
    const size_t size = name_size(rest);
    const bool append = size > 0 && rest.substr(size).starts_with("+=");
    if (size == 0 || (!append && !rest.substr(size).starts_with("="))) return false;
    const std::string name(rest.substr(0, size));
    cursor.at += size + (append ? 2 : 1);
    std::vector<ShellWord> value;
    if (cursor.peek() == '(') {
      const size_t start = cursor.at++;
      while (cursor.skip_blanks_and_comments(), cursor.peek() != ')') {
        if (cursor.done()) words_.fail(cursor, start, "unterminated array '('");
        words_.read(cursor, ")", value);
      }
      ++cursor.at;
      // An array is never the environment of a command.
      std::vector<ShellWord>& variable = words_.variables()[name];
      if (!append) variable.clear();
      variable.insert(variable.end(), value.begin(), value.end());
      return true;
    }
    ShellWord joined = words_.read_joined(cursor, plain_);
    std::vector<ShellWord>& variable = words_.variables()[name];
    if (append && !variable.empty()) {
      variable.front().text += joined.text;
      if (variable.front().lacks.empty()) variable.front().lacks = joined.lacks;
    } else {
      previous_.try_emplace(name, std::move(variable));
      variable = {joined};
      command_.environment[name] = std::move(joined);
    }
    if (declares_) exported_.push_back(name);
    return true;
  }

  void word(Cursor& cursor) {
    const std::string_view rest = cursor.text.substr(cursor.at);
    const size_t end = std::min(rest.find_first_of(" \t\r\n;&|()"), rest.size());
    const std::string_view raw = rest.substr(0, end);
    if (command_.words.empty() && !plain_) {
      if (is_one_of(raw, openers)) {
        cursor.at += end;
        return;
      }
      if (is_one_of(raw, declarers)) {
        cursor.at += end;
        declares_ = true;
        exports_ = raw == "export" || raw == "declare" || raw == "typeset";
        return;
      }
      if (declares_) {
        // An option, or a name without a value: export NAME.
        if (name_size(raw) == raw.size() && !raw.empty()) exported_.emplace_back(raw);
        std::vector<ShellWord> unused;
        words_.read(cursor, word_ends, unused);
        if (cursor.at < cursor.text.size() && end == 0) ++cursor.at;
        return;
      }
    }
    words_.read(cursor, plain_ ? "" : word_ends, command_.words);
  }

  void end_command(Cursor& cursor, int depth) {
    if (exports_)
      for (const std::string& name : exported_) script_.exported[name];
    // In front of a command an assignment is that command's alone.
    if (!command_.words.empty())
      for (auto& [name, value] : previous_) words_.variables()[name] = std::move(value);
    previous_.clear();
    exported_.clear();
    declares_ = exports_ = false;
    ShellCommand command = std::exchange(command_, {});
    if (command.words.empty()) return;
    constexpr int deepest = 3;  // sh -c "eval '...'"
    std::vector<std::string> nested;
    for (const ShellWord& word : command.words)
      if (!plain_ && depth < deepest && word.text.find_first_of(" \t\n") != std::string::npos &&
          word.text.find(inside_) != std::string::npos)
        nested.push_back(word.text);
    script_.commands.push_back(std::move(command));
    for (const std::string& text : nested) {
      words_.charge(cursor, text.size());
      const size_t before = script_.commands.size();
      Cursor inner{text, 0, cursor.place(cursor.at), true};
      try {
        read(inner, depth + 1);
      } catch (const Error&) {  // a sentence about the script, no command line
        script_.commands.resize(before);
        command_ = {};
        declares_ = exports_ = false;
      }
    }
  }

  void redirection(Cursor& cursor) {
    const size_t start = cursor.at;
    while (cursor.peek() == '<' || cursor.peek() == '>' || cursor.peek() == '&') ++cursor.at;
    const std::string_view sign = cursor.text.substr(start, cursor.at - start);
    if (cursor.peek() == '(') {  // <(command)
      words_.skip_balanced(cursor, false);
      return;
    }
    if (cursor.peek() == '-' || cursor.peek() == '|') ++cursor.at;
    while (cursor.peek() == ' ' || cursor.peek() == '\t') ++cursor.at;
    std::vector<ShellWord> target;
    if (!cursor.done() && cursor.peek() != '\n' && !is_separator(cursor.peek()))
      words_.read(cursor, word_ends, target);
    // "2>" leaves a word that is only a descriptor's number.
    std::vector<ShellWord>& words = command_.words;
    if (start > 0 && !words.empty() && words.back().text.size() == 1 &&
        cursor.text[start - 1] >= '0' && cursor.text[start - 1] <= '9' &&
        words.back().text[0] == cursor.text[start - 1])
      words.pop_back();
    if (sign == "<<" && !target.empty()) here_ends_.push_back(target.front().text);
  }

  static void skip_here_document(Cursor& cursor, const std::string& end) {
    while (!cursor.done()) {
      const size_t line_end = std::min(cursor.text.find('\n', cursor.at), cursor.text.size());
      std::string_view line = cursor.text.substr(cursor.at, line_end - cursor.at);
      cursor.at = std::min(line_end + 1, cursor.text.size());
      while (line.starts_with('\t')) line.remove_prefix(1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line == end) return;
    }
  }

  static constexpr std::string_view word_ends = ";&|()<>";
  ShellScript& script_;
  WordReader& words_;
  bool plain_, declares_ = false, exports_ = false;
  std::string inside_;
  ShellCommand command_;
  std::map<std::string, std::vector<ShellWord>> previous_;  ///< before this command's assignments
  std::vector<std::string> exported_, here_ends_;
};

}  // namespace

ShellScript read_shell(const std::string& text, const std::string& file, bool plain,
                       const std::string& inside) {
  ShellScript script;
  WordReader words(script.variables, text, file);
  Cursor cursor{text, 0, 0, false};
  CommandReader(script, words, plain, inside).read(cursor, 0);
  for (auto& [name, value] : script.exported)
    if (const auto found = script.variables.find(name);
        found != script.variables.end() && !found->second.empty())
      value = found->second.front();
  return script;
}

}  // namespace stepsim
