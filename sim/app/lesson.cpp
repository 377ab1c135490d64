// `stepsim lesson`: a question, a guess, what the engine says.
#include "sim/study/lesson.h"

#include <fmt/format.h>

#include "sim/app/columns.h"
#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"

namespace stepsim::app {

int lesson(const LessonOptions& options) {
  const DataPaths data = find_data();
  const std::vector<Lesson> lessons = read_lessons(data);
  const auto count = static_cast<int>(lessons.size());
  if (options.number == 0) {
    std::string text;
    for (const Lesson& l : lessons) text += fmt::format("{:>3}  {}\n", l.number, l.title);
    write_all("-", text + "\nstepsim lesson 1 asks; stepsim lesson 1 b answers\n");
    return 0;
  }
  if (options.number > count)
    throw Error("<command line>", "/number",
                fmt::format("there are lessons 1 to {}; got {}", count, options.number));
  Lesson chosen = lessons[static_cast<size_t>(options.number - 1)];
  if (options.guess.empty()) {
    write_all("-", question_text(chosen));
    return 0;
  }
  const auto guess = static_cast<size_t>(options.guess[0] - 'a');
  if (options.guess.size() != 1 || guess >= chosen.choices.size())
    throw Error("<command line>", "/guess",
                fmt::format("must be a letter from a to {}; got '{}'",
                            static_cast<char>('a' + chosen.choices.size() - 1), options.guess));
  if (!options.overrides.empty()) chosen.cases.push_back({"yours", options.overrides});
  write_all("-", answer_text(chosen, run_lesson(chosen, data), guess));
  return 0;
}

}  // namespace stepsim::app
