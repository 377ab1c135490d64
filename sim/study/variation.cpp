#include "sim/study/variation.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/error.h"
#include "sim/config/import.h"
#include "sim/config/import_yaml.h"

namespace stepsim {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_axis(const std::string& pointer, const std::string& message) {
  throw Error(std::string(command_line_name), pointer, message);
}

/// Commas outside brackets, braces and quotes part the values.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

std::optional<int64_t> whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// FIRST..LAST, FIRST..LAST+STEP, FIRST..LAST*FACTOR; nothing when it is no range.
std::optional<std::vector<std::string>> range_values(const std::string& text,
                                                     const std::string& pointer) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const auto first = whole(std::string_view(text).substr(0, dots));
  if (!first) return std::nullopt;
  const std::string_view rest = std::string_view(text).substr(dots + 2);
  const size_t sign = rest.find_first_of("+*", 1);
  const auto last = whole(rest.substr(0, sign));
  const auto step = sign == rest.npos ? std::optional<int64_t>(1) : whole(rest.substr(sign + 1));
  const bool factor = sign != rest.npos && rest[sign] == '*';
  if (!last || !step || *last < *first || *step < (factor ? 2 : 1) || (factor && *first < 1))
    refuse_axis(pointer,
                "expected a range such as 1..8, 0..32+8 or 1..64*2; got '" + printable(text) + "'");
  constexpr int64_t largest = 1'000'000'000;
  if (*last > largest || *first < -largest || *step > largest)
    refuse_axis(pointer, "a range ends at " + std::to_string(largest));
  std::vector<std::string> values;
  for (int64_t v = *first; v <= *last; v = factor ? v * *step : v + *step) {
    if (values.size() == most_points)
      refuse_axis(pointer, "more than " + std::to_string(most_points) + " values");
    values.push_back(std::to_string(v));
  }
  return values;
}

void flatten(const json& object, const std::string& prefix, Point& point) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object() && !value.empty() && prefix.empty() && key.find('.') == std::string::npos)
      flatten(value, name, point);
    else
      point.push_back({name, value.is_string() && value.get<std::string>().find_first_of(
                                                      "{}[]\"") == std::string::npos
                                 ? value.get<std::string>()
                                 : value.dump(-1, ' ', false, json::error_handler_t::replace)});
  }
}

/// A list on its own is no mapping: it goes under a key, and lines count from one again.
Document load_points(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  const std::string ending = file.extension().string();
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool list = first != std::string::npos && text[first] == '-';
  if (!list || ending == ".json") return parse_any(text, file.string());
  try {
    return parse_yaml("points:\n" + text, file.string());
  } catch (const Error& error) {
    const size_t colon = error.pointer().find(':');
    const auto line = whole(std::string_view(error.pointer()).substr(0, colon));
    if (!line || colon == std::string::npos) throw;
    throw Error(error.file(), std::to_string(*line - 1) + error.pointer().substr(colon),
                error.message());
  }
}

}  // namespace

Axis parse_axis(const std::string& text, const std::string& flag) {
  const size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::string pointer = "/" + flag + "/" + printable(key);
  if (key.empty() || equals == std::string::npos || equals + 1 == text.size())
    refuse_axis(pointer,
                "expected KEY=VALUES such as model.tensor_model_parallel_size=1,2,4 or "
                "cluster.nodes=1..8; got '" +
                    printable(text) + "'");
  Axis axis{.keys = {key}, .points = {}};
  for (const std::string& value : split_values(std::string_view(text).substr(equals + 1))) {
    if (value.empty()) refuse_axis(pointer, "has an empty value; null leaves a key to its default");
    if (const auto values = range_values(value, pointer))
      for (const std::string& v : *values) axis.points.push_back({{key, v}});
    else
      axis.points.push_back({{key, value}});
  }
  return axis;
}

Axis zipped(std::span<const Axis> axes) {
  Axis result = axes.front();
  for (const Axis& axis : axes.subspan(1)) {
    if (axis.points.size() != result.points.size())
      refuse_axis("/--zip/" + printable(axis.keys.front()),
                  "has " + std::to_string(axis.points.size()) + " values and " +
                      printable(result.keys.front()) + " " + std::to_string(result.points.size()) +
                      "; keys that advance together need as many");
    result.keys.insert(result.keys.end(), axis.keys.begin(), axis.keys.end());
    for (size_t i = 0; i < axis.points.size(); ++i)
      result.points[i].insert(result.points[i].end(), axis.points[i].begin(), axis.points[i].end());
  }
  return result;
}

Axis read_axis(const std::filesystem::path& file) {
  const Document document = load_points(file);
  const json* list = document.root.get();
  std::string pointer;
  if (list->is_object() && list->contains("points")) {
    list = &list->at("points");
    pointer = "/points";
  }
  if (!list->is_array() || list->empty())
    throw Error(document.file, pointer,
                "expected a list of objects, each the keys of one point; got " +
                    std::string(list->is_array() ? "an empty list" : list->type_name()));
  Axis axis;
  for (size_t i = 0; i < list->size(); ++i) {
    const json& entry = list->at(i);
    if (!entry.is_object() || entry.empty())
      throw Error(document.file, pointer + "/" + std::to_string(i),
                  "expected an object of dotted keys and values");
    Point point;
    flatten(entry, "", point);
    for (const Assignment& a : point)
      if (std::find(axis.keys.begin(), axis.keys.end(), a.key) == axis.keys.end())
        axis.keys.push_back(a.key);
    axis.points.push_back(std::move(point));
  }
  return axis;
}

std::vector<Point> product(std::span<const Axis> axes) {
  size_t count = 1;
  for (const Axis& axis : axes) {
    count *= axis.points.size();
    if (count > most_points)
      refuse_axis("/--vary", "makes more than " + std::to_string(most_points) + " points");
  }
  std::vector<Point> points(count);
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i, below = count;
    for (const Axis& axis : axes) {
      below /= axis.points.size();
      const Point& here = axis.points[rest / below];
      rest %= below;
      points[i].insert(points[i].end(), here.begin(), here.end());
    }
  }
  return points;
}

std::vector<std::string> keys_of(std::span<const Axis> axes) {
  std::vector<std::string> keys;
  for (const Axis& axis : axes)
    for (const std::string& key : axis.keys) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end())
        refuse_axis("/--vary/" + printable(key), "is varied twice");
      keys.push_back(key);
    }
  return keys;
}

std::vector<std::string> override_words(const Point& point, std::string& cluster) {
  std::vector<std::string> words;
  for (const Assignment& a : point) {
    if (a.key == "cluster")
      cluster = a.value;
    else
      words.push_back(a.key + "=" + a.value);
  }
  return words;
}

}  // namespace stepsim
