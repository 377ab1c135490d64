#include "sim/lower/label.h"

#include <fmt/format.h>

namespace stepsim {

std::string_view name(CommClass c) {
  constexpr std::array<std::string_view, comm_class_count> names{
      "none", "tp", "cp", "pp", "dp", "embedding", "ep", "edp", "offload"};
  return names[static_cast<size_t>(c)];
}

std::string_view name(Stream s) {
  constexpr std::array<std::string_view, stream_count> names{
      "compute", "tp", "cp",  "pp send next", "pp recv prev", "pp send prev", "pp recv next",
      "dp",      "ep", "edp", "d2h",          "h2d",          "host"};
  return names[static_cast<size_t>(s)];
}

std::string describe(Label label) {
  const OpRow& op = row(label.op);
  std::string text(op.name);
  const auto number = [&](std::string_view what, unsigned value) {
    text += what;
    const fmt::format_int digits(value);
    text.append(digits.data(), digits.size());
  };
  // "pp forward forward" says nothing twice over.
  if (label.pass != Pass::step && op.comm != CommClass::pp) (text += ' ') += name(label.pass);
  if (label.layer != Label::no_layer) number(" L", label.layer);
  if (label.microbatch != Label::no_microbatch) number(" mb", label.microbatch);
  // A layer names its chunk; without one the chunk tells interleaved passes apart.
  if (label.layer == Label::no_layer && label.chunk > 0) number(" chunk", label.chunk);
  if (label.part > 0) number(" part", label.part);
  return text;
}

}  // namespace stepsim
