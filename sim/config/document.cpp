#include "sim/config/document.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace stepsim {
namespace {

using nlohmann::json;

/// Receives nlohmann's SAX events and builds the tree; the first problem stops the parse.
class TreeBuilder {
 public:
  TreeBuilder(json& root, const std::string& text) : root_(root), text_(text) {}

  bool null() { return put(nullptr); }
  bool boolean(bool v) { return put(v); }
  bool number_integer(json::number_integer_t v) { return put(v); }
  bool number_unsigned(json::number_unsigned_t v) { return put(v); }
  bool number_float(json::number_float_t v, const std::string&) { return put(v); }
  bool string(std::string& v) { return put(std::move(v)); }
  bool binary(json::binary_t&) { return false; }
  bool start_object(size_t) { return open(json::object()); }
  bool start_array(size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& k) {
    if (open_.back()->contains(k)) {
      place_ = pointer() + "/" + escape_pointer(k);
      problem_ = "key '" + printable(k) + "' appears twice in this object";
      return false;
    }
    key_ = k;
    return true;
  }
  template <class Exception>
  bool parse_error(size_t position, const std::string&, const Exception& error) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i + 1 < position && i < text_.size(); ++i)
      text_[i] == '\n' ? (++line, column = 1) : ++column;
    place_ = std::to_string(line) + ":" + std::to_string(column);
    std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ...":
    // keep the last part.
    for (const std::string_view cut : {"] ", ": "})
      if (const size_t at = what.find(cut); at != std::string::npos) what.erase(0, at + cut.size());
    problem_ =
        (text_.find_first_not_of(" \t\r\n") == std::string::npos ? "empty file: " : "not JSON: ") +
        printable(what, 200);
    return false;
  }

  const std::string& place() const { return place_; }
  const std::string& problem() const { return problem_; }

 private:
  std::string pointer() const {
    std::string text;
    for (const std::string& step : path_) text += "/" + escape_pointer(step);
    return text;
  }
  json* attach(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool put(json value) {
    attach(std::move(value));
    return true;
  }
  bool open(json value) {
    if (open_.size() >= static_cast<size_t>(max_nesting)) {
      place_ = pointer();
      problem_ = "nested deeper than " + std::to_string(max_nesting) + " levels";
      return false;
    }
    if (!open_.empty())
      path_.push_back(open_.back()->is_array() ? std::to_string(open_.back()->size()) : key_);
    open_.push_back(attach(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    if (!path_.empty()) path_.pop_back();
    return true;
  }

  json& root_;
  const std::string& text_;
  std::vector<json*> open_;
  std::vector<std::string> path_;
  std::string key_, place_, problem_;
};

void merge_values(Document& below, const json& over, const Document& from, json& target,
                  const std::string& pointer) {
  if (!over.is_object() || !target.is_object()) {
    target = over;
    std::erase_if(below.origins, [&](const auto& entry) {
      return entry.first.starts_with(pointer + "/") || entry.first == pointer;
    });
    below.origins[pointer] = from.file_of(pointer);
    for (const auto& [place, file] : from.origins)
      if (place.starts_with(pointer + "/")) below.origins[place] = file;
    return;
  }
  for (const auto& [key, value] : over.items()) {
    const std::string place = pointer + "/" + escape_pointer(key);
    if (target.contains(key)) {
      merge_values(below, value, from, target[key], place);
    } else {
      json& fresh = target[key] = nullptr;
      merge_values(below, value, from, fresh, place);
    }
  }
}

}  // namespace

const std::string& Document::file_of(const std::string& pointer) const {
  for (std::string place = pointer;; place.erase(place.rfind('/'))) {
    if (const auto found = origins.find(place); found != origins.end()) return found->second;
    if (place.empty()) return file;
  }
}

std::string escape_pointer(std::string_view key) {
  std::string text;
  for (const char c : printable(key)) {
    if (c == '~')
      text += "~0";
    else if (c == '/')
      text += "~1";
    else
      text += c;
  }
  return text;
}

std::string printable(std::string_view text, size_t most) {
  std::string line;
  for (const char c : text) {
    if (line.size() >= most) return line + "...";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      line += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      line += escaped;
    }
  }
  return line;
}

std::string read_text(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::not_found) throw Error(name, "", "no such file");
  if (status.type() == std::filesystem::file_type::directory)
    throw Error(name, "", "is a directory; expected a JSON file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) throw Error(name, "", std::string("cannot be read: ") + std::strerror(errno));
  std::string text;
  char block[1 << 16];
  for (size_t n; (n = std::fread(block, 1, sizeof block, file.get())) > 0;) {
    text.append(block, n);
    if (text.size() > max_file_bytes)
      throw Error(name, "",
                  "is larger than the limit of " + std::to_string(max_file_bytes >> 20) + " MiB");
  }
  if (std::ferror(file.get()))
    throw Error(name, "", std::string("cannot be read: ") + std::strerror(errno));
  return text;
}

Document parse_document(const std::string& text, const std::string& file) {
  Document document{.file = file, .root = std::make_shared<json>(), .origins = {}};
  TreeBuilder builder(*document.root, text);
  if (!json::sax_parse(text, &builder)) throw Error(file, builder.place(), builder.problem());
  return document;
}

Document load_document(const std::filesystem::path& path) {
  return parse_document(read_text(path), path.string());
}

void merge(Document& below, const Document& over) {
  merge_values(below, *over.root, over, *below.root, "");
}

void set_value(Document& document, const std::string& pointer, const json& value) {
  json* at = document.root.get();
  std::string place;
  for (size_t start = 1; start <= pointer.size();) {
    const size_t end = std::min(pointer.find('/', start), pointer.size());
    const std::string key = pointer.substr(start, end - start);
    if (!at->is_object()) {
      if (!at->is_null())
        throw Error(std::string(command_line_name), pointer,
                    (place.empty() ? "the document" : place.substr(1)) +
                        " is not a section; it holds " +
                        printable(at->dump(-1, ' ', true, json::error_handler_t::replace), 40));
      *at = json::object();
    }
    if (!at->contains(key)) document.origins[place + "/" + key] = command_line_name;
    at = &(*at)[key];
    place += "/" + key;
    start = end + 1;
  }
  *at = value;
  document.origins[pointer] = command_line_name;
}

}  // namespace stepsim
