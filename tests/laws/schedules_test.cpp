// Laws of schedules that split the backward or run from both ends: their papers' closed forms.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "sim/lower/inventory.h"
#include "sim/parallel/schedule.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// Times of a forward and of the two halves of a backward.
struct Times {
  double f, b, w;
  double all() const { return f + b + w; }
};
constexpr std::array<Times, 5> times{
    {{1, 1, 1}, {1, 1.5, 0.5}, {2, 3, 1}, {2, 2, 1.5}, {1, 1.25, 1}}};

nlohmann::json with_schedule(const std::string& schedule, int p, int m, Times t) {
  nlohmann::json s;
  s["model"]["pipeline_model_parallel_size"] = p;
  if (schedule == "interleaved") s["model"]["virtual_pipeline_model_parallel_size"] = 2;
  s["pipeline"]["schedule"] = schedule;
  s["train"] = {{"global_batch_size", m}, {"micro_batch_size", 1}};
  s["costs"] = {
      {"forward_seconds", t.f}, {"backward_input_seconds", t.b}, {"backward_weight_seconds", t.w}};
  return s;
}

double idle(const Report& r) {
  double most = 0;
  for (const DeviceReport& d : r.devices) most = std::max(most, d.ledger[Cause::bubble]);
  return most;
}

std::vector<ScheduleRow> runnable() {
  std::vector<ScheduleRow> rows;
  for (const ScheduleRow& row : schedule_rows())
    if (row.kind != ScheduleKind::order) rows.push_back(row);
  return rows;
}

}  // namespace

// Qi et al. 2023, table 2: (p-1)(TF+TB-TW) of idle time on every stage, for TW <= TF, TB and m >=
// p.
TEST_CASE("law: ZB-H1 idles for (p-1)(F+B-W)") {
  for (int p : {1, 2, 3, 4, 8, 16})
    for (int m : {p, p + 1, 2 * p, 3 * p + 1, 61})
      for (const Times& t : times) {
        if (m < p) continue;
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(t.f);
        CAPTURE(t.b);
        CAPTURE(t.w);
        const Report r = step_of(read(with_schedule("zb_h1", p, m, t))).report;
        CHECK(relative(r.step_seconds, m * t.all() + (p - 1) * (t.f + t.b - t.w)) < 1e-9);
        CHECK(std::abs(idle(r) - (p - 1) * (t.f + t.b - t.w)) < 1e-9);
      }
}

// DeepSeek-V3 2024, table 2, with F = 1, B = 2 of which W = 1: (PP-1)(F+B) for 1F1B,
// (PP-1)(F+B-2W) for ZB1P, (PP/2-1)(F&B+B-3W) for DualPipe. A forward and backward that overlap
// in 2 rather than 3 halve what is left: a picture without bubbles is a choice of that time.
TEST_CASE("8 ranks, 20 microbatches: 1F1B idles for 21, ZB1P for 7, DualPipe for 6 or 3") {
  const Times t{1, 1, 1};
  const auto bubble = [&](const char* schedule, double block) {
    nlohmann::json json = with_schedule(schedule, 8, 20, t);
    if (block > 0) json["costs"]["forward_backward_seconds"] = block;
    const Report r = step_of(read(json)).report;
    for (const DeviceReport& d : r.devices) CHECK(relative(d.ledger.sum(), r.step_seconds) < 1e-12);
    return idle(r);
  };
  CHECK(std::abs(bubble("1f1b", 0) - 21) < 1e-9);
  CHECK(std::abs(bubble("zb_1p", 0) - 7) < 1e-9);
  CHECK(std::abs(bubble("zb_h1", 0) - 7) < 1e-9);
  CHECK(std::abs(bubble("dualpipe", 3) - 6) < 1e-9);
  CHECK(std::abs(bubble("dualpipe", 0) - 6) < 1e-9);
  CHECK(std::abs(bubble("dualpipe", 2) - 3) < 1e-9);
}

// Exact where a forward takes as long as an input half, which the closed form takes for granted;
// less is lost where it is shorter.
TEST_CASE("law: DualPipe idles for (p/2-1)(FB+B-2W), over a V of chunks for (p-1)(FB+B-2W)") {
  int exact = 0;
  for (int p : {2, 4, 6, 8})
    for (int m : {2 * p, 2 * p + 2, 5 * p})
      for (const Times& t : times)
        for (double overlap : {0.0, 0.5})
          for (const auto& [schedule, turns] :
               {std::pair{"dualpipe", p / 2 - 1}, {"dualpipe_v", p - 1}}) {
            const double block = t.all() - overlap * t.f;
            const std::string name = schedule;
            CAPTURE(name);
            CAPTURE(p);
            CAPTURE(m);
            CAPTURE(t.f);
            CAPTURE(t.b);
            CAPTURE(t.w);
            CAPTURE(overlap);
            nlohmann::json json = with_schedule(schedule, p, m, t);
            json["costs"]["forward_backward_seconds"] = block;
            const double found = idle(step_of(read(json)).report),
                         closed = turns * (block + t.b - 2 * t.w);
            CHECK(found < closed + 1e-9);
            if (t.f != t.b) continue;
            CHECK(found > closed - 1e-9);
            ++exact;
          }
  CHECK(exact == 4 * 3 * 2 * 2 * 2);
}

