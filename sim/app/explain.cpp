// `stepsim explain KEY`: what a key does here, when it does not, and what Bridge takes when it is
// not given.
#include "sim/config/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/app/columns.h"
#include "sim/app/options.h"
#include "sim/app/output.h"

namespace stepsim::app {
namespace {

constexpr size_t label_width = 12;

std::string field(std::string_view label, std::string_view text) {
  return text.empty() ? "" : wrapped(fmt::format("  {}", label), text, label_width);
}

std::string heading(const KeyDescription& d) {
  const std::string unit = d.unit.empty() || d.unit.starts_with("text") ? "" : ", " + d.unit;
  const std::string type = fmt::format("({}{})", d.type, unit);
  const std::string key = d.key;
  return key.size() + type.size() + 2 <= page_width ? key + "  " + type + "\n"
                                                    : key + "\n  " + type + "\n";
}

std::string status(const KeyDescription& d) {
  if (!d.accepted.empty())
    return "this release simulates " + d.accepted + "; any other value is refused";
  if (!d.modelled) return "not modelled: accepted, without effect on the simulation";
  return {};
}

/// Keys that say the same of themselves are shown once.
bool same(const KeyDescription& a, const KeyDescription& b) {
  return a.description == b.description && a.automatic == b.automatic && a.gates == b.gates &&
         a.effect == b.effect && a.modelled == b.modelled && a.accepted == b.accepted;
}

std::string block(const KeyDescription& d, std::span<const std::string> also) {
  std::string text = heading(d);
  text += wrapped("", "  " + d.description, 2);
  text += field("default", d.automatic);
  text += field("values", fmt::format("{}", fmt::join(d.values, ", ")));
  if (d.unit.starts_with("text: ")) text += field("units", d.unit.substr(6));
  const bool one = d.gates.size() == 1;
  for (const std::string& gate : d.gates) {
    std::string head = &gate == &d.gates.front() ? "  gates" : "";
    head.resize(label_width, ' ');
    text += wrapped(one ? head : head + "- ", gate, label_width + (one ? 0 : 2));
  }
  text += field("effect", d.effect);
  text += field("here", status(d));
  text += field("spellings", fmt::format("{}", fmt::join(d.aliases, ", ")));
  text += field("source", d.source);
  text += field("also", fmt::format("{}", fmt::join(also, ", ")));
  return text;
}

std::string blocks(const std::vector<KeyDescription>& found) {
  std::string text;
  std::vector<bool> shown(found.size(), false);
  for (size_t i = 0; i < found.size(); ++i) {
    if (shown[i]) continue;
    std::vector<std::string> also;
    for (size_t j = i + 1; j < found.size(); ++j) {
      if (shown[j] || !same(found[i], found[j])) continue;
      shown[j] = true;
      also.push_back(found[j].key);
    }
    text += (text.empty() ? "" : "\n") + block(found[i], also);
  }
  return text;
}

std::string section_names() {
  std::string text = "Sections\n";
  for (const KeySection& section : key_sections()) {
    if (section.name.empty()) continue;
    text += wrapped(fmt::format("  {}", section.name),
                    clipped(section.description, page_width - 20), 20);
  }
  return text +
         "\nstepsim explain KEY      model.tensor_model_parallel_size, bucket_size, -tp,\n"
         "                         --overlap-grad-reduce, CUDA_DEVICE_MAX_CONNECTIONS\n"
         "stepsim explain SECTION  the keys of one section\n"
         "stepsim list keys        every key, one line each\n";
}

nlohmann::ordered_json as_json(const KeyDescription& d) {
  const auto text = [](const std::string& value) {
    return value.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  return {{"key", d.key},
          {"section", d.section},
          {"description", d.description},
          {"type", d.type},
          {"unit", text(d.unit)},
          {"default", text(d.automatic)},
          {"values", d.values},
          {"gates", d.gates},
          {"effect", text(d.effect)},
          {"source", text(d.source)},
          {"aliases", d.aliases},
          {"modelled", d.modelled},
          {"accepted", text(d.accepted)}};
}

void write_json(const std::string& path, const std::vector<KeyDescription>& keys) {
  nlohmann::ordered_json body{{"schema", "stepsim.explain/1"}, {"version", STEPSIM_VERSION}};
  body["keys"] = nlohmann::ordered_json::array();
  for (const KeyDescription& d : keys) body["keys"].push_back(as_json(d));
  write_all(path, body.dump(2) + "\n");
}

}  // namespace

std::string key_lines(const KeySection& section) {
  constexpr size_t widest = 40;  // longer names push their description aside
  size_t width = 0;
  const auto name = [&](const KeyDescription& d) {
    return section.name.empty() ? d.key : d.key.substr(section.name.size() + 1);
  };
  for (const KeyDescription& d : section.keys)
    if (!d.repeated) width = std::clamp(name(d).size(), width, widest);
  const std::string title =
      (section.name.empty() ? "scenario" : section.name) + ": " + section.description;
  std::string text = clipped(title, page_width) + "\n";
  for (const KeyDescription& d : section.keys) {
    if (d.repeated) continue;
    const std::string head = fmt::format("{} {:<{}}  ", d.modelled ? ' ' : '-', name(d), width);
    text += head + clipped(d.description, page_width - std::min(head.size(), page_width)) + "\n";
  }
  return text;
}

int explain(const std::vector<std::string>& names, const std::string& json_file) {
  std::vector<KeyDescription> keys;
  std::string text;
  for (const std::string& name : names) {
    const KeySection* section = name.empty() ? nullptr : key_section(name);
    const std::vector<KeyDescription> found =
        section != nullptr ? section->keys : explain_key(name);
    keys.insert(keys.end(), found.begin(), found.end());
    text += (text.empty() ? "" : "\n") + (section != nullptr ? key_lines(*section) : blocks(found));
  }
  if (names.empty()) {
    text = section_names();
    for (const KeySection& section : key_sections())
      keys.insert(keys.end(), section.keys.begin(), section.keys.end());
  }
  if (!json_file.empty()) write_json(json_file, keys);
  if (json_file != "-") write_all("-", text);
  return 0;
}

}  // namespace stepsim::app
