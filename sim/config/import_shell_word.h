// One word of a launch script: quotes, variables, arrays, arithmetic. Used by import_shell.cpp.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/import_shell.h"

namespace stepsim {

/// A place in the script, or in text that came out of one of its words.
struct Cursor {
  std::string_view text;
  size_t at = 0;
  size_t base = 0;      ///< offset of `text` in the file
  bool nested = false;  ///< `text` is not in the file; everything in it is at `base`

  bool done() const { return at >= text.size(); }
  char peek() const { return done() ? '\0' : text[at]; }
  size_t place(size_t offset) const { return nested ? base : base + offset; }
  /// A part of the text; ends where this one does at most.
  Cursor part(size_t start, size_t size) const;
  bool skip_continuation();  ///< backslash and line end
  void skip_blanks_and_comments();
  /// Moves behind the next `end`, or to the end of the text (false). `escapes`: a backslash hides
  /// what follows it.
  bool skip_past(std::string_view end, bool escapes);
};

/// Length of a variable's name at the start of `text`, 0 when there is none.
size_t name_size(std::string_view text);

/// Expands words against `variables`. Invariant: all expansions together stay within a multiple of
/// the script's size.
class WordReader {
 public:
  using Variables = std::map<std::string, std::vector<ShellWord>>;
  WordReader(Variables& variables, const std::string& text, const std::string& file);

  /// Reads one word, up to a blank or one of `ends`; appends what it expands to: no, one or several
  /// words.
  void read(Cursor& cursor, std::string_view ends, std::vector<ShellWord>& words);
  /// The same without splitting, as the shell does behind NAME=.
  ShellWord read_joined(Cursor& cursor, bool plain);
  /// Moves behind the bracket that closes the one at the cursor; quotes hide brackets
  /// (single ones only when not `quoted`).
  void skip_balanced(Cursor& cursor, bool quoted);
  /// Counts text that did not stand in the script.
  void charge(const Cursor& cursor, size_t bytes);
  Variables& variables() { return variables_; }
  [[noreturn]] void fail(const Cursor& cursor, size_t offset, const std::string& message) const;

 private:
  struct Fields;
  enum class Take { first, all, joined };  ///< $A and ${A[0]}, ${A[@]}, "${A[*]}"
  void piece(Cursor& cursor, bool quoted, Fields& fields);
  void dollar(Cursor& cursor, bool quoted, Fields& fields);
  void parameter(Cursor& cursor, bool quoted, Fields& fields);
  void whole(Cursor part, bool quoted, Fields& fields);
  void put(const Cursor& cursor, std::span<const ShellWord> value, Take take, bool quoted,
           Fields& fields);
  std::span<const ShellWord> value_of(const std::string& name);

  Variables& variables_;
  const std::string &text_, &file_;
  ShellWord unset_;  ///< what the last unset variable stood for
  size_t expansion_left_;
  int depth_ = 0;
};

}  // namespace stepsim
