// `stepsim collective` and `stepsim validate`.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "tests/cli/program.h"

using namespace stepsim::test;

namespace {

/// Exit code and standard error of words that must not be read.
std::pair<int, std::string> refused_words(const std::string& words) {
  const std::filesystem::path err =
      std::filesystem::temp_directory_path() / "stepsim_collective_test.err";
  const int status = std::system(
      (std::string(STEPSIM_PROGRAM) + " " + words + " >/dev/null 2>" + err.string()).c_str());
  const std::string text = read_text(err.string());
  std::filesystem::remove(err);
  return {WEXITSTATUS(status), text};
}

}  // namespace

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
           {"validate", "/--collectives: is required"},
           {"validate --collectives no/such.csv", "no/such.csv"},
           {"validate --collectives README.md", "README.md:1:1: has no column"},
       }) {
    CAPTURE(std::string(refusal.first));
    const auto [code, said] = refused_words(refusal.first);
    const std::string text = said;
    CAPTURE(text);
    CHECK(code == 2);
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
