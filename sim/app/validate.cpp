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
#include "sim/study/validation_html.h"

namespace stepsim::app {

namespace {

template <typename Validation>
void write_validation(const Validation& validation, const ValidateOptions& options,
                      const char* what, const std::string& file) {
  Output json(options.json_file), html(options.html_file);
  if (json.asked()) {
    json.stream() << validation_json(validation);
    json.close();
  }
  if (html.asked()) {
    html.stream() << validation_html(validation_json(validation), what, file);
    html.close();
  }
  if (!json.standard() && !html.standard() && options.svg_file != "-")
    write_all("-", validation_text(validation));
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
  if (!options.svg_file.empty() && options.rows.empty())
    throw Error(std::string(command_line_name), "/--svg", "needs --rows: it shows measured steps");
  const std::array<std::pair<const char*, const std::string*>, 3> outputs{
      {{"/--json", &options.json_file},
       {"/--svg", &options.svg_file},
       {"/--html", &options.html_file}}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [flag, output] = outputs[i];
    if (output->empty()) continue;
    if (same_file(*output, *file))
      throw Error(std::string(command_line_name), flag,
                  "would overwrite the rows in '" + printable(*file) + "'");
    for (size_t k = 0; k < i; ++k)
      if (!outputs[k].second->empty() && same_file(*output, *outputs[k].second))
        throw Error(std::string(command_line_name), flag,
                    "names the file of another output: '" + printable(*output) + "'");
  }
  const DataPaths data = find_data();
  if (!options.rows.empty()) {
    const StepValidation validation = validate_steps(*file, data, 1, options.cluster);
    if (!options.svg_file.empty())
      write_all(options.svg_file,
                scatter_svg(validation.rows, "Predicted against measured: " + printable(*file)));
    write_validation(validation, options, "steps", *file);
  } else if (!options.kernels.empty())
    write_validation(validate_kernels(*file, data), options, "kernels", *file);
  else
    write_validation(validate_collectives(*file, data), options, "collectives", *file);
  return 0;
}

}  // namespace stepsim::app
