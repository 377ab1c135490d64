// Lessons: a question about training at scale, a few simulated cases that answer it, and the law
// behind. They are files of scenarios/lessons; what each claims is checked against the engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/config/read.h"

namespace stepsim {

/// A variant of the lesson's scenario.
struct LessonCase {
  std::string name;
  std::vector<std::string> change;  ///< "section.key=value" words
};

/// A figure of the report.
struct LessonFigure {
  std::string name, pointer;  ///< JSON pointer into stepsim.report/1
  std::string unit;           ///< ms, %, GiB, bool or nothing
};

/// What a figure of a case must be: `equals`, or by the same figure of another case.
struct LessonClaim {
  enum class Kind { equals, equals_times, above, below, above_number };
  Kind kind = Kind::equals;
  size_t which = 0, figure = 0, other = 0;  ///< places in `cases` and `figures`
  double number = 1;                        ///< the value, or the factor of the other case's
  double within = 1e-6;                     ///< relative
};

struct Lesson {
  int number = 0;  ///< from 1
  std::string file, title, question, law, source;
  std::vector<std::string> choices;
  size_t answer = 0;     ///< place in `choices`
  std::string scenario;  ///< JSON text
  std::vector<LessonCase> cases;
  std::vector<LessonFigure> figures;
  std::vector<LessonClaim> claims;
};

/// All lessons in order; throws Error where a file is not one.
std::vector<Lesson> read_lessons(const DataPaths& data);

/// Figures by case; absent where the report has none.
using LessonValues = std::vector<std::vector<std::optional<double>>>;
/// Simulates every case of the lesson.
LessonValues run_lesson(const Lesson& lesson, const DataPaths& data);
/// The claims that the values do not bear out, in words.
std::vector<std::string> broken_claims(const Lesson& lesson, const LessonValues& values);

/// The question and its choices.
std::string question_text(const Lesson& lesson);
/// The table of cases, the answer and the law. `guess`: place in `choices`.
std::string answer_text(const Lesson& lesson, const LessonValues& values, size_t guess);

}  // namespace stepsim
