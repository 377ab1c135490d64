#include "sim/study/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/document.h"

namespace stepsim {
namespace {

struct Record {
  int line = 0;
  std::vector<std::string> fields;
};

[[noreturn]] void refuse(const std::string& file, int line, const std::string& message) {
  throw Error(file, std::to_string(line) + ":1", message);
}

std::vector<Record> records_of(std::string_view text, const std::string& file) {
  std::vector<Record> records;
  Record record;
  std::string field;
  int line = 1;
  bool quoted = false, begun = false;
  const auto end_field = [&] {
    record.fields.push_back(std::move(field));
    field.clear();
  };
  const auto end_record = [&] {
    if (begun) {
      end_field();
      records.push_back(std::move(record));
    }
    record = {};
    begun = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!begun && c != '\n' && c != '\r') record.line = line, begun = true;
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"')
        field += '"', ++i;
      else if (c == '"')
        quoted = false;
      else
        field += c;
    } else if (c == '"' && field.empty()) {
      quoted = true;
    } else if (c == ',') {
      end_field();
    } else if (c == '\n') {
      end_record();
    } else if (c != '\r') {
      field += c;
    }
    if (c == '\n') ++line;
  }
  if (quoted) refuse(file, record.line, "a quote that opens here is never closed");
  end_record();
  return records;
}

}  // namespace

const std::string& CsvRow::at(std::string_view column) const {
  static const std::string empty;
  const auto found = fields.find(column);
  return found == fields.end() ? empty : found->second;
}

std::vector<CsvRow> parse_csv(const std::string& text, const std::string& file,
                              const std::vector<std::string>& required) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  std::string_view rest = text;
  if (rest.starts_with(mark)) rest.remove_prefix(mark.size());
  const std::vector<Record> records = records_of(rest, file);
  if (records.empty()) refuse(file, 1, "expected a header line with column names");
  const std::vector<std::string>& header = records[0].fields;
  for (const std::string& column : required)
    if (std::find(header.begin(), header.end(), column) == header.end())
      refuse(file, records[0].line, "has no column '" + column + "'");
  std::vector<CsvRow> rows;
  for (size_t i = 1; i < records.size(); ++i) {
    const Record& record = records[i];
    if (record.fields.size() != header.size())
      refuse(file, record.line,
             "expected " + std::to_string(header.size()) + " fields; got " +
                 std::to_string(record.fields.size()));
    CsvRow& row = rows.emplace_back();
    row.line = record.line;
    for (size_t f = 0; f < header.size(); ++f) row.fields[header[f]] = record.fields[f];
  }
  return rows;
}

double number_in(const CsvRow& row, std::string_view column, const std::string& file) {
  const std::string& text = row.at(column);
  double value = 0;
  if (text.empty()) return 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0)
    refuse(file, row.line,
           std::string(column) + " must be a number from 0; got '" + printable(text) + "'");
  return value;
}

}  // namespace stepsim
