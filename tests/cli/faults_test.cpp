// What a report says of injected faults, in words.
#include "tests/cli/program.h"

using namespace stepsim::test;

namespace {

/// The paragraph about faults on one line.
std::string faults_line(const std::string& words) {
  std::istringstream in(output("run " + words));
  std::string all;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("Faults"))
      all = line.substr(15);
    else if (!all.empty() && line.starts_with("     "))
      all += line.substr(14);
    else if (!all.empty())
      break;
  }
  return all;
}

}  // namespace

TEST_CASE("a degraded link makes no rank late, and the report names the link") {
  const std::string text = faults_line(
      "scenarios/llama3.1-8b-8xh100-bf16.json model.tensor_model_parallel_size=2 "
      "model.pipeline_model_parallel_size=2 model.context_parallel_size=2 "
      "train.global_batch_size=8 'cluster.faults=[{\"gpu\":3,\"nvlink_factor\":0.3}]'");
  CAPTURE(text);
  CHECK(text.starts_with("no rank computes later; degraded: rank 3's NVLink at 30.0 %; "));
  CHECK(tells(text, "; without its fault the step takes "));
}

TEST_CASE("who else is late is counted in ranks, whether one or all of them are simulated") {
  const auto line = [](const std::string& faults, const char* flag) {
    return faults_line("scenarios/straggler-4xh100-ddp.json 'cluster.faults=[" + faults + "]'" +
                       flag);
  };
  const std::string slow[] = {R"({"rank": 1, "compute_factor": 0.5})",
                              R"({"rank": 2, "compute_factor": 0.5})",
                              R"({"rank": 3, "compute_factor": 0.5})"};
  for (const char* flag : {"", " --unfold"}) {
    CAPTURE(std::string(flag));
    const std::string one = line(slow[1], flag), two = line(slow[2] + "," + slow[0], flag),
                      three = line(slow[0] + "," + slow[1] + "," + slow[2], flag);
    CAPTURE(one);
    CAPTURE(two);
    CAPTURE(three);
    CHECK(one.starts_with("rank 2 (stage 0) is "));
    CHECK(tells(one, " ms late; without its fault the step takes "));
    CHECK(two.starts_with("rank 1 (stage 0) and 1 more rank are late, by up to "));
    CHECK(three.starts_with("rank 1 (stage 0) and 2 more ranks are late, by up to "));
    CHECK(tells(three, "; without its faults the step takes "));
  }
  const std::string all = slow[0] + "," + slow[1] + "," + slow[2];
  CHECK(line(all, "") == line(all, " --unfold"));
}