// Any order that computes the same takes the same: a row of the table is only its order.
TEST_CASE("law: a schedule that is spelled out is the schedule") {
  const auto letter = [](ActionKind k) {
    return k == ActionKind::forward          ? 'F'
           : k == ActionKind::backward       ? 'B'
           : k == ActionKind::backward_input ? 'I'
                                             : 'W';
  };
  for (const ScheduleRow& row : runnable()) {
    nlohmann::json json = with_schedule(std::string(row.name), 4, 8, {1, 1.25, 0.75});
    json["costs"]["p2p_seconds"] = 0.125;
    const Scenario s = read(json);
    json["pipeline"]["order"] = nlohmann::json::array();
    for (const Program& program : row.programs(schedule_shape(s))) {
      std::string line;
      for (const Action& a : program)
        if (computes(a.kind))
          line +=
              letter(a.kind) + std::to_string(a.microbatch) + "." + std::to_string(a.chunk) + " ";
      json["pipeline"]["order"].push_back(line);
    }
    CAPTURE(row.name);
    const Scenario again = read(json);
    CHECK(again.schedule == ScheduleKind::order);
    if (row.kind == ScheduleKind::dualpipe || row.kind == ScheduleKind::dualpipe_v)
      CHECK(seconds_of(again) <= seconds_of(s));  // a block's messages leave together
    else
      CHECK(seconds_of(again) == seconds_of(s));
  }
}

TEST_CASE("law: every schedule takes its work, its first forwards and its messages at least") {
  for (const ScheduleRow& row : runnable())
    for (int p : {2, 4, 8})
      for (int m : {2 * p, 3 * p})
        for (double message : {0.0, 0.25}) {
          const Times t{1, 1.5, 0.5};
          CAPTURE(row.name);
          CAPTURE(p);
          CAPTURE(m);
          nlohmann::json json = with_schedule(std::string(row.name), p, m, t);
          json["costs"]["p2p_seconds"] = message;
          const Scenario s = read(json);
          const Report r = step_of(s).report;
          const bool two_way = s.parallel.placement == Placement::two_way;
          const int chunks = two_way ? 1 : s.parallel.chunks();
          const double work = m * chunks * t.all();
          CHECK(r.step_seconds >= work * (1 - 1e-12));
          for (const DeviceReport& d : r.devices) {
            CHECK(std::abs(d.ledger[Cause::compute] - work) < 1e-9);
            CHECK(relative(d.ledger.sum(), r.step_seconds) < 1e-12);
          }
          CHECK(seconds_of(s, {.unfold = true, .sharing = true}) == r.step_seconds);
          // One microbatch's way down and up again.
          const int stages = s.parallel.pipeline().virtual_stages();
          const int turns = s.parallel.placement == Placement::vee ? 1 : 0;
          CHECK(r.step_seconds >= stages * (t.f + t.b) + 2 * (stages - 1 - turns) * message);
        }
}

// Qi et al. 2023, table 2 and section 4: with post-validation of the optimizer no barrier holds the
// stages together, and the step is what the slowest of them takes: (p-1)(TF+TB-2TW) beside the work
// for ZB-H2, nothing for ZB-V when the three take equally long. 1F1B gains nothing.
TEST_CASE("law: without a barrier ZB-H2 idles for (p-1)(F+B-2W), ZB-V not at all") {
  for (int p : {1, 2, 3, 4, 8})
    for (int m : {2 * p - 1, 2 * p, 4 * p + 1})
      for (const Times& t : times) {
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(t.f);
        CAPTURE(t.b);
        CAPTURE(t.w);
        const auto period = [&](const char* schedule, bool barrier) {
          nlohmann::json json = with_schedule(schedule, p, m, t);
          json["pipeline"]["optimizer_post_validation"] = !barrier;
          const Report r = step_of(read(json)).report;
          for (const DeviceReport& d : r.devices)
            CHECK(relative(d.ledger.sum(), r.step_seconds) < 1e-9);
          return r.step_seconds;
        };
        CHECK(relative(period("zb_h2", false), m * t.all() + (p - 1) * (t.f + t.b - 2 * t.w)) <
              1e-9);
        CHECK(period("zb_h2", true) >= period("zb_h2", false) * (1 - 1e-12));
        CHECK(relative(period("1f1b", false), period("1f1b", true)) < 1e-9);
        if (t.f == t.b && t.b == t.w)
          CHECK(relative(period("zb_v", false), 2 * m * t.all()) < 1e-9);
      }
}

