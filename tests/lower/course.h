// When a layer's tensors leave for the host and return, as text.
#pragma once

#include <string>

#include "sim/lower/lowered.h"

namespace stepsim::test {

/// Tasks of compute and copies in the order in which they begin: "f0 f1 >0 ... <0 b0", a layer's
/// first kernel standing for it.
inline std::string offload_course(const LoweredStep& step) {
  std::string text, last;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    if (step.graph.streams[t] == no_stream) continue;
    const Label l = Label::unpack(step.graph.labels[t]);
    const Stream stream = stream_of(step.graph.streams[t]);
    if (l.layer == Label::no_layer || stream == Stream::host) continue;
    const std::string name = (stream == Stream::d2h     ? ">"
                              : stream == Stream::h2d   ? "<"
                              : l.pass == Pass::forward ? "f"
                                                        : "b") +
                             std::to_string(l.layer);
    if (name != last) text += (text.empty() ? "" : " ") + name;
    last = name;
  }
  return text;
}

}  // namespace stepsim::test
