// Orders and warm-ups against Megatron-Core's own tables, for every schedule over a grid of shapes.
#include "sim/parallel/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>

using namespace stepsim;

namespace {

/// "F0.0 F1.0 B0.1": computations only, microbatch.chunk.
std::string computations(const Program& program) {
  std::ostringstream out;
  for (const Action& a : program)
    if (a.kind == ActionKind::forward || a.kind == ActionKind::backward)
      out << (a.kind == ActionKind::forward ? 'F' : 'B') << a.microbatch << '.' << int{a.chunk}
          << ' ';
  std::string text = out.str();
  if (!text.empty()) text.pop_back();
  return text;
}

std::vector<ScheduleShape> grid() {
  std::vector<ScheduleShape> shapes;
  for (int p : {1, 2, 3, 4, 8})
    for (int m : {1, 2, 3, 4, 7, 8, 16})
      for (int v : {1, 2, 3})
        for (P2pStyle style : {P2pStyle::asynchronous, P2pStyle::blocking, P2pStyle::batched,
                               P2pStyle::overlapped, P2pStyle::flush_overlapped})
          shapes.push_back({.ranks = p,
                            .chunks = v,
                            .microbatches = m,
                            .style = style,
                            .wait_forward_send = style == P2pStyle::overlapped});
  return shapes;
}

/// The shape as that schedule takes it: its placement, and its own chunks.
ScheduleShape shape_for(const ScheduleRow& row, ScheduleShape s) {
  s.placement = schedule_name(row.kind).placement;
  if (s.placement != Placement::ring) s.chunks = 2;
  return s;
}

bool legal(const ScheduleRow& row, const ScheduleShape& s) {
  using enum ScheduleKind;
  if (row.kind == order) return false;  // whatever was spelled out: sim/config checks it
  if (row.kind > interleaved) {
    if (s.chunks != 1 || s.style != P2pStyle::asynchronous) return false;
    if (row.kind == dualpipe)
      return s.ranks % 2 == 0 && s.microbatches % 2 == 0 && s.microbatches >= 2 * s.ranks;
    return row.kind != dualpipe_v || s.microbatches >= 2 * s.ranks;
  }
  if (row.kind != interleaved)
    return s.chunks == 1 && s.style != P2pStyle::overlapped &&
           s.style != P2pStyle::flush_overlapped;
  const int group = s.group > 0 ? s.group : s.ranks;
  // schedules.py: P <= N <= M and the last group has no or at least P microbatches.
  return s.ranks > 1 && group >= s.ranks && group <= s.microbatches &&
         (s.microbatches % group == 0 || s.microbatches % group >= s.ranks);
}

}  // namespace

TEST_CASE("law: every schedule runs each forward before its backward, exactly once on each chunk") {
  std::set<ScheduleKind> seen;
  for (const ScheduleRow& row : schedule_rows())
    for (const ScheduleShape& any : grid()) {
      if (!legal(row, any)) continue;
      seen.insert(row.kind);
      const ScheduleShape shape = shape_for(row, any);
      const std::vector<Program> programs = row.programs(shape);
      REQUIRE(programs.size() == static_cast<size_t>(shape.ranks));
      for (const Program& program : programs) {
        std::set<std::pair<int, int>> forward, input, backward;  // what has run
        for (const Action& a : program) {
          const std::pair key{int{a.chunk}, int{a.microbatch}};
          if (!computes(a.kind)) continue;
          REQUIRE(
              shape.pipeline().microbatches(a.chunk, shape.microbatches).contains(a.microbatch));
          if (a.kind == ActionKind::forward) {
            CHECK(forward.insert(key).second);
          } else {
            REQUIRE(forward.count(key) == 1);
            if (a.kind == ActionKind::backward_weight)
              REQUIRE(input.count(key) == 1);
            else
              CHECK(input.insert(key).second);
            if (a.kind != ActionKind::backward_input) CHECK(backward.insert(key).second);
          }
        }
        size_t all = 0;
        for (int c = 0; c < shape.chunks; ++c)
          all += static_cast<size_t>(shape.pipeline().microbatches(c, shape.microbatches).count);
        CHECK(forward.size() == all);
        CHECK(input == forward);
        CHECK(backward == forward);
      }
    }
  CHECK(seen.size() == schedule_rows().size() - 1);
}

