#include <fmt/format.h>

#include "sim/report/page.h"
#include "sim/study/lesson.h"

namespace stepsim {
namespace {

constexpr size_t whole = 20;  // lines of a paragraph; texts are shorter

std::string cell(const std::optional<double>& value, const std::string& unit) {
  if (!value) return "-";
  if (unit == "ms") return fmt::format("{:.2f} ms", *value * 1e3);
  if (unit == "%") return fmt::format("{:.1f} %", *value * 100);
  if (unit == "GiB") return fmt::format("{:.2f} GiB", *value / gib);
  if (unit == "bool") return *value != 0 ? "true" : "false";
  return fmt::format("{:g}", *value);
}

std::string choice(const Lesson& lesson, size_t place) {
  return fmt::format("{}) {}", static_cast<char>('a' + place), lesson.choices[place]);
}

void write_table(Page& page, const Lesson& lesson, const LessonValues& values) {
  std::string head = fmt::format("{:<30}", "");
  for (const LessonFigure& f : lesson.figures) head += fmt::format("{:>16}", f.name);
  page.line("{}", head);
  for (size_t c = 0; c < lesson.cases.size(); ++c) {
    std::string line = fmt::format("{:<30}", lesson.cases[c].name);
    for (size_t f = 0; f < lesson.figures.size(); ++f)
      line += fmt::format("{:>16}", cell(values[c][f], lesson.figures[f].unit));
    page.line("{}", line);
  }
}

}  // namespace

std::string question_text(const Lesson& lesson) {
  Page page(page_width);
  page.line("Lesson {}: {}", lesson.number, lesson.title);
  page.blank();
  page.paragraph("", lesson.question, whole);
  page.blank();
  for (size_t i = 0; i < lesson.choices.size(); ++i) page.paragraph("  ", choice(lesson, i), whole);
  page.blank();
  page.line("Guess first:  stepsim lesson {} a", lesson.number);
  return page.text();
}

std::string answer_text(const Lesson& lesson, const LessonValues& values, size_t guess) {
  Page page(page_width);
  page.line("Lesson {}: {}", lesson.number, lesson.title);
  page.blank();
  write_table(page, lesson, values);
  page.blank();
  if (guess == lesson.answer) {
    page.paragraph("Right.  ", choice(lesson, lesson.answer), whole);
  } else {
    page.paragraph("Guessed ", choice(lesson, guess), whole);
    page.paragraph("It is   ", choice(lesson, lesson.answer), whole);
  }
  page.blank();
  page.paragraph("Why     ", lesson.law, whole);
  page.paragraph("Source  ", lesson.source, whole);
  page.blank();
  std::string example = "train.global_batch_size=16";
  for (const LessonCase& c : lesson.cases)
    if (c.change.size() == 1) example = c.change[0];
  page.paragraph(
      "Try     ",
      fmt::format("words after the letter add a row of yours, such as {}; the scenario is "
                  "in {}",
                  example, lesson.file),
      whole);
  return page.text();
}

}  // namespace stepsim
