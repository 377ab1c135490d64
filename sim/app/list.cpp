#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/app/columns.h"
#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/explain.h"
#include "sim/config/files.h"
#include "sim/config/kernel_times.h"
#include "sim/config/overlap.h"
#include "sim/config/read.h"
#include "sim/network/algorithm.h"
#include "sim/parallel/schedule.h"

namespace stepsim::app {
namespace {

std::string kernel_description(OpKind op) {
  for (const KernelKindRow& kind : kernel_kinds())
    if (kind.holds(op)) return "one of: " + std::string(kind.name);
  return "of a kind of its own";
}

}  // namespace

int list(const std::string& what) {
  static const std::array<std::string, 9> catalogues{"models",  "clusters",  "scenarios",
                                                     "recipes", "schedules", "collectives",
                                                     "kernels", "presets",   "keys"};
  std::vector<CatalogueRow> rows;
  if (what == "models") {
    rows = list_models(find_data());
  } else if (what == "clusters") {
    rows = list_clusters(find_data());
  } else if (what == "scenarios") {
    rows = list_scenarios(find_data());
  } else if (what == "recipes") {
    rows = list_recipes(find_data());
  } else if (what == "schedules") {
    for (const ScheduleRow& row : schedule_rows())
      rows.push_back({std::string(row.name), std::string(row.description)});
  } else if (what == "collectives") {
    for (const Algorithm& row : algorithms())
      rows.push_back({std::string(row.name), std::string(row.description)});
  } else if (what == "kernels") {
    for (const KernelKindRow& kind : kernel_kinds())
      rows.push_back({std::string(kind.name), std::string(kind.description)});
    for (const OpRow& op : op_rows)
      if (is_kernel(op.op)) rows.push_back({std::string(op.name), kernel_description(op.op)});
  } else if (what == "presets") {
    for (const std::string& preset : preset_names())
      rows.push_back({preset, preset_purpose(preset)});
  } else if (what == "keys") {
    std::string text;
    for (const KeySection& section : key_sections()) text += key_lines(section) + "\n";
    write_all("-", text + "- before a key: known and accepted, not simulated\n");
    return 0;
  } else {
    throw Error("<command line>", "/list",
                fmt::format("unknown catalogue '{}'{}", what, suggestion(what, catalogues)));
  }
  size_t width = 0;
  for (const CatalogueRow& row : rows) width = std::max(width, row.name.size());
  std::string text;
  for (const CatalogueRow& row : rows)
    text += fmt::format("{:<{}}  {}\n", row.name, width,
                        clipped(row.description, page_width - std::min(width + 2, page_width)));
  write_all("-", text);
  return 0;
}

}  // namespace stepsim::app
