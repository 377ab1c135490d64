// What env_vars and software.nccl say to NCCL.
#include "sim/config/nccl.h"

#include <doctest/doctest.h>

#include "sim/base/error.h"
#include "sim/config/cluster_read.h"

using namespace stepsim;

namespace {

NcclSettings nccl_of(std::vector<std::string> words) {
  return read_cluster_words("dgx-h100:2", words, find_data()).nccl;
}

std::string nccl_refusal(const std::string& word) {
  try {
    nccl_of({word});
  } catch (const Error& error) {
    return error.pointer() + " " + error.message();
  }
  return "";
}

constexpr unsigned algorithm(std::string_view name) { return name_bit(nccl_algorithms, name); }

}  // namespace

TEST_CASE("NCCL_ALGO and NCCL_PROTO: lists, exclusions, by function, in any letters") {
  CHECK(nccl_of({}).algorithms == std::array<unsigned, 5>{});
  const NcclSettings two = nccl_of({"env_vars.NCCL_ALGO=Ring,TREE"});
  for (const unsigned mask : two.algorithms) CHECK(mask == (algorithm("ring") | algorithm("tree")));
  const NcclSettings without = nccl_of({"env_vars.NCCL_ALGO=^NVLSTree"});
  CHECK((without.algorithms[0] & algorithm("nvlstree")) == 0);
  CHECK((without.algorithms[0] & algorithm("nvls")) != 0);
  // All but these are what NCCL considers otherwise: without SHARP and without our own.
  CHECK(without.algorithms[0] ==
        (algorithm("ring") | algorithm("tree") | algorithm("nvls") | algorithm("pat")));
  // Nobody asked for gathering by NVLS.
  CHECK(without.algorithms[1] == (algorithm("ring") | algorithm("tree") | algorithm("pat")));
  CHECK(nccl_of({"env_vars.NCCL_ALGO=^ring", "env_vars.NCCL_COLLNET_ENABLE=1"}).algorithms[0] ==
        (algorithm("tree") | algorithm("nvls") | algorithm("nvlstree") | algorithm("pat") |
         algorithm("collnetdirect") | algorithm("collnetchain")));
  CHECK(nccl_of({"env_vars.NCCL_ALGO=allreduce:^tree", "env_vars.NCCL_NVLS_ENABLE=0"})
            .algorithms[0] == (algorithm("ring") | algorithm("pat")));
  CHECK(nccl_of({"env_vars.NCCL_ALGO=symmetric"}).algorithms[0] == algorithm("symmetric"));
  const NcclSettings by_function =
      nccl_of({"env_vars.NCCL_ALGO=allreduce:tree;allgather:pat,ring"});
  CHECK(by_function.algorithms[0] == algorithm("tree"));
  CHECK(by_function.algorithms[1] == (algorithm("pat") | algorithm("ring")));
  CHECK(by_function.algorithms[2] == 0);
  CHECK(nccl_of({"env_vars.NCCL_ALGO=collnet"}).algorithms[0] == algorithm("collnetdirect"));
  CHECK(nccl_of({"env_vars.NCCL_PROTO=^LL128"}).protocols[0] ==
        (name_bit(nccl_protocols, "ll") | name_bit(nccl_protocols, "simple")));
}

TEST_CASE("NCCL's numbers are text or numbers; the version counts as NCCL counts") {
  const NcclSettings nccl = nccl_of(
      {"software.nccl=2.29.7", "env_vars.NCCL_NVLS_ENABLE=0", "env_vars.NCCL_COLLNET_ENABLE=\"1\"",
       "env_vars.NCCL_MAX_CTAS=16", "env_vars.NCCL_MAX_NCHANNELS=\"8\"", "env_vars.NCCL_MIN_CTAS=4",
       "env_vars.NCCL_NCHANNELS_PER_NET_PEER=2", "env_vars.NCCL_CTA_POLICY=2"});
  CHECK(nccl.version == 22907);
  CHECK_FALSE(nccl.nvls);
  CHECK(nccl.collnet);
  CHECK(nccl.max_ctas == 8);  // the smaller of the two
  CHECK(nccl.min_ctas == 4);
  CHECK(nccl.channels_per_net_peer == 2);
  CHECK(nccl.zero_ctas);
  CHECK(nccl_of({"software.nccl=2.21"}).version == 22100);
  CHECK(nccl_of({"software.nccl=2.27.5-1+cuda12.9"}).version == 22705);
  CHECK(nccl_of({}).version == 0);
  CHECK(nccl_of({"env_vars.NCCL_NVLS_ENABLE=2", "env_vars.NCCL_CTA_POLICY=1"}).nvls);
}

TEST_CASE("what NCCL would not understand is refused with the nearest name") {
  CHECK(nccl_refusal("env_vars.NCCL_ALGO=rign") ==
        "/env_vars/NCCL_ALGO unknown name 'rign'; did you mean 'ring'?");
  CHECK(nccl_refusal("env_vars.NCCL_ALGO=allreduse:ring") ==
        "/env_vars/NCCL_ALGO unknown function 'allreduse'; did you mean 'allreduce'?");
  CHECK(nccl_refusal("env_vars.NCCL_PROTO=LL129") ==
        "/env_vars/NCCL_PROTO unknown name 'll129'; did you mean 'll128'?");
  CHECK(nccl_refusal("env_vars.NCCL_PROTO=^ll,ll128,simple") ==
        "/env_vars/NCCL_PROTO leaves nothing to choose from");
  CHECK(nccl_refusal("env_vars.NCCL_ALGO=^ring,tree,nvls,nvlstree,pat") ==
        "/env_vars/NCCL_ALGO leaves nothing to choose from");
  for (const char* text : {"", "newest", "3", "2.", "2.27.5.1", "2.27x", "-2.27", "2.100"})
    CHECK(nccl_refusal("software.nccl=\"" + std::string(text) + "\"") ==
          "/software/nccl must be a version such as 2.27.5; got '" + std::string(text) + "'");
  CHECK(nccl_refusal("env_vars.NCCL_ALGO=1").find("names as text") != std::string::npos);
  CHECK(nccl_refusal("env_vars.NCCL_MAX_CTAS=0").find("1") != std::string::npos);
  CHECK(nccl_refusal("env_vars.NCCL_MAX_CTAS=many").find("integer from 1 to 64") !=
        std::string::npos);
  CHECK(nccl_refusal("env_vars.NCCL_NVLS_ENABEL=0").find("NCCL_NVLS_ENABLE") != std::string::npos);
  CHECK(nccl_refusal("model.num_layers=2") ==
        "/model is no part of a system; valid: cluster, "
        "software, env_vars");
}
