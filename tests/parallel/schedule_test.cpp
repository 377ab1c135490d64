// Orders and warm-ups against Megatron-Core's own tables, for every schedule over a grid of shapes.
#include "sim/parallel/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

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

bool legal(const ScheduleRow& row, const ScheduleShape& s) {
  if (row.kind != ScheduleKind::interleaved)
    return s.chunks == 1 && s.style != P2pStyle::overlapped &&
           s.style != P2pStyle::flush_overlapped;
  const int group = s.group > 0 ? s.group : s.ranks;
  // schedules.py: P <= N <= M and the last group has no or at least P microbatches.
  return s.ranks > 1 && group >= s.ranks && group <= s.microbatches &&
         (s.microbatches % group == 0 || s.microbatches % group >= s.ranks);
}

}  // namespace

TEST_CASE("law: every schedule runs each forward before its backward, exactly once on each chunk") {
  for (const ScheduleRow& row : schedule_rows())
    for (const ScheduleShape& shape : grid()) {
      if (!legal(row, shape)) continue;
      for (int rank = 0; rank < shape.ranks; ++rank) {
        std::map<std::pair<int, int>, int> forward, backward;
        int position = 0;
        for (const Action& a : row.program(shape, rank)) {
          ++position;
          const std::pair key{a.microbatch, int{a.chunk}};
          if (a.kind == ActionKind::forward) {
            CHECK(forward.emplace(key, position).second);
          } else if (a.kind == ActionKind::backward) {
            CHECK(backward.emplace(key, position).second);
            REQUIRE(forward.count(key) == 1);
          }
        }
        CHECK(forward.size() == static_cast<size_t>(shape.microbatches * shape.chunks));
        CHECK(backward.size() == forward.size());
      }
    }
}

TEST_CASE(
    "law: every message posted by its sender is posted once by its receiver, in the same order") {
  using Message = std::tuple<int, int>;  // chunk at the receiver, microbatch
  for (const ScheduleRow& row : schedule_rows())
    for (const ScheduleShape& shape : grid()) {
      if (!legal(row, shape)) continue;
      for (int rank = 0; rank < shape.ranks; ++rank) {
        const int next = (rank + 1) % shape.ranks;
        const auto collect = [&](int r, ActionKind kind, int shift) {
          std::vector<Message> messages;
          for (const Action& a : row.program(shape, r))
            if (a.kind == kind) messages.push_back({a.chunk + shift, a.microbatch});
          return messages;
        };
        const int wrap = rank == shape.ranks - 1 ? 1 : 0;
        CHECK(collect(rank, ActionKind::send_forward, wrap) ==
              collect(next, ActionKind::recv_forward, 0));
        CHECK(collect(next, ActionKind::send_backward, -wrap) ==
              collect(rank, ActionKind::recv_backward, 0));
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
  CHECK(computations(row.program(shape, 1)) ==
        "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  CHECK(computations(row.program(shape, 0)).starts_with("F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1"));
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
          for (int rank = 0; rank < p; ++rank) {
            const int warmup = std::min(2 * (p - 1 - rank) + (v - 1) * n, m * v);
            CHECK(interleaved_warmup(shape, rank) == warmup);
            int forwards = 0;
            for (const Action& a : schedule_row(ScheduleKind::interleaved).program(shape, rank)) {
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
  CHECK(computations(schedule_row(ScheduleKind::one_f_one_b).program(shape, 2)) ==
        "F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 F4.0 B3.0 B4.0");
  CHECK(computations(schedule_row(ScheduleKind::one_f_one_b).program(shape, 3)) ==
        "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0");
  CHECK(computations(schedule_row(ScheduleKind::gpipe).program(shape, 3)) ==
        "F0.0 F1.0 F2.0 F3.0 F4.0 B0.0 B1.0 B2.0 B3.0 B4.0");
}

TEST_CASE(
    "1F1B exchanges: a fused send-forward and receive-backward, then a device sync when batched") {
  const ScheduleShape shape{.ranks = 2, .chunks = 1, .microbatches = 2, .style = P2pStyle::batched};
  const Program program = schedule_row(ScheduleKind::one_f_one_b).program(shape, 0);
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
  const Program program = schedule_row(ScheduleKind::interleaved).program(shape, 1);
  // Warm-up 2; first steady step: F(0,1) leaves the pipeline, so only the receive of the next input
  // is posted.
  const auto at = std::find(program.begin(), program.end(), Action{ActionKind::forward, 1, 0});
  REQUIRE(at != program.end());
  CHECK(*(at + 1) == Action{ActionKind::recv_forward, 1, 1});
  CHECK(*(at + 2) == Action{ActionKind::backward, 1, 0});
  CHECK(*(at + 3) == Action{ActionKind::send_backward, 1, 0});
}
