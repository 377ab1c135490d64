#include "sim/study/step_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/quantity.h"
#include "sim/base/table.h"
#include "sim/config/document.h"
#include "sim/config/files.h"
#include "sim/config/reader.h"
#include "sim/study/robust_fit.h"

namespace stepsim {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::array<StepParameterRow, 6> step_parameter_rows{{
    {"sustained", "", 0.3, 1, 0.005, 1, [](Cluster& c, double x) { c.device.sustained = x; }},
    {"clock_factor", "", 0.3, 1.2, 0.005, 1,
     [](Cluster& c, double x) { c.stack.clock_factor = x; }},
    {"attention_factor", "", 0.1, 1.5, 0.01, 1,
     [](Cluster& c, double x) { c.stack.attention_factor = x; }},
    {"memory_factor", "", 0.2, 1.2, 0.01, 1,
     [](Cluster& c, double x) { c.stack.memory_factor = x; }},
    {"dispatch", "us", 5, 400, 1, 1e-6,
     [](Cluster& c, double x) { c.stack.dispatch = {x * 1e-6}; }},
    {"step_overhead", "ms", 0.1, 500, 0.1, 1e-3,
     [](Cluster& c, double x) { c.stack.step_overhead = {x * 1e-3}; }},
}};

double number_at(const Document& document, const std::string& pointer,
                 const StepParameterRow& row) {
  const size_t slash = pointer.rfind('/');
  const Reader from(document, pointer.substr(0, slash));
  const std::string key = pointer.substr(slash + 1);
  if (row.unit.empty()) return from.required_number(key, 1e-9, 1e9);
  return written(from.required_quantity(key, Dimension::time) / row.scale, 1e-6);
}

StepPlace place_of(const std::string& file, const std::string& pointer, const Document& document) {
  StepPlace place{file, pointer, {}, {}, {}};
  const std::string above = pointer.substr(0, pointer.rfind('/'));
  const Reader holder(document, above);
  (above.find("/stacks/") == std::string::npos ? place.device : place.stack) =
      holder.required_string("name");
  if (place.device.empty()) place.system = fs::path(file).stem().string();
  return place;
}

/// "h100, h200", "of 13 systems".
std::string places_text(const std::vector<StepPlace>& places) {
  std::string text;
  for (const StepPlace& place : places) {
    const std::string word = place.device.empty() ? place.system : place.device;
    if (text.find(word) == std::string::npos) text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

}  // namespace

const StepParameterRow* step_parameter_row(std::string_view key) {
  for (const StepParameterRow& row : step_parameter_rows)
    if (row.key == key) return &row;
  return nullptr;
}

bool StepParameter::decides(const Scenario& scenario) const {
  const Cluster& c = scenario.cluster;
  return std::any_of(places.begin(), places.end(), [&](const StepPlace& place) {
    return place.device.empty() ? place.system == c.system && place.stack == c.stack.name
                                : place.device == c.device.name;
  });
}

void StepParameter::set(Cluster& cluster, double to) const { row->set(cluster, to); }

std::vector<StepParameter> shipped_step_parameters(const DataPaths& data) {
  const Document document = load_document(data.root / "hardware/measurements/steps.json");
  const Reader top(document, "");
  std::vector<std::string> keys;
  for (const StepParameterRow& row : step_parameter_rows) keys.emplace_back(row.key);
  std::vector<StepParameter> parameters;
  for (const Reader& from : top.children("parameters")) {
    StepParameter& parameter = parameters.emplace_back();
    from.required_string("key");
    const std::string key = from.choice("key", "", keys);
    parameter.row = step_parameter_row(key);
    for (const std::string& text : from.strings("places")) {
      const size_t hash = text.find('#');
      if (hash == std::string::npos)
        from.fail("places", "must be FILE#/POINTER, as gpus/h100.json#/sustained; got '" +
                                printable(text) + "'");
      const std::string file = text.substr(0, hash), pointer = text.substr(hash + 1);
      const Document place = load_document(data.root / "hardware" / file);
      parameter.places.push_back(place_of(file, pointer, place));
      const double value = number_at(place, pointer, *parameter.row);
      if (parameter.places.size() > 1 && value != parameter.value)
        throw Error(
            place.file, pointer,
            "must be what " + from.strings("places").front() + " is: they are one parameter");
      parameter.value = value;
    }
    if (parameter.places.empty()) from.fail("places", "is missing; expected FILE#/POINTER");
    parameter.name = from.string("name", places_text(parameter.places));
    for (const char* note : {"source", "notes"}) from.use(note);
    from.refuse_unused();
  }
  for (const char* note : {"description", "source", "notes"}) top.use(note);
  top.refuse_unused();
  return parameters;
}

std::vector<StepParameter> system_step_parameters(const Located& system,
                                                  const std::map<std::string, double>& stacks,
                                                  const DataPaths& data) {
  const Document document = load_document(system.file);
  const Reader top(document, system.pointer);
  const std::string name =
      system.pointer.empty() ? system.file.stem().string() : system.pointer.substr(1);
  const Cluster cluster =
      read_cluster(system.pointer.empty() ? system.file.string() : name, 1, "", data);
  std::vector<StepParameter> parameters{
      {.name = cluster.device.name,
       .row = step_parameter_row("sustained"),
       .places = {{system.file.string(), "/gpu/sustained", cluster.device.name, {}, {}}},
       .value = cluster.device.sustained}};
  const std::vector<Reader> profiles = top.children("stacks");
  for (size_t i = 0; i < profiles.size(); ++i) {
    const std::string stack = profiles[i].required_string("name");
    if (!stacks.contains(stack)) continue;
    const StepParameterRow* row = step_parameter_row("dispatch");
    parameters.push_back({.name = stack,
                          .row = row,
                          .places = {{system.file.string(),
                                      fmt::format("/stacks/{}/dispatch", i),
                                      {},
                                      cluster.system,
                                      stack}},
                          .value = written(stacks.at(stack) / row->scale, 1e-6)});
  }
  return parameters;
}

}  // namespace stepsim
