// From files and command-line words to one merged document.
#pragma once

#include <span>
#include <string>

#include "sim/config/document.h"

namespace stepsim {

/// Follows `base` (relative to the file that names it; cycles refused), deepest first, then lays
/// the file on it.
Document with_bases(Document document);
/// "section.key=value": the value is JSON, else Python's True, False, None, else text. `+key` adds,
/// `~key` deletes, as in Hydra.
void apply_overrides(Document& document, std::span<const std::string> overrides);
/// NAME[:NODES] in place of the file's cluster.
void apply_cluster(Document& document, const std::string& cluster);

/// A launch script's own number of GPUs, where neither the scenario nor --cluster says one.
void apply_launch(Document& document);

}  // namespace stepsim
