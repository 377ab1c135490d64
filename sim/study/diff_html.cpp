// A difference as one page that needs nothing else: what sim/report/page/diff.js draws.
#include <nlohmann/json.hpp>

#include "sim/report/html.h"
#include "sim/report/json_parts.h"
#include "sim/study/diff_text.h"

namespace stepsim {
namespace {

Json words_json(const Diff& d) {
  Json changes = Json::array();
  for (const ChangeShare& share : d.by_change)
    changes.push_back(
        {{"change", diff_words::change(d, share)}, {"also", diff_words::consequences(d, share)}});
  return {{"a", d.a.scenario.file},
          {"b", d.b.scenario.file},
          {"by_change", std::move(changes)},
          {"method", diff_words::method(d)},
          {"memory", diff_words::memory(d)}};
}

std::string side_of(const DiffSide& side) {
  return side_data(side.scenario, side.run->lowered, side.run->timeline, side.report);
}

}  // namespace

std::string diff_html(const Diff& d, const std::vector<std::string>& missed) {
  assert(d.a.run && d.b.run);
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', true, Json::error_handler_t::replace);
  };
  const std::string data = R"({"schema":"stepsim.page/1","kind":"diff","words":)" +
                           text(words_json(d)) + ",\"missed\":" + text(missed) + ",\"sides\":[" +
                           side_of(d.a) + "," + side_of(d.b) + "],\"diff\":" + diff_json(d) + "}";
  return html_page(data, page_part(PagePart::diff));
}

}  // namespace stepsim
