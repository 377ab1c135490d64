#include "sim/config/import_shell_word.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/import_arithmetic.h"
#include "sim/config/import_text.h"

namespace stepsim {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::optional<int64_t> as_integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

/// Words in the making.
struct WordReader::Fields {
  std::vector<ShellWord> finished;
  ShellWord current;
  bool started = false, split = true;
  bool vanishes = false;  ///< "${A[@]}" of nothing is no word, not an empty one

  void add(std::string_view text) {
    current.text += text;
    started = true;
  }
  void lack(const std::string& what) {
    if (current.lacks.empty()) current.lacks = what;
    started = true;
  }
  void finish() {
    if (started) finished.push_back(std::move(current));
    current = {};
    started = false;
  }
  void add_unquoted(std::string_view text) {
    if (!split) return add(text);
    for (const char c : text) {
      if (is_blank(c))
        finish();
      else
        add({&c, 1});
    }
  }
};

Cursor Cursor::part(size_t start, size_t size) const {
  return {text.substr(start, size), 0, place(start), nested};
}

bool Cursor::skip_continuation() {
  const std::string_view rest = text.substr(std::min(at, text.size()));
  const size_t size = rest.starts_with("\\\n") ? 2 : rest.starts_with("\\\r\n") ? 3 : 0;
  at += size;
  return size > 0;
}

void Cursor::skip_blanks_and_comments() {
  while (!done()) {
    if (is_blank(peek()))
      ++at;
    else if (peek() == '#')
      skip_past("\n", false);
    else if (!skip_continuation())
      return;
  }
}

bool Cursor::skip_past(std::string_view end, bool escapes) {
  while (!done()) {
    if (text.substr(at).starts_with(end)) {
      at += end.size();
      return true;
    }
    at += escapes && peek() == '\\' ? 2 : 1;
  }
  at = text.size();
  return false;
}

size_t name_size(std::string_view text) {
  if (text.empty() || !is_letter(text.front())) return 0;
  size_t size = 1;
  while (size < text.size() && (is_letter(text[size]) || is_digit(text[size]))) ++size;
  return size;
}

WordReader::WordReader(Variables& variables, const std::string& text, const std::string& file)
    : variables_(variables),
      text_(text),
      file_(file),
      expansion_left_(32 * text.size() + (size_t{1} << 16)) {}

void WordReader::fail(const Cursor& cursor, size_t offset, const std::string& message) const {
  throw Error(file_, place_of(text_, cursor.place(offset)), message);
}

void WordReader::charge(const Cursor& cursor, size_t bytes) {
  if (bytes > expansion_left_)
    fail(cursor, cursor.at, "variables expand to more than 32 times the size of the file");
  expansion_left_ -= bytes;
}

void WordReader::read(Cursor& cursor, std::string_view ends, std::vector<ShellWord>& words) {
  Fields fields;
  while (!cursor.done() && !is_blank(cursor.peek()) &&
         ends.find(cursor.peek()) == std::string_view::npos)
    piece(cursor, false, fields);
  fields.finish();
  words.insert(words.end(), std::make_move_iterator(fields.finished.begin()),
               std::make_move_iterator(fields.finished.end()));
}

ShellWord WordReader::read_joined(Cursor& cursor, bool plain) {
  Fields fields;
  fields.split = false;
  const std::string_view ends = plain ? "" : ";&|()<>";
  while (!cursor.done() && !is_blank(cursor.peek()) &&
         ends.find(cursor.peek()) == std::string_view::npos)
    piece(cursor, false, fields);
  // An array behind NAME= becomes one text.
  ShellWord joined;
  fields.finish();
  for (size_t i = 0; i < fields.finished.size(); ++i) {
    joined.text += (i > 0 ? " " : "") + fields.finished[i].text;
    if (joined.lacks.empty()) joined.lacks = fields.finished[i].lacks;
  }
  return joined;
}

/// The next character, quotation or expansion.
void WordReader::piece(Cursor& cursor, bool quoted, Fields& fields) {
  const size_t start = cursor.at;
  const char c = cursor.peek();
  if (cursor.skip_continuation()) return;
  if (c == '\\') {
    const char next = start + 1 < cursor.text.size() ? cursor.text[start + 1] : '\\';
    // Between double quotes a backslash is itself unless it hides one of these.
    const bool hides = !quoted || std::string_view("$`\"\\").find(next) != std::string_view::npos;
    fields.add(hides ? std::string_view(&next, 1) : cursor.text.substr(start, 1));
    cursor.at = std::min(start + (hides ? 2 : 1), cursor.text.size());
  } else if (c == '\'' && !quoted) {
    ++cursor.at;
    if (!cursor.skip_past("'", false)) fail(cursor, start, "unterminated quote '");
    fields.add(cursor.text.substr(start + 1, cursor.at - start - 2));
  } else if (c == '"') {
    ++cursor.at;
    if (quoted) return;  // a quote inside "${NAME:-"default"}" only toggles
    fields.vanishes = false;
    while (!cursor.done() && cursor.peek() != '"') piece(cursor, true, fields);
    if (cursor.done()) fail(cursor, start, "unterminated quote \"");
    ++cursor.at;
    if (!fields.vanishes) fields.add("");
  } else if (c == '`') {
    ++cursor.at;
    if (!cursor.skip_past("`", true)) fail(cursor, start, "unterminated quote `");
    fields.lack("`...`");
  } else if (c == '$') {
    dollar(cursor, quoted, fields);
  } else {
    ++cursor.at;
    quoted ? fields.add({&c, 1}) : fields.add_unquoted({&c, 1});
  }
}

void WordReader::skip_balanced(Cursor& cursor, bool quoted) {
  const size_t start = cursor.at;
  const char open = cursor.peek(), close = open == '(' ? ')' : '}';
  int depth = 0;
  while (!cursor.done()) {
    const char c = cursor.peek();
    const size_t quote = cursor.at;
    if (c == '\\') {
      cursor.at = std::min(cursor.at + 2, cursor.text.size());
      continue;
    }
    ++cursor.at;
    if (((c == '\'' && !quoted) || c == '"') && !cursor.skip_past({&c, 1}, c == '"'))
      fail(cursor, quote, std::string("unterminated quote ") + c);
    if (c == open) ++depth;
    if (c == close && --depth == 0) return;
  }
  fail(cursor, start, std::string("unterminated '") + open + "'");
}

void WordReader::dollar(Cursor& cursor, bool quoted, Fields& fields) {
  const size_t start = cursor.at++;
  const char c = cursor.peek();
  if (c == '{') return parameter(cursor, quoted, fields);
  if (c == '(') {
    const bool sum = cursor.text.substr(cursor.at).starts_with("((");
    skip_balanced(cursor, false);
    const std::string_view inside = cursor.text.substr(start + 1, cursor.at - start - 1);
    if (!sum || !inside.ends_with("))")) return fields.lack("$(...)");
    const auto variable = [&](std::string_view name) -> std::optional<int64_t> {
      const auto found = variables_.find(std::string(name));
      if (found == variables_.end() || found->second.empty() ||
          !found->second.front().lacks.empty())
        return std::nullopt;
      return as_integer(found->second.front().text);
    };
    const auto value = shell_arithmetic(inside.substr(2, inside.size() - 4), variable);
    value ? fields.add(std::to_string(*value)) : fields.lack("$((...))");
    return;
  }
  if (c == '@' || c == '*') {  // the script is read without arguments
    ++cursor.at;
    fields.vanishes = true;
    return;
  }
  if (c == '\'' || (c == '"' && !quoted)) return;  // $'...' and $"..." read as quotes
  if (const size_t size = name_size(cursor.text.substr(cursor.at)); size > 0) {
    const std::string name(cursor.text.substr(cursor.at, size));
    cursor.at += size;
    return put(cursor, value_of(name), Take::first, quoted, fields);
  }
  if (is_digit(c) || c == '#' || c == '?' || c == '$' || c == '!' || c == '-') {
    ++cursor.at;
    return fields.lack(std::string("$") + c);
  }
  fields.add("$");
}

/// ${NAME}, ${NAME[...]}, ${NAME:-word} and its kin; other operations are not done.
void WordReader::parameter(Cursor& cursor, bool quoted, Fields& fields) {
  const size_t start = cursor.at;
  skip_balanced(cursor, quoted);
  const Cursor inside = cursor.part(start + 1, cursor.at - start - 2);
  const std::string_view text = inside.text;
  size_t size = name_size(text);
  if (size == 0)
    while (size < text.size() && is_digit(text[size])) ++size;
  const std::string name(text.substr(0, size));
  const std::string what = "${" + printable(text, 40) + "}";
  if (text == "@" || text == "*") {
    fields.vanishes = true;
    return;
  }
  std::span<const ShellWord> value = value_of(name);
  Take take = Take::first;
  size_t at = size;
  if (at < text.size() && text[at] == '[') {
    const size_t end = text.find(']', at);
    const std::string index(text.substr(at + 1, end == text.npos ? 0 : end - at - 1));
    const auto number = as_integer(index);
    if (index == "@" || index == "*") {
      take = index == "*" && quoted ? Take::joined : Take::all;
    } else {
      const bool there = end != text.npos && number && *number >= 0 &&
                         *number < static_cast<int64_t>(value.size());
      if (!there) return fields.lack(what);
      value = value.subspan(static_cast<size_t>(*number), 1);
    }
    at = end + 1;
  }
  if (size == 0) return fields.lack(what);
  if (at == text.size()) return put(cursor, value, take, quoted, fields);
  const bool colon = text[at] == ':';
  at += colon ? 1 : 0;
  const char sign = at < text.size() ? text[at] : ' ';
  const bool lacking = value.empty() || !value.front().lacks.empty();
  const bool absent = lacking || (colon && value.front().text.empty());
  const Cursor word = inside.part(std::min(at + 1, text.size()), text.size());
  if (sign == '-' || sign == '=') {
    if (!absent) return put(cursor, value, take, quoted, fields);
    return whole(word, quoted, fields);
  }
  if (sign == '+') {
    if (!absent) whole(word, quoted, fields);
    return;
  }
  if (sign == '?' && !absent) return put(cursor, value, take, quoted, fields);
  fields.lack(what);
}

void WordReader::whole(Cursor part, bool quoted, Fields& fields) {
  if (++depth_ > max_nesting)
    fail(part, 0, "nested deeper than " + std::to_string(max_nesting) + " levels");
  while (!part.done()) piece(part, quoted, fields);
  --depth_;
}

void WordReader::put(const Cursor& cursor, std::span<const ShellWord> value, Take take, bool quoted,
                     Fields& fields) {
  const size_t count = take == Take::first ? std::min<size_t>(value.size(), 1) : value.size();
  if (take == Take::all && count == 0) fields.vanishes = true;
  for (size_t i = 0; i < count; ++i) {
    const ShellWord& word = value[i];
    charge(cursor, word.text.size() + 1);
    if (i > 0) take == Take::joined ? fields.add(" ") : fields.finish();
    if (!word.lacks.empty()) fields.lack(word.lacks);
    quoted ? fields.add(word.text) : fields.add_unquoted(word.text);
  }
}

std::span<const ShellWord> WordReader::value_of(const std::string& name) {
  if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
  unset_ = {"", "$" + printable(name, 40)};
  return {&unset_, 1};
}

}  // namespace stepsim
