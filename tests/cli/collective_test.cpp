// `stepsim collective` and `stepsim validate`.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "tests/cli/program.h"

using namespace stepsim::test;

// Law: algbw = size / time, busbw = algbw x 2 (n-1)/n for an all-reduce; never mixed.
TEST_CASE("collective --json keeps the contract") {
  const auto rows = nlohmann::json::parse(
      output("collective all_reduce --cluster dgx-h100 --bytes 1M..4M --json -"));
  REQUIRE(rows.size() == 3);
  for (const auto& row : rows) {
    CHECK(row.size() == 9);
    CHECK(row.at("op") == "all_reduce");
    const double algbw = row.at("algbw_bytes_per_second");
    CHECK(algbw ==
          doctest::Approx(row.at("bytes").get<double>() / row.at("seconds").get<double>()));
    CHECK(row.at("busbw_bytes_per_second").get<double>() == doctest::Approx(1.75 * algbw));
    CHECK(row.at("sms") == row.at("channels"));
  }
  CHECK(rows[0].at("bytes") == 1048576);
  CHECK(rows[0].at("algorithm") == "ring");
  CHECK(rows[0].at("protocol") == "LL");
  CHECK(rows[2].at("algorithm") == "nvls");
}

TEST_CASE("collective: a table of at most 100 columns") {
  const std::string text =
      output("collective alltoall --cluster gb200-nvl72:36 --gpus 128 --bytes 8,1M,64G");
  std::istringstream lines(text);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) CHECK(line.size() <= 100);
  CHECK(rows > 6);
  CHECK(text.find("all_to_all of 128 GPUs") == 0);
  CHECK(text.find("64 GiB") != std::string::npos);
}

TEST_CASE("collective: which GPUs") {
  const auto first = [](const std::string& words) {
    return output("collective all_gather --bytes 1M " + words).substr(0, 70);
  };
  CHECK(first("--cluster dgx-h100 --gpus 16").find("16 GPUs on 2 nodes") != std::string::npos);
  CHECK(first("--cluster dgx-h100:4 --per-node 1").find("4 GPUs on 4 nodes") != std::string::npos);
  CHECK(first("--cluster gb200-nvl72").find("72 GPUs on 18 nodes") != std::string::npos);
}

// Law: all but an algorithm that was not chosen changes nothing.
TEST_CASE("collective: NCCL_ALGO behind ^") {
  for (const char* words : {"all_reduce --cluster dgx-h100:1 --bytes 64K,64M",
                            "all_gather --cluster dgx-h100:1 --bytes 8,64K,64M,8G",
                            "all_gather --cluster dgx-h100:2 --bytes 8,64K,64M,8G",
                            "all_reduce --cluster dgx-b200:4 --bytes 8G"}) {
    const std::string command = "collective " + std::string(words);
    for (const char* less : {" env_vars.NCCL_ALGO=^collnet", " env_vars.NCCL_ALGO=^symmetric"})
      CHECK(output(command + less) == output(command));
  }
  const std::string command = "collective all_reduce --cluster dgx-h100:1 --bytes 64K";
  CHECK(output(command).find("  ring ") != std::string::npos);
  CHECK(output(command + " env_vars.NCCL_ALGO=^tree") == output(command));
  const auto rows =
      nlohmann::json::parse(output("collective all_reduce --cluster dgx-h100:1 --bytes 1G --json - "
                                   "env_vars.NCCL_ALGO=^nvls,nvlstree"));
  CHECK(rows[0].at("algorithm") == "ring");
}

TEST_CASE("collective: cluster.gpus is --gpus") {
  for (const char* words : {"--cluster dgx-h100:2", "--cluster dgx-h100", "--cluster gb200-nvl72",
                            "--cluster dgx-h100 --per-node 4"}) {
    const std::string command = "collective all_gather --bytes 1M,1G " + std::string(words);
    CHECK(output(command + " cluster.gpus=12") == output(command + " --gpus 12"));
    CHECK(output(command + " cluster.gpus=12 --gpus 12") == output(command + " --gpus 12"));
  }
  CHECK(output("collective all_gather --cluster dgx-h100 --gpus 7 --per-node 4 --bytes 1M")
            .find("7 GPUs on 2 nodes of dgx-h100: 2 NVLink domains of 3 to 4\n") !=
        std::string::npos);
}

TEST_CASE("run: what --no-contention leaves out") {
  CHECK(output("run --help").find("share no link, no SM and no memory bandwidth") !=
        std::string::npos);
}

// The largest size there is over the slowest pair.
TEST_CASE("collective: columns never run together") {
  const std::string text = output("collective send_recv --cluster dgx-h100:64 --bytes 1024T");
  CHECK(text.find(" 1024 TiB ") != std::string::npos);
}

