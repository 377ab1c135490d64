// Predicted against measured as one page for a browser, which loads nothing: a scatter by group,
// the worst rows first, signed errors.
#pragma once

#include <string>
#include <string_view>

namespace stepsim {

/// `json`: of validation_json, for steps, kernels or collectives, as `what` says in the plural.
std::string validation_html(std::string_view json, std::string_view what, const std::string& file);

}  // namespace stepsim
