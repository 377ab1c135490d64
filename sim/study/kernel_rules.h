// hardware/measurements/kernels.json: what the words of measured kernels mean here. Each list is
// searched from its start; the first rule holds whose words the row's columns contain (`op` and
// `pass`: are).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/config/read.h"
#include "sim/config/scenario.h"
#include "sim/study/csv.h"

namespace stepsim {

/// One rule; which of its fields are read depends on the list.
struct KernelRule {
  std::map<std::string, std::string> where;  ///< column to words
  std::string use, reason;
  StackProfile stack;
  // Timing.
  Seconds adds, floor;
  Seconds each;        ///< floor for each of the groups
  Seconds short_call;  ///< as long a call of a loop runs before the power limit binds
  // Shapes of GEMMs.
  std::string rows;          ///< "", "total m", "total k" or "k is m"
  double products = 1;       ///< GEMMs of one shape in the time
  int concurrent = 0;        ///< experts' GEMMs at a time; 0: one grid
  double result_bytes = 0;   ///< read and written for each result beside the product
  double input_bytes = 0;    ///< moved for each element of the first operand, as a cast does
  double operand_bytes = 0;  ///< the same of both operands
  Fp8Recipe quantize = Fp8Recipe::none;
  // Streams: bytes an element, an entry of the table that `k` counts, an element and copy.
  double element_bytes = 0, table_bytes = 0, copy_bytes = 0;
};

class KernelRules {
 public:
  explicit KernelRules(const DataPaths& data);

  std::vector<KernelRule> devices, stacks, types, left_out, libraries, timing, shapes, streams;

  /// The first of `rules` that holds for the row; null: none does.
  static const KernelRule* find(const std::vector<KernelRule>& rules, const CsvRow& row);
  /// Stack of the system that the row ran on; clocks of a short benchmark where none is named.
  StackProfile stack_of(const CsvRow& row) const;
};

}  // namespace stepsim
