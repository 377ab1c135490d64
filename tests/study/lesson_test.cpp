#include "sim/study/lesson.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

using namespace stepsim;

TEST_CASE("law: what every lesson claims holds on the engine") {
  const DataPaths data = find_data();
  const std::vector<Lesson> lessons = read_lessons(data);
  CHECK(lessons.size() == 12);
  const bool quick = std::getenv("STEPSIM_QUICK") != nullptr;
  for (const Lesson& lesson : lessons) {
    CAPTURE(lesson.title);
    CHECK(lesson.choices.size() >= 2);
    CHECK(!lesson.claims.empty());
    if (quick && lesson.number % 3 != 0) continue;
    for (const std::string& broken : broken_claims(lesson, run_lesson(lesson, data)))
      FAIL_CHECK(broken);
  }
}

TEST_CASE("a claim that does not hold is found, each kind of it") {
  Lesson lesson;
  lesson.cases = {{"a", {}}, {"b", {}}};
  lesson.figures = {{"x", "", ""}};
  const LessonValues values{{2.0}, {4.0}};
  using Kind = LessonClaim::Kind;
  struct Case {
    Kind kind;
    double holds, fails;
  };
  // Of b, whose value is 4, against a's 2.
  for (const Case& c : {Case{Kind::equals, 4, 4.001}, Case{Kind::equals_times, 2, 2.001},
                        Case{Kind::above, 1.999, 2}, Case{Kind::below, 2.001, 2},
                        Case{Kind::above_number, 3.999, 4}}) {
    LessonClaim claim{.kind = c.kind, .which = 1, .figure = 0, .other = 0, .number = c.holds};
    lesson.claims = {claim};
    CHECK(broken_claims(lesson, values).empty());
    lesson.claims[0].number = c.fails;
    CHECK(broken_claims(lesson, values).size() == 1);
  }
  // A figure that the report lacks bears out nothing.
  CHECK(broken_claims(lesson, {{2.0}, {std::nullopt}}).size() == 1);
}
