#include "sim/study/lesson.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <variant>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"
#include "sim/report/json.h"
#include "sim/simulate.h"

namespace stepsim {
namespace {

namespace fs = std::filesystem;

/// The place of `name` among `rows`, which have names.
template <class Row>
size_t place_of(const Reader& reader, const std::string& key, const std::vector<Row>& rows) {
  const std::string name = reader.required_string(key);
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  if (found == rows.end()) reader.fail(key, "names none of them: '" + printable(name) + "'");
  return static_cast<size_t>(found - rows.begin());
}

LessonClaim read_claim(const Reader& r, const Lesson& lesson) {
  constexpr double any = std::numeric_limits<double>::max();
  LessonClaim claim;
  claim.which = place_of(r, "case", lesson.cases);
  claim.figure = place_of(r, "figure", lesson.figures);
  claim.within = r.number("within", claim.within, 0, 1);
  const auto against = [&](const char* key, LessonClaim::Kind kind) {
    claim.kind = kind;
    claim.other = place_of(r, key, lesson.cases);
    claim.number = r.number("times", 1, 0, any);
  };
  if (r.has("equals_times")) {
    against("equals_times", LessonClaim::Kind::equals_times);
  } else if (r.has("above")) {
    against("above", LessonClaim::Kind::above);
  } else if (r.has("below")) {
    against("below", LessonClaim::Kind::below);
  } else if (r.has("above_number")) {
    claim.kind = LessonClaim::Kind::above_number;
    claim.number = r.required_number("above_number", -any, any);
  } else {
    claim.number = r.required_number("equals", -any, any);
  }
  r.refuse_unused();
  return claim;
}

Lesson read_lesson(const fs::path& path, int number) {
  const Document document = load_document(path);
  const Reader r(document, "");
  Lesson lesson;
  lesson.number = number;
  lesson.file = path.string();
  lesson.title = r.required_string("title");
  lesson.question = r.required_string("question");
  lesson.law = r.required_string("law");
  lesson.source = r.required_string("source");
  lesson.choices = r.strings("choices");
  const std::string answer = r.required_string("answer");
  if (answer.size() != 1 || answer[0] < 'a' ||
      static_cast<size_t>(answer[0] - 'a') >= lesson.choices.size())
    r.fail("answer", "must be the letter of a choice");
  lesson.answer = static_cast<size_t>(answer[0] - 'a');
  lesson.scenario = r.text_of("scenario");
  for (const Reader& c : r.children("cases")) {
    lesson.cases.push_back({c.required_string("name"), c.strings("change")});
    c.refuse_unused();
  }
  for (const Reader& f : r.children("figures")) {
    lesson.figures.push_back(
        {f.required_string("name"), f.required_string("pointer"), f.string("unit", "")});
    f.refuse_unused();
  }
  for (const Reader& c : r.children("claims")) lesson.claims.push_back(read_claim(c, lesson));
  r.use("scenario");
  r.refuse_unused();
  return lesson;
}

std::optional<double> value_at(const nlohmann::json& report, const std::string& pointer) {
  const nlohmann::json::json_pointer at(pointer);
  if (!report.contains(at)) return std::nullopt;
  const nlohmann::json& value = report.at(at);
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

bool holds(const LessonClaim& c, double value, double other) {
  // Figures of nothing come out as rounding; `within` 0 asks for the same bits.
  const auto equal = [&](double expected) {
    return value == expected ||
           (c.within > 0 && std::abs(value - expected) <= c.within * std::abs(expected) + 1e-12);
  };
  switch (c.kind) {
    case LessonClaim::Kind::equals:
      return equal(c.number);
    case LessonClaim::Kind::equals_times:
      return equal(c.number * other);
    case LessonClaim::Kind::above:
      return value > c.number * other;
    case LessonClaim::Kind::below:
      return value < c.number * other;
    case LessonClaim::Kind::above_number:
      return value > c.number;
  }
  return false;
}

}  // namespace

std::vector<Lesson> read_lessons(const DataPaths& data) {
  std::vector<fs::path> paths;
  std::error_code code;
  for (fs::directory_iterator it(data.root / "scenarios" / "lessons", code), end;
       !code && it != end; it.increment(code))
    if (it->path().extension() == ".json") paths.push_back(it->path());
  std::sort(paths.begin(), paths.end());
  std::vector<Lesson> lessons;
  for (const fs::path& path : paths)
    lessons.push_back(read_lesson(path, static_cast<int>(lessons.size()) + 1));
  return lessons;
}

LessonValues run_lesson(const Lesson& lesson, const DataPaths& data) {
  LessonValues values;
  for (const LessonCase& c : lesson.cases) {
    const Scenario scenario = read_scenario_text(lesson.scenario, lesson.file, c.change, "", data);
    const auto outcome = simulate(scenario);
    const Simulation* run = std::get_if<Simulation>(&outcome);
    std::vector<std::optional<double>>& row = values.emplace_back();
    if (run == nullptr) {
      row.resize(lesson.figures.size());
      continue;
    }
    const nlohmann::json report = nlohmann::json::parse(report_json(scenario, run->report));
    for (const LessonFigure& f : lesson.figures) row.push_back(value_at(report, f.pointer));
  }
  return values;
}

std::vector<std::string> broken_claims(const Lesson& lesson, const LessonValues& values) {
  std::vector<std::string> broken;
  for (const LessonClaim& c : lesson.claims) {
    const std::optional<double> value = values[c.which][c.figure],
                                other = values[c.other][c.figure];
    const bool compares =
        c.kind != LessonClaim::Kind::equals && c.kind != LessonClaim::Kind::above_number;
    if (value && (other || !compares) && holds(c, *value, other.value_or(0))) continue;
    broken.push_back(fmt::format("{}: {} of '{}' is {:.6g}; '{}' has {:.6g}, the number is {:.6g}",
                                 lesson.title, lesson.figures[c.figure].name,
                                 lesson.cases[c.which].name, value.value_or(NAN),
                                 lesson.cases[c.other].name, other.value_or(NAN), c.number));
  }
  return broken;
}

}  // namespace stepsim
