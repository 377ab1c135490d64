// Launches: a kernel starts once the host has launched it; edges that say nothing new are left out,
// exactly.
#include <doctest/doctest.h>

#include "sim/engine/engine.h"
#include "sim/lower/step_writer.h"
#include "sim/lower/template_writer.h"
#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

CollectiveCost costs(double seconds) {
  CollectiveCost c;
  c.duration = {seconds};
  return c;
}

/// Start times of `layers` forwards and backwards stamped one after another on one device.
std::vector<double> starts(const Scenario& s, const Template& forward, const Template& backward,
                           int layers) {
  const Mesh mesh(s.parallel);
  const Fabric fabric(s.cluster);
  const Folding folding = fold(mesh, s.parallel, {.units = {s.cluster.nvlink_domain}}, false);
  StepWriter writer(s, mesh, folding, fabric);
  for (const Template* t : {&forward, &backward})
    for (int i = 0; i < layers; ++i) writer.stamp(0, *t, Label{});
  const TaskGraph graph = std::move(writer.builder()).build();
  return std::get<Timeline>(run(graph, {.sharing = false})).start_seconds;
}

Template with_all_launch_edges(Template t) {
  for (TemplateOp& op : t.ops) op.launch_edge = true;
  return t;
}

}  // namespace

TEST_CASE("a launch each, framework work for each operator, pieces of one operator once") {
  TemplateWriter w(Pass::forward);
  w.compute(OpKind::norm, given_kernel(1.0_s));
  w.exposed(OpKind::tp_exchange, Stream::tp, costs(1));
  w.compute(OpKind::qkv_gemm, given_kernel(1.0_s), 0);
  w.compute(OpKind::qkv_gemm, given_kernel(1.0_s), 1);
  const Template t = std::move(w).finish({2.0_us, 10.0_us, {}});
  CHECK(t.segments[0].host_seconds == doctest::Approx(4 * 2e-6 + 2 * 10e-6));
  CHECK(t.ops[0].launch_lag_seconds == doctest::Approx(12e-6));
  CHECK(t.ops[1].launch_lag_seconds == doctest::Approx(14e-6));
  CHECK(t.ops[2].launch_lag_seconds == doctest::Approx(26e-6));
  CHECK(t.ops[3].launch_lag_seconds == doctest::Approx(28e-6));
  // Each op follows one that runs a second after it could be launched.
  CHECK(t.ops[0].launch_edge);
  CHECK_FALSE(t.ops[1].launch_edge);
  CHECK_FALSE(t.ops[2].launch_edge);
  CHECK_FALSE(t.ops[3].launch_edge);
}

TEST_CASE(
    "tightness: the launch edge stays when the host is a moment later than the stream, goes when "
    "it is not") {
  for (const auto& [seconds, stays] : {std::pair{0.9e-6, true}, std::pair{1.1e-6, false}}) {
    TemplateWriter w(Pass::forward);
    w.compute(OpKind::norm, given_kernel({seconds}));
    w.compute(OpKind::rope, given_kernel({seconds}));
    const Template t = std::move(w).finish({1.0_us, {}, {}});
    CHECK(t.ops[1].launch_edge == stays);
  }
}

TEST_CASE("a captured template costs one launch") {
  TemplateWriter w(Pass::forward);
  w.capture(true);
  for (int i = 0; i < 5; ++i) w.compute(OpKind::norm, given_kernel(1.0_us));
  const Template t = std::move(w).finish({3.0_us, 4.0_us, 12.0_us});
  CHECK(t.segments[0].host_seconds == 12e-6);
  CHECK(t.ops[0].launch_edge);
  for (size_t i = 1; i < 5; ++i) {
    CHECK(t.ops[i].launch_lag_seconds == 12e-6);
    CHECK_FALSE(t.ops[i].launch_edge);
  }
}

TEST_CASE("a node of the combined schedule costs an operator, captured or not") {
  TemplateWriter w(Pass::forward);
  w.schedule_node();
  w.capture(true);
  w.compute(OpKind::norm, given_kernel(1.0_us));
  w.schedule_node();
  w.compute(OpKind::norm, given_kernel(1.0_us));
  w.capture(false);
  w.schedule_node();
  w.compute(OpKind::norm, given_kernel(1.0_us));
  CHECK(std::move(w).finish({3.0_us, 4.0_us, 12.0_us}).segments[0].host_seconds ==
        doctest::Approx(12e-6 + 7e-6 + 3 * 4e-6));
}

TEST_CASE("what is outside a graph is launched kernel by kernel") {
  TemplateWriter w(Pass::forward);
  w.capture(true);
  for (int i = 0; i < 3; ++i) w.compute(OpKind::norm, given_kernel(1.0_us));
  w.capture(false);
  for (int i = 0; i < 2; ++i) w.compute(OpKind::norm, given_kernel(1.0_us));
  // One graph, then two launches with the framework's work around each.
  CHECK(std::move(w).finish({3.0_us, 4.0_us, 12.0_us}).segments[0].host_seconds ==
        doctest::Approx(12e-6 + 2 * 7e-6));
}

TEST_CASE("law: leaving out implied launch edges changes no start time") {
  int dropped = 0, kept = 0;
  for (const Run& r :
       {Run{}, Run{.tp = 4}, Run{.tp = 4, .sp = true}, Run{.tp = 8, .sp = true, .tp_overlap = true},
        Run{.cp = 4}, Run{.tp = 2, .cp = 2, .sp = true, .tp_overlap = true}})
    // Hosts from free to far slower than the device, so that either one leads.
    for (double launch : {0.0, 1e-6, 7e-6, 40e-6, 1e-3})
      for (double dispatch : {0.0, 10e-6, 200e-6}) {
        Scenario s = tiny(r);
        s.cluster.stack.launch = {launch};
        s.cluster.stack.dispatch = {dispatch};
        const LayerTemplates make = templates(s);
        const Template f = make.layer_forward({.fp8 = false}, false);
        const Template b = make.layer_backward({.fp8 = false}, true);
        for (const Template* t : {&f, &b})
          for (const TemplateOp& op : t->ops) (op.launch_edge ? kept : dropped) += 1;
        CAPTURE(launch);
        CAPTURE(dispatch);
        CHECK(starts(s, f, b, 3) ==
              starts(s, with_all_launch_edges(f), with_all_launch_edges(b), 3));
      }
  CHECK(dropped > 100);
  CHECK(kept > 100);
}
