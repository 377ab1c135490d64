// A schedule that the scenario spells out (pipeline.order).
#include <array>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

Program spelled_program(const ScheduleShape& shape, int rank) {
  constexpr std::array kinds{ActionKind::forward, ActionKind::backward, ActionKind::backward_input,
                             ActionKind::backward_weight};
  Program list;
  for (const OrderEntry& e : shape.spelled[static_cast<size_t>(rank)])
    list.push_back(
        {kinds[static_cast<size_t>(e.kind)], static_cast<uint8_t>(e.chunk), e.microbatch});
  return with_messages(shape, rank, list);
}

}  // namespace stepsim
