// A folder of scenarios against another, file by file of the same name, as one table.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/study/gate.h"

namespace stepsim {

/// One file name of either folder.
struct PairRow {
  std::string name;
  bool in_a = false, in_b = false;
  double a_seconds = 0, b_seconds = 0;
  std::string failure;  ///< why there is no comparison; then the times are 0
  bool bad_input = false;
  std::string change, headline, cause;  ///< largest change; what silently changed; largest cause
  std::vector<std::string> misses;
  bool compared() const { return in_a && in_b && failure.empty(); }
  double relative() const { return a_seconds > 0 ? b_seconds / a_seconds - 1 : 0; }
};

struct DiffTable {
  std::string a, b;           ///< the folders
  std::vector<PairRow> rows;  ///< worst first; those without a comparison before them
};

/// Reads one file of a folder.
using ReadSide = std::function<Scenario(const std::string& path)>;

/// Files that end like a scenario, not those in folders below; throws Error where a folder has
/// none.
DiffTable diff_folders(const std::string& a, const std::string& b, const ReadSide& read,
                       const DataPaths& data, const Gate& gate, const DiffOptions& options = {});

std::string table_text(const DiffTable& table);
std::string table_markdown(const DiffTable& table);
std::string table_json(const DiffTable& table);

/// 0 kept, 1 some pair misses the gate or does not fit, 2 some file cannot be read.
int exit_code(const DiffTable& table);

}  // namespace stepsim
