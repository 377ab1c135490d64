// CUDA graphs as they are asked for: who captures them and what they hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.h"

namespace stepsim {

/// `scope` is `asked`, completed by Megatron-Core's local graphs, which do not tell the router from
/// what follows it.
struct Graphs {
  std::string impl;
  std::vector<std::string> asked, scope;
  explicit Graphs(const Reader& model);
  bool off() const { return impl == "none"; }
  bool captures(std::string_view name) const;
  bool iteration() const {
    return impl == "full_iteration" || (impl == "local" && captures("full_iteration"));
  }
  bool whole_layers() const {
    return !off() && !iteration() && (asked.empty() || captures("full"));
  }
};

}  // namespace stepsim
