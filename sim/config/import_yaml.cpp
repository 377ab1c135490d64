#include "sim/config/import_yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/config/import_bridge.h"
#include "sim/config/import_scalar.h"
#include "sim/config/import_text.h"

namespace stepsim {
namespace {

using nlohmann::json;

std::string place(const YAML::Mark& mark) {
  return mark.is_null() ? "1:1"
                        : std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
}

/// A value and what it would cost to copy: nodes and bytes of text.
struct Weighed {
  json value;
  size_t weight = 1;
};

/// Receives yaml-cpp's events and builds the tree; the first problem is thrown through the parser.
/// (The one base class here is the library's: its parser knows no other receiver.)
class YamlTree : public YAML::EventHandler {
 public:
  YamlTree(std::string file, size_t text_bytes)
      : file_(std::move(file)), copies_left_(8 * text_bytes + 4096) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    put(mark, anchor, {nullptr, 1}, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) fail(mark, "an alias inside its own anchor");
    copy(mark, found->second.weight);
    put(mark, 0, found->second, std::nullopt);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    json value;
    if (tag == "!" || tag == standard_tag("str")) {
      value = text;
    } else if (tag == "?" || tag.empty() || tag == standard_tag("int") ||
               tag == standard_tag("float") || tag == standard_tag("bool") ||
               tag == standard_tag("null")) {
      const std::optional<json> plain = plain_scalar(text);
      if (!plain) fail(mark, "'" + printable(text, 40) + "' is no finite number");
      value = *plain;
    } else {
      fail(mark, "unknown tag '" + printable(tag, 60) + "'");
    }
    put(mark, anchor, {std::move(value), 1 + text.size()}, text);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, "seq", anchor, json::array());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, "map", anchor, json::object());
  }
  void OnMapEnd() override {
    Level& level = open_.back();
    for (const json& below : level.merged)
      for (const auto& [key, value] : below.items())
        if (!level.own.value.contains(key)) level.own.value[key] = value;
    close();
  }

  json take() { return std::move(root_); }

 private:
  /// A sequence or mapping whose end has not come yet.
  struct Level {
    Weighed own;
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    std::optional<std::string> key;  ///< of a mapping, read and waiting for its value
    std::vector<json> merged;        ///< mappings under `<<`, first wins
  };

  static std::string standard_tag(const char* name) {
    return std::string("tag:yaml.org,2002:") + name;
  }
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    throw Error(file_, place(mark), message);
  }
  std::string pointer() const {
    std::string text;
    for (const Level& level : open_) {
      if (level.own.value.is_array()) text += "/" + std::to_string(level.own.value.size());
      if (level.key) text += "/" + escape_pointer(*level.key);
    }
    return text;
  }
  void copy(const YAML::Mark& mark, size_t weight) {
    if (weight > copies_left_)
      fail(mark, "aliases expand to more than eight times the size of the text");
    copies_left_ -= weight;
  }
  void open(const YAML::Mark& mark, const std::string& tag, const char* kind, YAML::anchor_t anchor,
            json empty) {
    if (tag != "?" && tag != "!" && !tag.empty() && tag != standard_tag(kind))
      fail(mark, "unknown tag '" + printable(tag, 60) + "'");
    if (open_.size() >= static_cast<size_t>(max_nesting))
      fail(mark, "nested deeper than " + std::to_string(max_nesting) + " levels");
    open_.push_back({{std::move(empty), 1}, mark, anchor, std::nullopt, {}});
  }
  void close() {
    Level level = std::move(open_.back());
    open_.pop_back();
    put(level.mark, level.anchor, std::move(level.own), std::nullopt);
  }
  /// `text`: a scalar as written; nullopt for what cannot be a key.
  void put(const YAML::Mark& mark, YAML::anchor_t anchor, Weighed node,
           const std::optional<std::string>& text) {
    if (anchor != 0) {
      copy(mark, node.weight);
      anchored_[anchor] = node;
    }
    if (open_.empty()) {
      root_ = std::move(node.value);
      return;
    }
    Level& level = open_.back();
    level.own.weight += node.weight;
    if (level.own.value.is_array()) {
      level.own.value.push_back(std::move(node.value));
    } else if (!level.key) {
      take_key(mark, level, node.value, text);
    } else if (*level.key == "<<") {
      take_merge(mark, level, std::move(node.value));
      level.key.reset();
    } else {
      level.own.value[*level.key] = std::move(node.value);
      level.key.reset();
    }
  }
  void take_key(const YAML::Mark& mark, Level& level, const json& value,
                const std::optional<std::string>& text) {
    if (!text && !value.is_string()) fail(mark, "a key must be text, not a list or a mapping");
    const std::string key = text ? *text : value.get<std::string>();
    if (level.own.value.contains(key))
      throw Error(file_, pointer() + "/" + escape_pointer(key),
                  "key '" + printable(key) + "' appears twice in this mapping (line " +
                      std::to_string(mark.line + 1) + ")");
    level.key = key;
  }
  void take_merge(const YAML::Mark& mark, Level& level, json value) {
    const auto one = [&](json below) {
      if (!below.is_object()) fail(mark, "'<<' merges a mapping or a list of mappings");
      level.merged.push_back(std::move(below));
    };
    if (!value.is_array()) return one(std::move(value));
    for (json& below : value) one(std::move(below));
  }

  std::string file_;
  size_t copies_left_;  ///< nodes and bytes that anchors and aliases may still add
  std::vector<Level> open_;
  std::map<YAML::anchor_t, Weighed> anchored_;
  json root_;
};

}  // namespace

Document parse_yaml(const std::string& text, const std::string& file) {
  check_text(text, file);
  YamlTree tree(file, text.size());
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(tree)) throw Error(file, "1:1", "empty file: not YAML");
    YamlTree second(file, text.size());
    if (parser.HandleNextDocument(second))
      throw Error(file, "", "holds more than one YAML document; expected one");
  } catch (const YAML::Exception& error) {
    throw Error(file, place(error.mark), "not YAML: " + printable(error.msg, 200));
  }
  Document document{.file = file, .root = std::make_shared<json>(tree.take()), .origins = {}};
  if (!document.root->is_object())
    throw Error(file, "",
                "must be a mapping of sections; got " + std::string(document.root->type_name()));
  plain_bridge_values(*document.root);
  settle_run_config(*document.root);
  return document;
}

}  // namespace stepsim
