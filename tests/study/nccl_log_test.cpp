// What nccl-tests prints is read; what is no such output is one clear error.
#include "sim/study/nccl_log.h"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.h"

using namespace stepsim;

namespace {

// The layout of NVIDIA/nccl-tests src/common.cu; figures of nebius/soperator pull request 428.
const std::string ranks =
    "# nThread 1 nGpus 1 minBytes 536870912 maxBytes 8589934592 step: 2(factor) warmup iters: 5\n"
    "#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1885 on   worker-0 device  0 [0x8d] NVIDIA H100 80GB HBM3\n";
const std::string head =
    "#\n#                                                out-of-place              in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time"
    "   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)"
    "  (GB/s)  (GB/s)\n";
const std::string log_row =
    "   536870912     134217728     float     sum      -1   2138.2  251.09  470.79      0   2133.1"
    "  251.69  471.91      0\n";

std::string log_refusal(const std::string& text, const std::string& file = "all_reduce.log") {
  try {
    read_nccl_log(text, file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("size, time, ranks and hosts of a log") {
  const auto samples = read_nccl_log(ranks + head + log_row, "runs/all_reduce-2.log");
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].op == Collective::all_reduce);
  CHECK(samples[0].gpus == 2);
  CHECK(samples[0].nodes == 2);
  CHECK(samples[0].bytes == 536870912);
  CHECK(samples[0].seconds == doctest::Approx(2138.2e-6));
}

TEST_CASE("the log's own word for the operation counts before the file's name") {
  for (const char* word : {"# Collective test starting: all_gather_perf\n",
                           "$ mpirun ./build/all_gather_perf_mpi -b 1M\n"}) {
    const auto samples = read_nccl_log(word + ranks + head + log_row, "all_reduce.log");
    REQUIRE(samples.size() == 1);
    CHECK(samples[0].op == Collective::all_gather);
  }
}

TEST_CASE("runs in one file, tags of mpirun, and layouts without redop and root") {
  const std::string old_head = "#       size  count  type     time   algbw   busbw  error\n";
  const std::string text = "# Collective test starting: all_gather_perf\n" + ranks + head +
                           log_row +
                           "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 470.79\n" +
                           "# Collective test starting: alltoall_perf\n" + ranks + old_head +
                           "[1,0]<stdout>:  1024  256  float  16.57  0.06  0.06  0e+00\n";
  const auto samples = read_nccl_log(text, "x.txt");
  REQUIRE(samples.size() == 2);
  CHECK(samples[1].op == Collective::all_to_all);
  CHECK(samples[1].gpus == 2);
  CHECK(samples[1].seconds == doctest::Approx(16.57e-6));
}

TEST_CASE("a log that cannot be read says where and why") {
  CHECK(log_refusal("Segmentation fault\n").find("holds no table of nccl-tests") !=
        std::string::npos);
  CHECK(log_refusal(ranks + head + "  1024  256  float  sum\n").find("10:1: expected 13 columns") !=
        std::string::npos);
  CHECK(log_refusal(head + log_row).find("no two '# Rank' lines") != std::string::npos);
  CHECK(log_refusal(ranks + head + log_row, "out.log").find("which operation ran") !=
        std::string::npos);
  const std::string bad = "   536870912  134217728 float sum -1 fast 251.09 470.79 0 1 1 1 0\n";
  CHECK(log_refusal(ranks + head + bad).find("'time' must be a number from 0; got 'fast'") !=
        std::string::npos);
}

TEST_CASE("a table of collectives") {
  const std::string good = "op,n_gpus,n_nodes,msg_bytes,time_us\nall_reduce,16,2,1048576,50\n";
  const auto samples = read_collective_table(good, "x.csv");
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].nodes == 2);
  CHECK(samples[0].seconds == doctest::Approx(50e-6));
  CHECK_THROWS_AS(
      read_collective_table("op,n_gpus,n_nodes,msg_bytes,time_us\nallreduse,8,1,1,1\n", "x.csv"),
      Error);
  CHECK_THROWS_AS(
      read_collective_table("op,n_gpus,n_nodes,msg_bytes,time_us\nall_reduce,9,2,1,1\n", "x.csv"),
      Error);
}