TEST_CASE("collective and validate: bad input exits 2 with one line") {
  for (const auto& refusal : {
           std::pair{"collective all_redcue --cluster dgx-h100", "did you mean 'all_reduce'?"},
           {"collective all_reduce", "/--cluster: is required"},
           {"collective all_reduce --cluster dgx-h10", "did you mean"},
           {"collective all_reduce --cluster dgx-h100 --bytes 8X", "/--bytes: must be sizes"},
           {"collective all_reduce --cluster dgx-h100 --bytes 8M..4M", "must rise"},
           {"collective all_reduce --cluster dgx-h100:1 --gpus 9", "must be at most 1 nodes x 8"},
           {"collective all_reduce --cluster dgx-h100:2 --per-node 9", "at most 8 GPUs per node"},
           {"collective all_reduce --cluster dgx-h100 --per-node 1", "at least 2"},
           {"collective all_reduce --cluster dgx-h100 env_vars.NCCL_ALGO=rng", "mean 'ring'?"},
           {"collective all_reduce --cluster dgx-h100 train.x=1", "is no part of a system"},
           {"collective all_reduce --cluster dgx-h100 --bytes 1025T", "must be at most 1 PiB"},
           {"collective all_reduce --cluster dgx-h100 --bytes 999999999999999T", "at most 1 PiB"},
           {"collective all_reduce --cluster dgx-h100:2 --gpus 8 cluster.gpus=4",
            "/cluster/gpus: is 4, but --gpus is 8"},
           {"collective all_reduce --cluster dgx-h100:1 cluster.gpus=9", "1 x 8 = 8; got 9"},
           {"collective all_reduce --cluster dgx-h100 cluster.gpus=1", "integer from 2"},
           {"collective all_reduce --cluster dgx-h100 'cluster.faults=[{\"foo\":1}]'",
            "/cluster/faults: is not simulated here"},
           {"collective all_reduce --cluster dgx-h100 'cluster.slowdown={\"0\":1.5}'",
            "/cluster/slowdown: is not simulated here"},
           {"collective all_reduce --cluster dgx-h100 'cluster.jitter={\"sigma\":0.1}'",
            "/cluster/jitter: is not simulated here"},
           {"collective all_reduce --cluster dgx-h100 software.nccl=abc", "such as 2.27.5"},
           {"collective all_reduce --cluster dgx-h100 'software.nccl=\"\"'", "such as 2.27.5"},
           {"collective all_reduce --cluster dgx-h100 software.nccl=3", "such as 2.27.5"},
           {"validate", "/--collectives: is required"},
           {"validate --collectives no/such.csv", "no/such.csv"},
           {"validate --collectives tests/published", "is a directory; expected a CSV file"},
           {"validate --collectives README.md", "README.md:1:1: has no column"},
           {"validate --kernels no/such.csv", "no/such.csv"},
           {"validate --kernels tests/published", "is a directory; expected a CSV file"},
           {"validate --kernels README.md", "README.md:1:1: has no column"},
           {"validate --kernels a --collectives b", "/--kernels: cannot be combined"},
           {"validate --rows no/such.jsonl", "no/such.jsonl"},
           {"validate --rows tests/published", "is a directory; expected a file of JSON lines"},
           {"validate --rows README.md", "README.md:1:1: not JSON"},
           {"validate --rows a --collectives b", "/--rows: cannot be combined"},
       }) {
    CAPTURE(std::string(refusal.first));
    const Outcome outcome = outcome_of(refusal.first);
    const std::string& text = outcome.err;
    CAPTURE(text);
    CHECK(outcome.code == 2);
    CHECK(text.find(refusal.second) != std::string::npos);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  }
}

TEST_CASE("validate --json") {
  const auto body = nlohmann::json::parse(
      output("validate --collectives tests/published/collectives.csv --json -"));
  CHECK(body.at("rows").size() > 1400);
  const auto& row = body.at("rows")[0];
  CHECK(row.at("relative_error").get<double>() ==
        doctest::Approx(row.at("predicted_seconds").get<double>() /
                            row.at("measured_seconds").get<double>() -
                        1));
  CHECK(row.at("message_bytes").get<double>() > 0);
  for (const char* key : {"count", "mean_abs", "median_abs", "p90_abs", "max_abs", "bias"})
    CHECK(body.at("statistics").at("overall").contains(key));
  CHECK(body.at("statistics").at("by_group").size() > 30);
}

TEST_CASE("validate --rows --json") {
  const auto body =
      nlohmann::json::parse(output("validate --rows tests/published/dense_cp_a2a.jsonl --json -"));
  CHECK(body.at("rows").size() == 7);
  for (const auto& row : body.at("rows")) {
    CHECK(row.at("tier") == "A");
    CHECK(row.at("measured_seconds").get<double>() > 0);
    CHECK(row.at("predicted_seconds").is_null() == row.at("failure").is_string());
    CHECK(row.at("relative_error").is_null() == row.at("failure").is_string());
  }
  CHECK(body.at("statistics").contains("overall"));
}
