// One process.
#include "sim/app/processes.h"
#include "sim/study/workers.h"

namespace stepsim::app {

struct Processes::Job {};

Processes::Processes(int&, char**&) {}
Processes::~Processes() = default;
bool Processes::leads() const { return true; }
int Processes::serve() { return 0; }
Crew Processes::crew(int threads, const DataPaths& data) {
  return crew_of_threads(threads > 0 ? static_cast<size_t>(threads) : core_count(), data);
}
int Processes::leave(int exit_code) { return exit_code; }

}  // namespace stepsim::app