// With kernels: what a schedule does with the halves and with two chunks is the same whether one
// rank of a stage is simulated or all of them, and no schedule invents or loses a layer's work.
TEST_CASE("law: schedules with a model fold, and compute what 1F1B computes") {
  const auto with_model = [](std::string_view schedule, bool validated) {
    nlohmann::json json = scenario_json("llama3.2-1b", "dgx-h100",
                                        {.dp = 2,
                                         .pp = 4,
                                         .vp = schedule == "interleaved" ? 2 : 0,
                                         .microbatches = 8,
                                         .layers = schedule == "interleaved" ? 1 : 2});
    json["pipeline"]["schedule"] = schedule;
    json["pipeline"]["optimizer_post_validation"] = validated;
    return read(json);
  };
  const double work = step_of(with_model("1f1b", false)).report.ledger[Cause::compute];
  for (const ScheduleRow& row : runnable())
    for (bool validated : {false, true}) {
      CAPTURE(row.name);
      CAPTURE(validated);
      const Scenario s = with_model(row.name, validated);
      const Report r = step_of(s).report;
      for (const DeviceReport& d : r.devices)
        CHECK(relative(d.ledger.sum(), r.step_seconds) < 1e-9);
      CHECK(relative(r.ledger[Cause::compute], work) < 0.02);
      CHECK(relative(seconds_of(s, {.unfold = true, .sharing = true}), r.step_seconds) < 1e-9);
    }
}

// Steps in a row, each beginning on a rank when the one before has ended there, spelled out as one
// long order: another step adds the period.
TEST_CASE("law: the period is what one more step in a row takes") {
  constexpr int p = 4, m = 8;
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "zb_h2", "zb_1p", "zb_2p", "zb_v"}) {
    nlohmann::json json = with_schedule(schedule, p, m, {1, 1.25, 0.75});
    json["costs"]["p2p_seconds"] = 0.125;
    json["pipeline"]["optimizer_post_validation"] = true;
    const Scenario s = read(json);
    const auto in_a_row = [&](int steps) {
      Scenario many = s;
      many.schedule = ScheduleKind::order;
      many.post_validation = false;
      many.batch.microbatches = steps * m;
      for (const Program& program : schedule_row(s.schedule).programs(schedule_shape(s))) {
        std::vector<OrderEntry> line;
        for (int k = 0; k < steps; ++k)
          for (const Action& a : program)
            if (computes(a.kind))
              line.push_back(
                  {static_cast<OrderEntry::Kind>(a.kind), a.chunk, a.microbatch + k * m});
        many.order.push_back(std::move(line));
      }
      return seconds_of(many);
    };
    CAPTURE(schedule);
    CHECK(relative(in_a_row(12) - in_a_row(11), seconds_of(s)) < 1e-9);
  }
}

// The input half of a backward frees scores and dropout masks, the weight half the rest (Qi et al.
// 2023, table 1: (34h + 5as) sb a layer, of which the weight half needs 32h sb).
TEST_CASE("law: each half of a backward frees what only it reads") {
  Layout l{.pp = 2, .layers = 3, .sequence = 1024};
  nlohmann::json json = scenario_json("gpt-22b", "dgx-a100", l);
  json["model"]["hidden_dropout"] = 0.1;
  json["model"]["attention_backend"] = "unfused";
  const auto peak = [&](const std::string& line) {
    json["pipeline"]["order"] = {line, line};
    const Scenario s = read(json);
    const double held = step_of(s).lowered.memory[0].activations;
    CHECK(inventory(s)[0].memory.activations == held);
    return held;
  };
  constexpr double h = 6144, a = 64, sequence = 1024, layers = 3;
  const double all = layers * sequence * (34 * h + 5 * a * sequence),
               weight_half = layers * sequence * 32 * h;
  CHECK(peak("F0 F1 I0 W0 I1 W1") == doctest::Approx(2 * all).epsilon(1e-12));
  CHECK(peak("F0 I0 F1 W0 I1 W1") == doctest::Approx(weight_half + all).epsilon(1e-12));
  CHECK(peak("F0 I0 W0 F1 I1 W1") == doctest::Approx(all).epsilon(1e-12));
}
