#include "sim/config/starting_layout.h"

#include "sim/config/device_read.h"
#include "sim/config/reader.h"

namespace stepsim {

StartingLayout read_starting_layout(const Reader& model) {
  const Reader from = model.child("starting_layout");
  if (!from.present()) return {};
  const auto size = [&](const char* key) { return from.integer(key, 1, {1, 1 << 20}); };
  const StartingLayout layout{size("tensor_model_parallel_size"),
                              size("pipeline_model_parallel_size"),
                              size("expert_model_parallel_size"), size("context_parallel_size")};
  annotations(from);
  return layout;
}

}  // namespace stepsim
