#include "sim/report/overlap.h"

#include <doctest/doctest.h>

#include "tests/report/small_step.h"

using namespace stepsim;

namespace {

CommunicationTable table_of(const RanStep& ran) {
  return communication(ran.step, ran.timeline, step_end(ran.step, ran.timeline));
}
const Communication& row_of(const CommunicationTable& table, CommClass c) {
  return table.by_class[static_cast<size_t>(c)].value();
}

}  // namespace

TEST_CASE("unions and intersections of intervals") {
  const auto u = interval_union({{5, 6}, {0, 2}, {1, 3}, {3, 4}, {7, 7}});
  REQUIRE(u.size() == 2);  // [0, 4] and [5, 6]; the empty one is gone
  CHECK(u[0].finish == 4);
  CHECK(length(u) == 5);
  CHECK(common_length(u, {{3, 5.5}}) == 1.5);
  CHECK(common_length({{3, 5.5}}, u) == 1.5);
  CHECK(common_length(u, {}) == 0);
  CHECK(common_length({{0, 1}}, {{1, 2}}) == 0);
}

TEST_CASE("a partly hidden transfer") {
  // compute [0, 2] and [4, 6]; transfer [1, 4]: moves 3, hidden 1.
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1);
  s.compute(0, 1);
  const TaskId gather = s.add(0, Stream::tp, OpKind::tp_all_gather, 3, {a});
  s.compute(0, 2, {gather});
  const CommunicationTable table = table_of(std::move(s).run());
  const Communication& tp = row_of(table, CommClass::tp);
  CHECK(tp.total_seconds == 3);
  CHECK(tp.hidden_seconds == 1);
  CHECK(tp.not_hidden_seconds() == 2);
  CHECK(*tp.efficiency() == doctest::Approx(1.0 / 3));
  CHECK_FALSE(table.by_class[static_cast<size_t>(CommClass::dp)]);
}

TEST_CASE("overlapping transfers count once overall, each in its own class") {
  // compute [0, 5]; tp [1, 4], dp [2, 8]: union [1, 8] = 7, of it hidden 4.
  SmallStep s(one_device);
  const TaskId a = s.compute(0, 1), b = s.compute(0, 1);
  s.compute(0, 3);
  s.add(0, Stream::dp, OpKind::dp_reduce_scatter, 6, {b});
  s.add(0, Stream::tp, OpKind::tp_all_gather, 3, {a});
  const CommunicationTable table = table_of(std::move(s).run());
  CHECK(table.overall->total_seconds == 7);
  CHECK(table.overall->hidden_seconds == 4);
  CHECK(*row_of(table, CommClass::tp).efficiency() == 1);
  CHECK(*row_of(table, CommClass::dp).efficiency() == 0.5);
}

TEST_CASE("a transfer belongs to every member, and waiting for a peer is apart from moving") {
  // Stage 1 posts its receive at 0, the bytes move in [4, 6]; stage 0 computes until 5, stage 1 not
  // at all meanwhile.
  SmallStep s({{.rank = 0, .represents = 3, .stage = 0}, {.rank = 3, .represents = 1, .stage = 1}});
  const TaskId a = s.compute(0, 4);
  const TaskId moved = s.send(0, 1, 2, a);
  s.compute(0, 1);
  s.compute(1, 1, {moved});
  const CommunicationTable table = table_of(std::move(s).run());
  const Communication& pp = row_of(table, CommClass::pp);
  CHECK(pp.total_seconds == 2);
  CHECK(pp.hidden_seconds == doctest::Approx(0.75));  // (3 * 1 + 1 * 0) / 4
  CHECK(pp.waiting_seconds == doctest::Approx(1.0));  // (3 * 0 + 1 * 4) / 4
  CHECK(*pp.efficiency() == doctest::Approx(0.375));  // (3*1 + 0) / (4*2)
}

TEST_CASE("no communication has no efficiency; free communication moves for no time") {
  SmallStep none(one_device);
  none.compute(0, 1);
  CHECK_FALSE(table_of(std::move(none).run()).overall);

  SmallStep free(one_device);
  free.add(0, Stream::dp, OpKind::dp_all_reduce, 0, {free.compute(0, 1)});
  const CommunicationTable table = table_of(std::move(free).run());
  CHECK(row_of(table, CommClass::dp).total_seconds == 0);
  CHECK_FALSE(row_of(table, CommClass::dp).efficiency());
}

TEST_CASE("the optimizer hides communication too; the host does not") {
  SmallStep s(one_device);
  s.add(0, Stream::compute, OpKind::adam, 2);
  s.add(0, Stream::compute, OpKind::sync, 1);  // blocks the stream, computes nothing
  s.add(0, Stream::host, OpKind::launch, 9);
  s.add(0, Stream::dp, OpKind::dp_all_gather, 4);
  CHECK(*row_of(table_of(std::move(s).run()), CommClass::dp).efficiency() == 0.5);
}
