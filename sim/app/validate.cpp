// `stepsim validate`: predictions against what others measured.
#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/study/validate_collectives.h"

namespace stepsim::app {

int validate(const ValidateOptions& options) {
  if (options.collectives.empty())
    throw Error(std::string(command_line_name), "/--collectives",
                "is required: a CSV file of measured collectives");
  if (!options.json_file.empty() && same_file(options.json_file, options.collectives))
    throw Error(std::string(command_line_name), "/--json",
                "would overwrite the rows in '" + printable(options.collectives) + "'");
  const CollectiveValidation validation = validate_collectives(options.collectives, find_data());
  Output json(options.json_file);
  if (json.asked()) {
    json.stream() << validation_json(validation);
    json.close();
  }
  if (!json.standard()) write_all("-", validation_text(validation));
  return 0;
}

}  // namespace stepsim::app
