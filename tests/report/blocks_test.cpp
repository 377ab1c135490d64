#include "sim/report/blocks.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "tests/report/small_step.h"

using namespace stepsim;

namespace {

/// Kernels of one second on one device, one word each: F0 B0 are a forward and a backward kernel of
/// microbatch 0, D a backward's data and W its weight gradient, R a recomputed one, S the
/// optimizer.
RanStep kernels(std::string_view words) {
  SmallStep s(one_device);
  for (size_t i = 0; i < words.size(); i += 3) {
    const char kind = words[i];
    const Pass pass = kind == 'F'   ? Pass::forward
                      : kind == 'B' ? Pass::backward
                      : kind == 'D' ? Pass::backward_data
                      : kind == 'W' ? Pass::backward_weight
                      : kind == 'R' ? Pass::recompute
                                    : Pass::step;
    Label label;
    label.pass = pass;
    label.microbatch =
        pass == Pass::step ? Label::no_microbatch : static_cast<uint16_t>(words[i + 1] - '0');
    s.add(0, Stream::compute, pass == Pass::step ? OpKind::adam : OpKind::fc1_gemm, 1, {}, label);
  }
  return std::move(s).run();
}

/// "F0[0,2) B0[2,4)": what is drawn of them.
std::string drawn(std::string_view words, bool halves) {
  const RanStep ran = kernels(words);
  const Blocks blocks =
      merged_blocks(ran.step, ran.timeline, step_end(ran.step, ran.timeline), halves);
  std::string text;
  for (const Block& b : blocks.rows) {
    if (!text.empty()) text += ' ';
    text += "FBIWS"[static_cast<size_t>(b.kind)];
    if (b.microbatch != Label::no_microbatch) text += std::to_string(b.microbatch);
    text += '[' + std::to_string(static_cast<int>(b.start_seconds)) + ',' +
            std::to_string(static_cast<int>(b.finish_seconds)) + ')';
  }
  for (uint32_t t = 0; t < ran.step.graph.task_count(); ++t) {
    const Block& b = blocks.rows.at(blocks.of_task[t]);
    CHECK(b.start_seconds <= ran.timeline.start_seconds[t]);
    CHECK(ran.timeline.finish_seconds[t] <= b.finish_seconds);
  }
  return text;
}

}  // namespace

TEST_CASE("kernels of one action are one block, whatever its passes") {
  CHECK(drawn("F0 F0 R0 D0 W0 D0 W0 F1 S. S.", false) == "F0[0,2) B0[2,7) F1[7,8) S[8,10)");
  CHECK(drawn("F0 F1 B0 B1", false) == "F0[0,1) F1[1,2) B0[2,3) B1[3,4)");
}

TEST_CASE("halves are two blocks only of a schedule that runs them apart") {
  CHECK(drawn("F0 D0 D0 W0 W0", true) == "F0[0,1) I0[1,3) W0[3,5)");
  CHECK(drawn("F0 D0 D0 W0 W0", false) == "F0[0,1) B0[1,5)");
  // A whole backward in such a schedule: its weight gradients lie between.
  CHECK(drawn("D0 W0 D0 W0", true) == "B0[0,4)");
  // Another action between the halves.
  CHECK(drawn("D0 D1 W0 D2 W1 W2", true) == "I0[0,1) I1[1,2) W0[2,3) I2[3,4) W1[4,5) W2[5,6)");
}

TEST_CASE("a weight gradient that is put off is a block of its own") {
  CHECK(drawn("D0 W0 F1 D1 W1 F2 W0", false) == "B0[0,2) F1[2,3) B1[3,5) F2[5,6) W0[6,7)");
}

TEST_CASE("merged actions overlap in time") {
  CHECK(drawn("F1 D0 F1 W0 F1 D0", false) == "F1[0,5) B0[1,6)");
}
