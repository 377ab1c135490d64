#include "sim/study/validation_html.h"

#include <nlohmann/json.hpp>

#include "sim/report/html.h"
#include "sim/report/json_parts.h"

namespace stepsim {

std::string validation_html(std::string_view json, std::string_view what, const std::string& file) {
  const Json out{{"schema", "stepsim.page/1"},
                 {"kind", "validation"},
                 {"version", STEPSIM_VERSION},
                 {"what", what},
                 {"file", file}};
  std::string data = out.dump(-1, ' ', true, Json::error_handler_t::replace);
  data.back() = ',';
  data += R"("validation":)";
  data += json;
  data += "}";
  return html_page(data, page_part(PagePart::validation));
}

}  // namespace stepsim
