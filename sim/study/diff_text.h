// A Diff as people and programs read it.
#pragma once

#include <string>
#include <vector>

#include "sim/study/diff.h"

namespace stepsim {

/// One screen, at most 100 columns, what silently went out of effect first.
std::string diff_text(const Diff& diff);
/// The same as Markdown, for a comment on a change.
std::string diff_markdown(const Diff& diff);
/// One page for a browser, which loads nothing: waterfalls by change and by cause, both timelines
/// on one axis. `missed`: limits that B does not keep. The diff has kept its runs.
std::string diff_html(const Diff& diff, const std::vector<std::string>& missed);
/// "a", "b", "delta_seconds", "by_change", "by_cause" and what explains them.
std::string diff_json(const Diff& diff);

/// Words that the texts share.
namespace diff_words {
/// "TP overlap is no longer in effect, because of model.sequence_parallel: +1338.2 ms of the step".
std::vector<std::string> headlines(const Diff& diff);
/// "true", or "not written".
std::string value(const std::string& json);
/// "model.x 8 -> 4", or keys that only work together.
std::string change(const Diff& diff, const ChangeShare& share);
/// "+1338.2 ms": with as many decimals as the step deserves.
std::string delta(double seconds, double step_seconds);
std::string step(double seconds);
/// Plain words for one of the ledger's causes.
std::string cause(const std::string& name);
/// How by_change was found, and how sure it is.
std::string method(const Diff& diff);
/// "fits: 53.8 to 60.1 GiB of 80.0 GiB"; "" where nothing is known of memory.
std::string memory(const Diff& diff);
/// What came of a change beyond the change itself.
std::vector<std::string> consequences(const Diff& diff, const ChangeShare& share);
}  // namespace diff_words

}  // namespace stepsim
