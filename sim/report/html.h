// The report as one self-contained HTML page: style, program and data in one file that asks no
// network for anything.
#pragma once

#include <string>
#include <string_view>

#include "sim/engine/timeline.h"
#include "sim/report/report.h"

namespace stepsim {

/// The page of one step. Ends with a newline; same input, same bytes.
std::string report_html(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline,
                        const Report& report);
/// The data block alone: JSON, one value.
std::string page_data(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline,
                      const Report& report);
/// Of it the title and the timeline of blocks: one side of a comparison.
std::string side_data(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline,
                      const Report& report);
/// A page around `data`, JSON text of any origin: nothing in it can end the block that holds it.
/// `program`: the script that draws it, of sim/report/page.
std::string html_page(std::string_view data, std::string_view program);

/// Sources of the page, built in: files of sim/report/page, module words removed from scripts.
/// What all pages share, then the program of each kind.
enum class PagePart { skeleton, style, parts, report, diff, sweep, plan, validation };
std::string_view page_part(PagePart part);

}  // namespace stepsim