TEST_CASE(
    "law: every message posted by its sender is posted once by its receiver, in the same order") {
  for (const ScheduleRow& row : schedule_rows())
    for (const ScheduleShape& any : grid()) {
      if (!legal(row, any)) continue;
      const ScheduleShape shape = shape_for(row, any);
      const PipelineShape pipeline = shape.pipeline();
      const std::vector<Program> programs = row.programs(shape);
      const auto collect = [&](Place at, ActionKind kind) {
        std::vector<int> microbatches;
        for (const Action& a : programs[static_cast<size_t>(at.rank)])
          if (a.kind == kind && a.chunk == at.chunk) microbatches.push_back(a.microbatch);
        return microbatches;
      };
      for (int rank = 0; rank < shape.ranks && shape.placement == Placement::ring; ++rank) {
        // Over all chunks: a queue of a ring carries them all.
        const auto all = [&](int r, ActionKind kind, int shift) {
          std::vector<std::pair<int, int>> messages;  // chunk at the receiver, microbatch
          for (const Action& a : programs[static_cast<size_t>(r)])
            if (a.kind == kind) messages.push_back({a.chunk + shift, a.microbatch});
          return messages;
        };
        const int next = (rank + 1) % shape.ranks, wrap = rank == shape.ranks - 1 ? 1 : 0;
        CHECK(all(rank, ActionKind::send_forward, wrap) == all(next, ActionKind::recv_forward, 0));
        CHECK(all(next, ActionKind::send_backward, -wrap) ==
              all(rank, ActionKind::recv_backward, 0));
      }
      for (int rank = 0; rank < shape.ranks; ++rank)
        for (int chunk = 0; chunk < shape.chunks; ++chunk) {
          const Place here{rank, chunk};
          const std::optional<Place> next = pipeline.next(here);
          if (!next) {
            CHECK(collect(here, ActionKind::send_forward).empty());
            CHECK(collect(here, ActionKind::recv_backward).empty());
            continue;
          }
          CHECK(pipeline.previous(*next) == here);
          CHECK(pipeline.virtual_stage(*next) == pipeline.virtual_stage(here) + 1);
          const std::vector<int> sent = collect(here, ActionKind::send_forward);
          CHECK(sent == collect(*next, ActionKind::recv_forward));
          CHECK(collect(*next, ActionKind::send_backward) ==
                collect(here, ActionKind::recv_backward));
          CHECK(sent.empty() == (next->rank == rank));  // the turn of a V stays at home
        }
    }
}

TEST_CASE("interleaved order: P=2 VP=2 N=2 M=4, the table of Megatron's schedule") {
  const std::vector<VirtualStep> forward = interleaved_order(2, 4, 2);
  const std::vector<VirtualStep> expected{{0, 0}, {1, 0}, {0, 1}, {1, 1},
                                          {2, 0}, {3, 0}, {2, 1}, {3, 1}};
  CHECK(forward == expected);
  const ScheduleShape shape{.ranks = 2, .chunks = 2, .microbatches = 4};
  CHECK(interleaved_warmup(shape, 0) == 4);
  CHECK(interleaved_warmup(shape, 1) == 2);
  const ScheduleRow& row = schedule_row(ScheduleKind::interleaved);
  CHECK(computations(row.programs(shape)[1]) ==
        "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  CHECK(
      computations(row.programs(shape)[0]).starts_with("F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1"));
}

TEST_CASE("interleaved order and warm-up over a grid with N != P and M not a multiple of N") {
  for (int p : {2, 3, 4, 8})
    for (int v : {2, 3, 4})
      for (int n : {p, p + 1, 2 * p})
        for (int m : {n, n + p, 2 * n, 2 * n + p, 3 * n + p + 1}) {
          if (m % n != 0 && m % n < p) continue;
          const std::vector<VirtualStep> order = interleaved_order(v, m, n);
          // Entry k by division: full groups hold n*v entries, the last one (m mod n)*v.
          for (int k = 0; k < static_cast<int>(order.size()); ++k) {
            const int group = k / (n * v), inside = k % (n * v);
            const int width = std::min(n, m - group * n);
            CHECK(order[static_cast<size_t>(k)] ==
                  VirtualStep{group * n + inside % width, inside / width});
          }
          const ScheduleShape shape{.ranks = p, .chunks = v, .microbatches = m, .group = n};
          const std::vector<Program> programs =
              schedule_row(ScheduleKind::interleaved).programs(shape);
          for (int rank = 0; rank < p; ++rank) {
            const int warmup = std::min(2 * (p - 1 - rank) + (v - 1) * n, m * v);
            CHECK(interleaved_warmup(shape, rank) == warmup);
            int forwards = 0;
            for (const Action& a : programs[static_cast<size_t>(rank)]) {
              if (a.kind == ActionKind::backward) break;
              forwards += a.kind == ActionKind::forward;
            }
            CHECK(forwards ==
                  std::min(warmup + 1,
                           m * v));  // the first steady forward precedes the first backward
          }
        }
}

TEST_CASE("1F1B: rank p warms up with min(P-1-p, M) forwards; GPipe with all") {
  const ScheduleShape shape{.ranks = 4, .chunks = 1, .microbatches = 5};
  CHECK(computations(schedule_row(ScheduleKind::one_f_one_b).programs(shape)[2]) ==
        "F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 F4.0 B3.0 B4.0");
  CHECK(computations(schedule_row(ScheduleKind::one_f_one_b).programs(shape)[3]) ==
        "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0");
  CHECK(computations(schedule_row(ScheduleKind::gpipe).programs(shape)[3]) ==
        "F0.0 F1.0 F2.0 F3.0 F4.0 B0.0 B1.0 B2.0 B3.0 B4.0");
}

