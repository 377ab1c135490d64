// The data block of a page that the program wrote.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace stepsim::test {

/// Nothing in the page can end the block early: JSON up to the first closing tag.
inline nlohmann::json page_block(const std::string& page) {
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("<script>") == std::string::npos);
  const std::string open = "id=\"data\">";
  const size_t from = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

}  // namespace stepsim::test
