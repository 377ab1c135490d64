// `stepsim validate`: predictions against what others measured.
#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/study/validate_collectives.h"
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
  const bool steps = !options.rows.empty();
  if (!steps && options.collectives.empty())
    throw Error(std::string(command_line_name), "/--collectives",
                "is required: a CSV file of measured collectives; or --rows, measured steps");
  if (steps && !options.collectives.empty())
    throw Error(std::string(command_line_name), "/--rows", "cannot be combined with --collectives");
  const std::string& file = steps ? options.rows : options.collectives;
  if (!options.json_file.empty() && same_file(options.json_file, file))
    throw Error(std::string(command_line_name), "/--json",
                "would overwrite the rows in '" + printable(file) + "'");
  if (steps)
    write_validation(validate_steps(file, find_data()), options.json_file);
  else
    write_validation(validate_collectives(file, find_data()), options.json_file);
  return 0;
}

}  // namespace stepsim::app
