// GPUs of one kind differ. All of them meet in every step, so the slowest sets its pace.
#pragma once

namespace stepsim {

/// Expected largest of `count` independent standard normal numbers (Blom 1958: the quantile at
/// (count - 3/8) / (count + 1/4)); 0 for one.
double expected_largest(int count);

}  // namespace stepsim
