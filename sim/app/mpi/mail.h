// Letters between the processes of a job: bytes with a sender and a subject. Nothing here waits,
// so a process that died holds nobody up.
#pragma once

#include <mpi.h>

#include <list>
#include <optional>
#include <string>

namespace stepsim::app {

enum class Subject : int { hello = 1, errand, answer, alive, stop, bye, end };

struct Letter {
  int from = 0;
  Subject subject = Subject::alive;
  std::string text;
};

/// One thread uses it at a time.
class Mail {
 public:
  void send(int to, Subject subject, std::string text = {});
  std::optional<Letter> next();
  /// Forgets what has left; true when everything has.
  bool sent();

 private:
  struct Leaving {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::list<Leaving> leaving_;
};

}  // namespace stepsim::app
