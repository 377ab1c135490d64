// Comma-separated values with a header line: quotes, doubled quotes, line breaks inside quotes,
// CRLF and a byte-order mark are understood (RFC 4180).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

/// One record, by column name.
struct CsvRow {
  int line = 0;  ///< on which it starts, from 1
  std::map<std::string, std::string, std::less<>> fields;

  const std::string& at(std::string_view column) const;
};

/// All records. Refuses a missing header, a record of another length and an open quote, with file
/// and line; `required` are the columns that the header must name.
std::vector<CsvRow> parse_csv(const std::string& text, const std::string& file,
                              const std::vector<std::string>& required);

/// A number in `column`, 0 when it is empty; below 0 or no number is an Error that names file and
/// line.
double number_in(const CsvRow& row, std::string_view column, const std::string& file);

}  // namespace stepsim
