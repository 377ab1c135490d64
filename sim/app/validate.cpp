// `stepsim validate`: predictions against what others measured.
#include <array>
#include <utility>

#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/study/scatter.h"
#include "sim/study/validate_collectives.h"
#include "sim/study/validate_kernels.h"
#include "sim/study/validate_steps.h"

namespace stepsim::app {

namespace {

template <typename Validation>
void write_validation(const Validation& validation, const std::string& json_file) {
  Output json(json_file);
  if (json.asked()) {
    json.stream() << validation_json(validation);
    json.close();
  }
  if (!json.standard()) write_all("-", validation_text(validation));
}

}  // namespace

int validate(const ValidateOptions& options) {
  const std::array<std::pair<const char*, const std::string*>, 3> inputs{
      {{"/--collectives", &options.collectives},
       {"/--kernels", &options.kernels},
       {"/--rows", &options.rows}}};
  const std::string* file = nullptr;
  for (const auto& [flag, name] : inputs) {
    if (name->empty()) continue;
    if (file != nullptr)
      throw Error(std::string(command_line_name), flag, "cannot be combined with another table");
    file = name;
  }
  if (file == nullptr)
    throw Error(std::string(command_line_name), "/--collectives",
                "is required: a CSV file of measured collectives; or --kernels, measured kernels; "
                "or --rows, measured steps");
  if (!options.json_file.empty() && same_file(options.json_file, *file))
    throw Error(std::string(command_line_name), "/--json",
                "would overwrite the rows in '" + printable(*file) + "'");
  if (!options.svg_file.empty() && options.rows.empty())
    throw Error(std::string(command_line_name), "/--svg", "needs --rows: it shows measured steps");
  if (!options.svg_file.empty() && same_file(options.svg_file, *file))
    throw Error(std::string(command_line_name), "/--svg",
                "would overwrite the rows in '" + printable(*file) + "'");
  const DataPaths data = find_data();
  if (!options.rows.empty()) {
    const StepValidation validation = validate_steps(*file, data, 1, options.cluster);
    if (!options.svg_file.empty())
      write_all(options.svg_file,
                scatter_svg(validation.rows, "Predicted against measured: " + printable(*file)));
    if (options.svg_file != "-") write_validation(validation, options.json_file);
  } else if (!options.kernels.empty())
    write_validation(validate_kernels(*file, data), options.json_file);
  else
    write_validation(validate_collectives(*file, data), options.json_file);
  return 0;
}

}  // namespace stepsim::app
