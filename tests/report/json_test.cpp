#include "sim/report/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/report/sample.h"

using namespace stepsim;
using OrderedJson = nlohmann::ordered_json;

namespace {

std::string sample_json(const Scenario& s, const std::optional<Timing>& timing = std::nullopt) {
  const RanStep ran = sample_step();
  return report_json(s, make_report(s, ran.step, ran.timeline), timing);
}

std::vector<std::string> keys(const OrderedJson& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

}  // namespace

TEST_CASE("the contract: keys of stepsim.report/1, in order") {
  const OrderedJson j = OrderedJson::parse(sample_json(sample_scenario()));
  CHECK(keys(j) == std::vector<std::string>{"schema",
                                            "version",
                                            "scenario",
                                            "step_time_seconds",
                                            "interval",
                                            "tokens_per_second_per_gpu",
                                            "model_tflops_per_gpu",
                                            "mfu",
                                            "hfu",
                                            "bubble_fraction",
                                            "overlap_efficiency",
                                            "communication_seconds",
                                            "ledger",
                                            "devices",
                                            "memory",
                                            "critical_path",
                                            "faults",
                                            "step_distribution",
                                            "findings",
                                            "effective",
                                            "not_modelled",
                                            "mesh",
                                            "buckets",
                                            "counts"});
  CHECK(j["schema"] == "stepsim.report/1");
  CHECK(keys(j["overlap_efficiency"]) ==
        std::vector<std::string>{"overall", "tp", "cp", "ep", "pp", "dp", "edp"});
  CHECK(keys(j["communication_seconds"]["pp"]) ==
        std::vector<std::string>{"total", "hidden", "not_hidden", "waiting"});
  CHECK(keys(j["ledger"]) == std::vector<std::string>{"compute", "contention", "optimizer", "host",
                                                      "bubble", "skew", "exposed_tp", "exposed_cp",
                                                      "exposed_ep", "exposed_pp", "exposed_dp",
                                                      "exposed_edp", "exposed_embedding",
                                                      "exposed_offload"});
  CHECK(keys(j["devices"][0]) == std::vector<std::string>{"rank", "represents", "stage", "ledger",
                                                          "phase_seconds", "peak_bytes"});
  CHECK(keys(j["memory"]) == std::vector<std::string>{"peak_bytes", "rank", "reserve_bytes",
                                                      "capacity_bytes", "fits", "by_class"});
  CHECK(keys(j["memory"]["by_class"]) == std::vector<std::string>{"parameters", "gradients",
                                                                  "optimizer", "activations",
                                                                  "logits", "buffers"});
  CHECK(keys(j["critical_path"][0]) == std::vector<std::string>{"kind", "seconds"});
  CHECK(keys(j["interval"]) ==
        std::vector<std::string>{"low_seconds", "high_seconds", "level", "widest", "widest_share"});
  CHECK(keys(j["findings"][0]) == std::vector<std::string>{"id", "kind", "key", "pointer",
                                                           "requested", "effective", "reason"});
  CHECK(keys(j["mesh"]) == std::vector<std::string>{"world", "tp", "pp", "vp", "cp", "dp", "ep",
                                                    "etp", "edp", "min_gpus", "microbatches",
                                                    "schedule", "straddling"});
  CHECK(keys(j["counts"]) == std::vector<std::string>{"gpus", "simulated_devices", "tasks"});
}

TEST_CASE("what does not apply or is not simulated is null") {
  const OrderedJson j = OrderedJson::parse(sample_json(sample_scenario()));
  CHECK(j["overlap_efficiency"]["tp"].is_null());
  CHECK(j["overlap_efficiency"]["pp"].is_number());
  CHECK(j["communication_seconds"]["tp"].is_null());
  for (const char* cause : {"contention", "exposed_ep", "exposed_edp", "exposed_offload"})
    CHECK(j["ledger"][cause].is_null());
  CHECK(j["mesh"]["vp"].is_null());
  CHECK(j["mesh"]["ep"].is_null());

  Scenario given = sample_scenario();
  given.costs = GivenCosts{};
  const OrderedJson g = OrderedJson::parse(sample_json(given));
  for (const char* key :
       {"mfu", "hfu", "memory", "tokens_per_second_per_gpu", "model_tflops_per_gpu"})
    CHECK(g[key].is_null());
  CHECK(g["devices"][0]["peak_bytes"].is_null());
}

TEST_CASE("fractions of a ledger add up to one") {
  const OrderedJson j = OrderedJson::parse(sample_json(sample_scenario()));
  const auto sum = [](const OrderedJson& ledger) {
    double total = 0;
    for (const auto& [cause, share] : ledger.items())
      if (!share.is_null()) total += share.get<double>();
    return total;
  };
  CHECK(sum(j["ledger"]) == doctest::Approx(1).epsilon(1e-12));
  for (const OrderedJson& d : j["devices"])
    CHECK(sum(d["ledger"]) == doctest::Approx(1).epsilon(1e-12));
  double path = 0;
  for (const OrderedJson& p : j["critical_path"]) path += p["seconds"].get<double>();
  CHECK(path == doctest::Approx(j["step_time_seconds"].get<double>()).epsilon(1e-12));
  const OrderedJson& pp = j["communication_seconds"]["pp"];
  CHECK(pp["total"] ==
        doctest::Approx(pp["hidden"].get<double>() + pp["not_hidden"].get<double>()));
}

TEST_CASE("values keep their types, and doubles read back as the same bits") {
  const Scenario s = sample_scenario();
  const RanStep ran = sample_step();
  const Report r = make_report(s, ran.step, ran.timeline);
  const OrderedJson j = OrderedJson::parse(report_json(s, r));
  CHECK(j["step_time_seconds"].get<double>() == r.step_seconds);
  CHECK(j["mfu"].get<double>() == *r.mfu);
  CHECK(j["effective"]["model.tp_comm_overlap"] == false);
  CHECK(j["effective"]["ddp.bucket_size"] == 40000000);
  CHECK(j["scenario"]["model"]["hf_config"] == "toy-7b");
  CHECK(j["findings"][0]["kind"] == "silent");
  CHECK(j["mesh"]["schedule"] == "1f1b");
  CHECK(j["buckets"][0]["count"] == 3);
  CHECK(j["memory"]["fits"] == true);
  CHECK(j["counts"]["tasks"] == ran.step.graph.task_count());
}

TEST_CASE("same input, same bytes; timing only when asked for") {
  const Scenario s = sample_scenario();
  CHECK(sample_json(s) == sample_json(s));
  const OrderedJson timed =
      OrderedJson::parse(sample_json(s, Timing{.lower_seconds = 0.5, .engine_seconds = 0.25}));
  CHECK(timed["timing"]["tasks_per_second"] == timed["counts"]["tasks"].get<double>() / 0.25);
}
