// Predicted against measured as a picture: one self-contained SVG file, both axes logarithmic, the
// diagonal and a band of +-10 % around it, a shape and a colour for each kind of row.
#pragma once

#include <string>
#include <vector>

#include "sim/study/step_rows.h"

namespace stepsim {

/// `title` as it is; names are escaped.
std::string scatter_svg(const std::vector<MeasuredStep>& rows, const std::string& title);

}  // namespace stepsim
