// The processes of one job. The ordinary program is one, alone; built with MPI (./dev mpi), the
// first of them leads: it reads the command line and prints, the others do errands for it.
#pragma once

#include <memory>

#include "sim/study/errands.h"

namespace stepsim::app {

class Processes {
 public:
  Processes(int& argc, char**& argv);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  bool leads() const;
  /// Of those that do not lead: answers errands until the leader leaves.
  int serve();
  /// Of the leader: everybody's threads, `threads` in each process; 0: the cores that it may use.
  Crew crew(int threads, const DataPaths& data);
  /// Of the leader, last of all: lets the others go. Returns the exit code.
  int leave(int exit_code);

 private:
  struct Job;
  std::unique_ptr<Job> job_;
};

}  // namespace stepsim::app
