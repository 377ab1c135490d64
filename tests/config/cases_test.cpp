// Known misunderstandings of users, each as a small scenario: the finding, its key, its reason.
#include <algorithm>

#include "tests/config/resolution_table.h"

using namespace stepsim;
using namespace stepsim::table;

namespace {

Finding finding(const Scenario& scenario, const std::string& id) {
  const auto found = std::find_if(scenario.findings.begin(), scenario.findings.end(),
                                  [&](const Finding& f) { return f.id == id; });
  REQUIRE_MESSAGE(found != scenario.findings.end(), id);
  return *found;
}

bool mentions(const Finding& f, const std::string& words) {
  return f.reason.find(words) != std::string::npos;
}

}  // namespace

// https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/main/docs/training/communication-overlap.md:
// TP overlap is reset without an error when sequence parallelism is off.
TEST_CASE("case: TP overlap without sequence parallelism") {
  const Scenario off = resolved(Base::dense, "m.hf_config=llama3-70b tp=4 on sp=false");
  CHECK(off.effective.at("model.tp_comm_overlap") == "false");
  CHECK_FALSE(off.overlap.tp_comm_overlap);
  const Finding f = finding(off, "tp-overlap-needs-sequence-parallel");
  CHECK(f.kind == Finding::Kind::silent);
  CHECK(f.key == "comm_overlap.tp_comm_overlap");
  CHECK(f.pointer == "/comm_overlap/tp_comm_overlap");
  CHECK(f.requested == "true");
  CHECK(f.effective == "false");
  CHECK(mentions(f, "sequence_parallel"));
  const Scenario on = resolved(Base::dense, "m.hf_config=llama3-70b tp=4 on sp=true");
  CHECK(on.effective.at("model.tp_comm_overlap") == "true");
  const Finding alone = finding(resolved(Base::dense, "on"), "tp-overlap-needs-tp");
  CHECK(mentions(alone, "tensor_model_parallel_size is 1"));
}

// https://github.com/NVIDIA/Megatron-LM/issues/4385 and /1069: p2p overlap needs the interleaved
// schedule; Megatron-LM resets the switch, Megatron-Core under Bridge raises.
TEST_CASE("case: pipeline overlap without virtual stages") {
  const std::string words = "pp=4 m.overlap_p2p_comm=true m.batch_p2p_comm=false";
  const Scenario reset = resolved(Base::megatron_lm, words);
  CHECK(reset.effective.at("model.overlap_p2p_comm") == "false");
  const Finding silent = finding(reset, "mlm-p2p-overlap-needs-vp");
  CHECK(silent.kind == Finding::Kind::silent);
  CHECK(silent.key == "model.overlap_p2p_comm");
  CHECK(silent.effective == "false");
  CHECK(mentions(silent, "non-interleaved schedule"));
  const Scenario raised = resolved(Base::dense, words);
  const Finding error = finding(raised, "p2p-overlap-needs-vp");
  CHECK(error.kind == Finding::Kind::error);
  CHECK(error.key == "model.overlap_p2p_comm");
  CHECK(mentions(error, "virtual_pipeline_model_parallel_size"));
  // Bridge chooses by itself: overlap with virtual stages, none without.
  CHECK(resolved(Base::dense, "pp=4 vp=2 section").overlap.overlap_p2p);
  CHECK_FALSE(resolved(Base::dense, "pp=4 section").overlap.overlap_p2p);
}

// https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/main/docs/performance-guide.md calls it bytes
// in one place and elements in another; https://github.com/NVIDIA/recsys-examples/pull/374 shipped
// bucket_size=True.
TEST_CASE("case: a bucket counts parameters") {
  const std::string base = "sharded section pp=2 ";
  for (const auto& [words, bytes] :
       {std::pair{"mixed_precision=bf16_mixed", "512 MiB of 4-byte gradients"},
        std::pair{"mixed_precision=bf16_mixed x.grad_reduce_in_fp32=false",
                  "256 MiB of 2-byte gradients"}}) {
    const Scenario s = resolved(Base::dense, base + "o.bucket_size=134217728 " + words);
    CHECK(s.data_parallel.bucket_size == 134'217'728);
    const Finding f = finding(s, "bucket-size-counts-elements");
    CHECK(f.kind == Finding::Kind::unit);
    CHECK(f.key == "comm_overlap.bucket_size");
    CHECK(mentions(f, "134217728 elements are"));
    CHECK(mentions(f, bytes));
  }
  // Megatron-Core's default, max(40e6, 1e6 x DP) elements, and Bridge's.
  CHECK(
      resolved(Base::dense, "pp=2 sharded d.overlap_grad_reduce=true").data_parallel.bucket_size ==
      40'000'000);
  CHECK(resolved(Base::dense, base).data_parallel.bucket_size == int64_t{128} << 20);
  // Without overlap there is one bucket, whatever the size.
  const Scenario off =
      resolved(Base::dense, base + "o.overlap_grad_reduce=false o.bucket_size=40000000");
  CHECK_FALSE(off.data_parallel.bucket_size.has_value());
  const Finding f = finding(off, "bucket-size-needs-grad-overlap");
  CHECK(f.key == "comm_overlap.bucket_size");
  CHECK(mentions(f, "one bucket"));
  const Scenario truth = resolved(Base::dense, base + "o.bucket_size=True");
  CHECK(truth.data_parallel.bucket_size == 1);
  CHECK(mentions(finding(truth, "bucket-size-is-a-switch"), "one collective per tensor"));
}
