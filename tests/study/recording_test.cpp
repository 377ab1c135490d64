// Traces of the PyTorch profiler: overlap by hand, our own timeline read back, and what is refused.
#include "sim/study/recording.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/base/error.h"
#include "sim/config/read.h"
#include "sim/study/compared.h"

using namespace stepsim;
using nlohmann::json;

namespace {

constexpr std::array<bool, comm_class_count> nothing{};

Recording recorded(const std::string& text,
                   const std::array<bool, comm_class_count>& present = nothing) {
  std::istringstream in(text);
  return read_recording(in, "t.json", present);
}
std::string trace_refusal(const std::string& text) {
  try {
    recorded(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// Times in seconds.
json event(const char* category, const std::string& name, double start, double finish, int stream,
           json args = json::object()) {
  args["device"] = 0;
  args["stream"] = stream;
  return {{"ph", "X"},
          {"cat", category},
          {"name", name},
          {"pid", 0},
          {"tid", 7},
          {"ts", start * 1e6},
          {"dur", (finish - start) * 1e6},
          {"args", args}};
}
json kernel(const std::string& name, double start, double finish, int stream = 7) {
  return event("kernel", name, start, finish, stream);
}
json gather(double start, double finish, const char* group, int stream = 20) {
  return event("kernel", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", start,
               finish, stream, {{"Process Group Description", group}});
}
json mark(const char* name, double start, double finish) {
  return {{"ph", "X"},
          {"cat", "user_annotation"},
          {"name", name},
          {"ts", start * 1e6},
          {"dur", (finish - start) * 1e6}};
}
std::string trace(const json& events) {
  return json{{"schemaVersion", 1},
              {"distributedInfo", {{"rank", 5}, {"world_size", 8}}},
              {"traceEvents", events}}
      .dump();
}
const Communication& of(const Recording& r, CommClass c) {
  return r.communication.by_class[static_cast<size_t>(c)].value();
}

}  // namespace

TEST_CASE("a trace by hand: transfer [1, 4] beside kernels [0, 2] and [3, 5]") {
  const Recording r =
      recorded(trace({kernel("nvjet_hsh_128x256", 0, 2),
                      kernel("flash_fwd_kernel", 3, 5),
                      gather(1, 4, "TENSOR_MODEL_PARALLEL_GROUP"),
                      {{"ph", "M"}, {"name", "process_name"}},
                      {{"ph", "X"}, {"cat", "cpu_op"}, {"name", "aten::mm"}, {"ts", 0}}}));
  CHECK(of(r, CommClass::tp).total_seconds == doctest::Approx(3));
  CHECK(*of(r, CommClass::tp).efficiency() == doctest::Approx(2.0 / 3));
  CHECK(*r.communication.overall->efficiency() == doctest::Approx(2.0 / 3));
  CHECK(r.step_seconds == doctest::Approx(5));
  CHECK(r.compute_seconds == doctest::Approx(4));
  CHECK(r.kernel_seconds[static_cast<size_t>(KernelClass::gemm)] == doctest::Approx(2));
  CHECK(r.kernel_seconds[static_cast<size_t>(KernelClass::attention)] == doctest::Approx(2));
  CHECK(r.rank == 5);
  CHECK(r.steps == 0);
  CHECK(r.events == 3);
  REQUIRE(r.streams.size() == 2);
  CHECK(r.streams[1].mostly == "tp");
  CHECK(r.streams[1].busy_seconds == doctest::Approx(3));
}

TEST_CASE("annotated steps are averaged, and what lies outside them does not count") {
  // Steps [0, 10] and [10, 16]; kernels until 9 and in [10, 12], transfers [8, 11] and [20, 30]: of
  // [8, 10] one second is hidden, of [10, 11] all.
  json events{mark("ProfilerStep#4", 10, 16),
              mark("ProfilerStep#3", 0, 10),
              mark("ProfilerStep#5", 40, 50),
              kernel("gemm", 0, 9),
              kernel("gemm", 10, 12),
              gather(8, 11, "DATA_PARALLEL_GROUP_WITH_CP"),
              gather(20, 30, "DATA_PARALLEL_GROUP")};
  const Recording r = recorded(trace(events));
  CHECK(r.steps == 2);
  CHECK(r.first == "ProfilerStep#3");
  CHECK(r.last == "ProfilerStep#4");
  CHECK(r.step_seconds == doctest::Approx(8));
  CHECK(of(r, CommClass::dp).total_seconds == doctest::Approx(1.5));
  CHECK(of(r, CommClass::dp).hidden_seconds == doctest::Approx(1));
  // The GPU's own annotations win: they say when its step was.
  json gpu = mark("ProfilerStep#3", 0, 9);
  gpu["cat"] = "gpu_user_annotation";
  events.push_back(gpu);
  CHECK(recorded(trace(events)).step_seconds == doctest::Approx(9));
}

TEST_CASE("a trace may be a bare list, in any order, with transfers that name no group") {
  const json events{gather(4, 6, ""), kernel("gemm", 5, 8), gather(1, 3, ""), kernel("gemm", 0, 2)};
  std::array<bool, comm_class_count> present{};
  present[static_cast<size_t>(CommClass::dp)] = true;
  const Recording r = recorded(events.dump(), present);
  CHECK(of(r, CommClass::dp).total_seconds == doctest::Approx(4));
  CHECK(of(r, CommClass::dp).hidden_seconds == doctest::Approx(2));
  CHECK(r.guessed == 2);
}

TEST_CASE("our own timeline as such a trace reads back with the same overlap") {
  const json layout{{"cluster", {{"system", "dgx-h100"}, {"gpus", 8}}},
                    {"model",
                     {{"hf_config", "llama3-8b"},
                      {"num_layers", 4},
                      {"tensor_model_parallel_size", 2},
                      {"pipeline_model_parallel_size", 2},
                      {"virtual_pipeline_model_parallel_size", 2},
                      {"sequence_parallel", true}}},
                    {"ddp", {{"use_distributed_optimizer", true}}},
                    {"comm_overlap", {{"tp_comm_overlap", true}}},
                    {"mixed_precision", "bf16_mixed"},
                    {"dataset", {{"seq_length", 2048}}},
                    {"train", {{"global_batch_size", 8}, {"micro_batch_size", 1}}}};
  const Scenario s = read_scenario_text(layout.dump(), "x.json", {}, "", find_data());
  CommunicationTable mean;
  Simulation sim = std::get<Simulation>(simulate(s));
  const CommunicationTable reported = sim.report.communication;
  const StepEnd end = step_end(sim.lowered, sim.timeline);
  double total = 0, hidden = 0;
  for (uint32_t d = 0; d < sim.lowered.devices.size(); ++d) {
    std::stringstream text;
    write_kineto(text, sim.lowered, sim.timeline, end, d);
    const Recording r = read_recording(text, "own", present_classes(reported));
    const PredictedDevice p = predicted_device(s, sim, sim.lowered.devices[d].rank);
    CHECK(r.rank == p.rank);
    CHECK(r.steps == 1);
    CHECK(r.step_seconds == doctest::Approx(p.step_seconds).epsilon(1e-12));
    CHECK(r.compute_seconds == doctest::Approx(p.compute_seconds).epsilon(1e-9));
    CHECK(r.guessed == 0);
    for (size_t k = 0; k < kernel_class_count; ++k)
      CHECK(r.kernel_seconds[k] == doctest::Approx(p.kernel_seconds[k]).epsilon(1e-9));
    for (size_t c = 1; c < comm_class_count; ++c) {
      const auto& a = r.communication.by_class[c];
      const auto& b = p.communication.by_class[c];
      if (!b || b->total_seconds == 0) continue;
      REQUIRE(a.has_value());
      CHECK(a->total_seconds == doctest::Approx(b->total_seconds).epsilon(1e-9));
      CHECK(*a->efficiency() == doctest::Approx(*b->efficiency()).epsilon(1e-9));
    }
    total += r.communication.overall->total_seconds;
    hidden += r.communication.overall->hidden_seconds;
  }
  // Both devices stand for as many ranks: together they are the report.
  CHECK(hidden / total == doctest::Approx(*reported.overall->efficiency()).epsilon(1e-9));
  CHECK(*reported.overall->efficiency() > 0.1);
  CHECK(*reported.overall->efficiency() < 1);
  CHECK(reported.by_class[static_cast<size_t>(CommClass::pp)]->total_seconds > 0);
}

TEST_CASE("what is no trace is refused, with the place") {
  CHECK(trace_refusal("{\"traceEvents\": [").starts_with("t.json:byte "));
  CHECK(trace_refusal("{\"traceEvents\": [").find("is not JSON") != std::string::npos);
  CHECK(trace_refusal("hello").find("is not JSON") != std::string::npos);
  CHECK(trace_refusal("").find("is not JSON") != std::string::npos);
  CHECK(trace_refusal("{}").find("holds no GPU kernels") != std::string::npos);
  CHECK(trace_refusal("\x1f\x8b\x08").find("zcat t.json |") != std::string::npos);
  json bad = kernel("gemm", 0, 1);
  bad.erase("dur");
  CHECK(trace_refusal(trace({kernel("gemm", 0, 1), bad})) == "t.json#/traceEvents/1: has no dur");
  bad = kernel("gemm", 3, 1);
  CHECK(trace_refusal(trace(json::array({bad}))).find("dur not negative") != std::string::npos);
  bad = kernel("gemm", 0, 1);
  bad["args"]["device"] = 1;
  CHECK(trace_refusal(trace({kernel("gemm", 0, 1), bad})).find("expected the trace of one rank") !=
        std::string::npos);
}
