// Where a guide starts a model's layout: advice to compare with, it moves no result.
#pragma once

namespace stepsim {

class Reader;

/// Sizes of the groups; 0: nothing is said of this model.
struct StartingLayout {
  int tp = 0, pp = 0, ep = 0, cp = 0;
  bool present() const { return tp > 0; }
};
/// `starting_layout` of a model's file.
StartingLayout read_starting_layout(const Reader& model);

}  // namespace stepsim
