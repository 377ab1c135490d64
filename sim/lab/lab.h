// The engine for a page: a question as JSON text in, an answer as JSON text out. Nothing is thrown
// or printed; what is wrong with the input is an answer too.
#pragma once

#include <string>
#include <string_view>

#include "sim/config/read.h"

namespace stepsim {

/// `question`: {"file": name for messages, "text": a scenario, "overrides": ["section.key=value"],
/// "want": "report" or "page"}. The answer to "report" is what `stepsim run --json` writes, byte
/// for byte. To "page": {"page": what a page draws from, "document": the scenario as one document,
/// bases and overrides laid in}. Input that is refused gives {"error": {file, pointer, message}},
/// a step that cannot finish {"stall": {since_seconds, waits}}.
std::string lab_answer(std::string_view question, const DataPaths& data);

}  // namespace stepsim
