#include "sim/app/mpi/mail.h"

#include <limits>

namespace stepsim::app {

void Mail::send(int to, Subject subject, std::string text) {
  sent();
  Leaving& one = leaving_.emplace_back(Leaving{.text = std::move(text)});
  MPI_Isend(one.text.data(), static_cast<int>(one.text.size()), MPI_BYTE, to,
            static_cast<int>(subject), MPI_COMM_WORLD, &one.request);
}

std::optional<Letter> Mail::next() {
  int there = 0, size = 0;
  MPI_Status status{};
  if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status) != MPI_SUCCESS ||
      there == 0)
    return {};
  MPI_Get_count(&status, MPI_BYTE, &size);
  Letter letter{.from = status.MPI_SOURCE,
                .subject = static_cast<Subject>(status.MPI_TAG),
                .text = std::string(static_cast<size_t>(size), '\0')};
  if (MPI_Recv(letter.text.data(), size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
               MPI_COMM_WORLD, &status) != MPI_SUCCESS)
    return {};
  return letter;
}

bool Mail::sent() {
  std::erase_if(leaving_, [](Leaving& one) {
    int left = 0;
    return MPI_Test(&one.request, &left, MPI_STATUS_IGNORE) != MPI_SUCCESS || left != 0;
  });
  return leaving_.empty();
}

}  // namespace stepsim::app
