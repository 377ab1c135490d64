// `diff` and `bisect`: what their words ask for.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace stepsim::app {

/// Options of `diff` and `bisect`.
struct DiffWords {
  std::vector<std::string> inputs;  ///< A, B and section.key=value, in any order
  std::string cluster, dialect;
  std::string json_file, trace_file, html_file;
  bool markdown = false, exact = false;
  std::string fail_above;            ///< "2%" or "50 ms"
  std::vector<std::string> fail_on;  ///< silent, error, does-not-fit
  std::string share = "90%";         ///< of bisect
};

void add_diff(CLI::App& app, DiffWords& words);
void add_bisect(CLI::App& app, DiffWords& words);

/// 0 ok; 1 misses a limit, does not fit or cannot finish; throws Error on bad input, and returns 2
/// where a file of two folders is.
int diff(const DiffWords& words);
int bisect(const DiffWords& words);

}  // namespace stepsim::app
