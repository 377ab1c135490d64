#include "sim/config/doubts.h"

#include <system_error>

#include "sim/config/device_read.h"

namespace stepsim {

Doubts read_doubts(const std::filesystem::path& root) {
  const std::filesystem::path path = root / "hardware/measurements/doubts.json";
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return std::nullopt;
  const Document document = load_document(path);
  const Reader top(document, "");
  const Reader from = top.child("doubts");
  ByDoubt doubts{};
  for (const DoubtRow& row : doubt_rows)
    doubts[static_cast<size_t>(row.doubt)] = from.required_number(std::string(row.key), 0, 2);
  from.refuse_unused();
  top.use("description");
  annotations(top);
  return doubts;
}

}  // namespace stepsim
