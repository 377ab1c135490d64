// Low-rank adapters beside frozen linear modules (Megatron-Bridge peft/lora.py).
#pragma once

namespace stepsim {

/// LoRA: every weight of the model is frozen, only the adapters of these modules are trained.
struct Adapters {
  int rank = 0;        ///< peft.dim; 0: no adapters, and nothing is frozen
  double dropout = 0;  ///< of an adapter's input or output
  bool qkv = false, proj = false, fc1 = false, fc2 = false;
  bool present() const { return rank > 0; }
};

}  // namespace stepsim
