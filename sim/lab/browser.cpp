// What JavaScript calls.
#include <string>

#include "sim/lab/lab.h"

/// Zero-terminated UTF-8 in and out; the answer is good until the next call.
extern "C" const char* stepsim_answer(const char* question) {
  static std::string answer;
  answer = stepsim::lab_answer(question, {.root = "/", .more_models = {}, .more_systems = {}});
  return answer.c_str();
}