TEST_CASE(
    "1F1B exchanges: a fused send-forward and receive-backward, then a device sync when batched") {
  const ScheduleShape shape{.ranks = 2, .chunks = 1, .microbatches = 2, .style = P2pStyle::batched};
  const Program program = schedule_row(ScheduleKind::one_f_one_b).programs(shape)[0];
  const Program expected{{ActionKind::forward, 0, 0},
                         {ActionKind::send_forward, 0, 0},
                         {ActionKind::wait_send_forward, 0, 0},
                         {ActionKind::sync, 0, 0},
                         {ActionKind::forward, 0, 1},
                         {ActionKind::send_forward, 0, 1},
                         {ActionKind::recv_backward, 0, 0},
                         {ActionKind::wait_send_forward, 0, 1},
                         {ActionKind::wait_recv_backward, 0, 0},
                         {ActionKind::sync, 0, 0},
                         {ActionKind::backward, 0, 0},
                         {ActionKind::recv_backward, 0, 1},
                         {ActionKind::wait_recv_backward, 0, 1},
                         {ActionKind::sync, 0, 0},
                         {ActionKind::backward, 0, 1}};
  CHECK(program == expected);
}

TEST_CASE(
    "overlapped interleaving waits for the forward send at once and posts receives with the "
    "sends") {
  const ScheduleShape shape{.ranks = 2,
                            .chunks = 2,
                            .microbatches = 2,
                            .style = P2pStyle::overlapped,
                            .wait_forward_send = true};
  const Program program = schedule_row(ScheduleKind::interleaved).programs(shape)[1];
  // Warm-up 2; first steady step: F(0,1) leaves the pipeline, so only the receive of the next input
  // is posted.
  const auto at = std::find(program.begin(), program.end(), Action{ActionKind::forward, 1, 0});
  REQUIRE(at != program.end());
  CHECK(*(at + 1) == Action{ActionKind::recv_forward, 1, 1});
  CHECK(*(at + 2) == Action{ActionKind::backward, 1, 0});
  CHECK(*(at + 3) == Action{ActionKind::send_backward, 1, 0});
}

// Qi et al. 2023, table 2, in microbatches' activations, which stay until the weight half;
// DeepSeek-V3 2024, table 2: DualPipe holds PP + 1.
TEST_CASE("law: every schedule holds at most the activations that it promises, and reaches it") {
  const auto most = [](const Program& program) {
    int held = 0, peak = 0;
    for (const Action& a : program) {
      if (a.kind == ActionKind::forward) peak = std::max(peak, ++held);
      if (a.kind == ActionKind::backward || a.kind == ActionKind::backward_weight) --held;
    }
    CHECK(held == 0);
    return peak;
  };
  using enum ScheduleKind;
  for (int p : {2, 3, 4, 8})
    for (int m : {2 * p, 3 * p, 5 * p + 3})
      for (const ScheduleRow& row : schedule_rows()) {
        const ScheduleShape any{.ranks = p, .chunks = 1, .microbatches = m};
        if (!legal(row, any) || row.kind == interleaved) continue;
        int promised = m;
        if (row.kind == zb_h1 || row.kind == zb_1p || row.kind == one_f_one_b) promised = p;
        if (row.kind == zb_h2) promised = 2 * p - 1;
        if (row.kind == zb_2p || row.kind == zb_v) promised = 2 * p;
        if (row.kind == dualpipe) promised = p + 1;
        if (row.kind == dualpipe_v) promised = 2 * p + 1;
        CAPTURE(row.name);
        CAPTURE(p);
        CAPTURE(m);
        int peak = 0;
        for (const Program& program : row.programs(shape_for(row, any))) {
          const int here = most(program);
          CHECK(here <= promised);
          peak = std::max(peak, here);
          if (row.kind == zb_h1 || row.kind == zb_h2) CHECK(here == promised);  // on every rank
        }
        if (row.kind != zb_2p) CHECK(peak == promised);
      }
}

TEST_CASE("ZB-H1 and ZB-H2 of four ranks, the papers' figures 2 and 3") {
  const ScheduleShape shape{.ranks = 4, .chunks = 1, .microbatches = 6};
  const auto text = [](const Program& program) {
    std::string out;
    for (const Action& a : program)
      if (computes(a.kind)) {
        out += a.kind == ActionKind::forward          ? 'F'
               : a.kind == ActionKind::backward_input ? 'B'
                                                      : 'W';
        out += std::to_string(a.microbatch + 1) + ' ';
      }
    return out;
  };
  const std::vector<Program> h1 = schedule_row(ScheduleKind::zb_h1).programs(shape);
  CHECK(text(h1[0]) == "F1 F2 F3 F4 B1 W1 F5 B2 W2 F6 B3 W3 B4 W4 B5 W5 B6 W6 ");
  CHECK(text(h1[3]) == "F1 B1 F2 B2 F3 B3 F4 B4 W1 F5 B5 W2 F6 B6 W3 W4 W5 W6 ");
  const std::vector<Program> h2 =
      schedule_row(ScheduleKind::zb_h2).programs({.ranks = 3, .chunks = 1, .microbatches = 6});
  CHECK(text(h2[0]) == "F1 F2 F3 F4 F5 B1 W1 F6 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 ");
  CHECK(text(h2[2]) == "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 W1 F6 B6 W2 W3 W4 W5 W6 ");
}
