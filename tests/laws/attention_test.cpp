// Laws of latent attention, kinds of context parallelism, windows and prediction modules: folded
// equals unfolded, the ledger adds up, faster hardware is never slower, size 1 is the plain model.
#include <doctest/doctest.h>

#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;
using nlohmann::json;

namespace {

/// A scenario of a tiny model, merged with `patch`.
json attention_json(const Layout& l, const char* patch, const char* system = "dgx-h100") {
  json s = scenario_json("pythia-160m", system, l);
  s["model"]["num_attention_heads"] = 16;
  s["model"]["hidden_size"] = 1024;
  s.merge_patch(json::parse(patch));
  return s;
}

struct Kind {
  const char* name;
  const char* patch;
  Layout layout;
};
const std::vector<Kind> kinds{
    {"latents",
     R"({"model": {"multi_latent_attention": true}})",
     {.tp = 2, .cp = 2, .dp = 2, .pp = 2, .sp = true}},
    {"latents without sequence parallelism",
     R"({"model": {"multi_latent_attention": true}})",
     {.tp = 4, .dp = 4}},
    {"latents again",
     R"({"model": {"multi_latent_attention": true}})",
     {.tp = 2, .dp = 8, .sp = true, .recompute = "mla_up_proj+core_attn+layernorm"}},
    {"all_gather", R"({"model": {"cp_comm_type": "all_gather"}})", {.cp = 4, .dp = 2, .pp = 2}},
    {"a2a", R"({"model": {"cp_comm_type": "a2a"}})", {.tp = 2, .cp = 4, .dp = 2, .sp = true}},
    {"a2a beyond a node", R"({"model": {"cp_comm_type": "a2a"}})", {.cp = 16}},
    {"a2a+p2p",
     R"({"model": {"cp_comm_type": "a2a+p2p",
                              "hierarchical_context_parallel_sizes": [4, 2]}})",
     {.tp = 2, .cp = 8, .sp = true}},
    {"a2a+p2p of latents",
     R"({"model": {"cp_comm_type": "a2a+p2p", "multi_latent_attention": true,
                              "hierarchical_context_parallel_sizes": [2, 2]}})",
     {.cp = 4, .dp = 2, .pp = 2, .recompute = "core_attn"}},
    {"window",
     R"({"model": {"window_size": [255, 0], "cp_comm_type": "a2a"}})",
     {.cp = 2, .dp = 4, .pp = 2}},
    {"predictions",
     R"({"model": {"mtp_num_layers": 2}})",
     {.tp = 2, .dp = 2, .pp = 2, .microbatches = 4, .sp = true, .recompute = "uniform"}},
    {"predictions of latents",
     R"({"model": {"mtp_num_layers": 1, "multi_latent_attention": true}})",
     {.dp = 4, .pp = 2, .vp = 2, .grad_overlap = true, .gather_overlap = true}},
};

}  // namespace

TEST_CASE("law: every kind of attention folds, and its ledger adds up") {
  for (const Kind& k : kinds)
    for (bool sharing : {true, false}) {
      CAPTURE(k.name);
      CAPTURE(sharing);
      const Scenario s = read(attention_json(k.layout, k.patch));
      const Report folded = step_of(s, {.unfold = false, .sharing = sharing}).report;
      const Report whole = step_of(s, {.unfold = true, .sharing = sharing}).report;
      CHECK(whole.devices.size() == static_cast<size_t>(s.parallel.world()));
      CHECK(relative(folded.step_seconds, whole.step_seconds) <= 1e-12);
      for (const Report* r : {&folded, &whole})
        for (const auto& d : r->devices) CHECK(relative(d.ledger.sum(), r->step_seconds) <= 1e-9);
    }
}

TEST_CASE("law: with sharing off, a newer system never slows a kind of attention") {
  for (const Kind& k : kinds) {
    CAPTURE(k.name);
    const double before = seconds_of(read(attention_json(k.layout, k.patch, "dgx-a100")), apart),
                 after = seconds_of(read(attention_json(k.layout, k.patch, "dgx-h100")), apart);
    CHECK(after <= before);
  }
}

TEST_CASE("law: at size 1 every kind of context parallelism is the plain model to the bit") {
  const Layout l{.tp = 2, .dp = 2, .pp = 2, .sp = true};
  for (const char* model : {"{}", R"({"model": {"multi_latent_attention": true}})"}) {
    const double plain = seconds_of(read(attention_json(l, model)));
    for (const char* kind : {"p2p", "all_gather", "a2a", "a2a+p2p"}) {
      json s = attention_json(l, model);
      s["model"]["cp_comm_type"] = kind;
      // Bridge and Megatron-LM ask for the levels of a2a+p2p whatever CP is.
      if (kind == std::string("a2a+p2p"))
        s["model"]["hierarchical_context_parallel_sizes"] = json::array({1, 1});
      CHECK(seconds_of(read(s)) == plain);
    }
  }
}

TEST_CASE("law: a window as long as the sequence, and no prediction module, change no bit") {
  const Layout l{.tp = 2, .dp = 2, .pp = 2, .sp = true};
  const double plain = seconds_of(read(attention_json(l, "{}")));
  for (const char* patch :
       {R"({"model": {"window_size": [2047, 0]}})", R"({"model": {"mtp_num_layers": 0}})"})
    CHECK(seconds_of(read(attention_json(l, patch))) == plain);
  double before = plain;
  for (int window : {1024, 512, 256, 128}) {
    json s = attention_json(l, "{}");
    s["model"]["window_size"] = {window - 1, 0};
    const double seconds = seconds_of(read(s), apart);
    CHECK(seconds <= before);
    before = seconds;
  }
}
