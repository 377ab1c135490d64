// What the name of a recorded kernel tells: the kind of its work, or the class of its
// communication.
#pragma once

#include <string_view>

#include "sim/config/op_kind.h"
#include "sim/report/kineto.h"

namespace stepsim {

/// One recorded activity of a GPU. `comm` is none for what computes; `guessed`: the trace names no
/// group, so the class is that of the layout which uses such an operation.
struct RecordedKind {
  CommClass comm = CommClass::none;
  KernelClass kernel = KernelClass::elementwise;
  bool guessed = false;
};

/// Words of one event; empty where the trace has none.
struct RecordedWords {
  std::string_view category, kernel, collective, group, description;
};
/// `present`: by class, whether the layout has such communication; it decides where no group does.
RecordedKind recorded_kind(const RecordedWords& words,
                           const std::array<bool, comm_class_count>& present);

}  // namespace stepsim
