#include "sim/study/csv.h"

#include <doctest/doctest.h>

#include "sim/base/error.h"

using namespace stepsim;

namespace {

/// What parsing says: file:line and message, or "" when it is content.
std::string complaint_of_csv(const std::string& text) {
  try {
    for (const CsvRow& row : parse_csv(text, "rows.csv", {"a"})) number_in(row, "a", "rows.csv");
  } catch (const Error& error) {
    return error.file() + ":" + error.pointer() + " " + error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("csv: quotes, line breaks inside them, CRLF, a byte-order mark, empty lines") {
  const std::vector<CsvRow> rows = parse_csv(
      "\xef\xbb\xbf"
      "a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\r\n3,\n",
      "rows.csv", {"a", "b"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].line == 2);
  CHECK(rows[0].at("b") == "x, \"y\"\nz");
  CHECK(rows[1].line == 5);
  CHECK(rows[1].at("a") == "3");
  CHECK(rows[1].at("b").empty());
  CHECK(rows[1].at("no such column").empty());
  CHECK(number_in(rows[1], "b", "rows.csv") == 0);
}

TEST_CASE("csv: what is wrong, with file and line") {
  CHECK(complaint_of_csv("a\n1.5e3\n") == "");
  CHECK(complaint_of_csv("") == "rows.csv:1:1 expected a header line with column names");
  CHECK(complaint_of_csv("b\n1\n") == "rows.csv:1:1 has no column 'a'");
  CHECK(complaint_of_csv("a,b\n1,2\n1\n") == "rows.csv:3:1 expected 2 fields; got 1");
  CHECK(complaint_of_csv("a\n1\n\"2\n") == "rows.csv:3:1 a quote that opens here is never closed");
  for (const char* value : {"x", "-1", "1 MB", "inf", "nan"})
    CHECK(complaint_of_csv(std::string("a\n") + value + "\n") ==
          std::string("rows.csv:2:1 a must be a number from 0; got '") + value + "'");
}
