// Advice on layouts: starting points and rules of thumb of Megatron-Bridge's guides "parallelism
// strategy selection" and "TP / DP / PP communication overlap" (skills/ of its repository).
// Starting points are to be checked by simulation.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/config/resolve.h"
#include "sim/config/starting_point.h"

namespace stepsim {
namespace {

using Kind = Finding::Kind;

/// Where to start with a dense model of up to `parameters`.
struct DenseStart {
  double parameters;
  int tp_low, tp_high, pp_low, pp_high;
  std::string_view gpus, start;
};
constexpr std::array<DenseStart, 5> dense_starts{{
    {1e9, 1, 1, 1, 1, "1-8", "DP only"},
    {10e9, 2, 4, 1, 1, "8-16", "TP 2-4 + DP"},
    {70e9, 4, 8, 2, 4, "16-64", "TP 4-8 + PP 2-4 + DP"},
    {175e9, 8, 8, 4, 8, "64-256", "TP 8 + PP 4-8 + DP"},
    {500e9, 8, 8, 8, 16, "256-1024", "TP 8 + PP 8-16 + CP 2 + DP"},
}};

std::string text_of(const StartingLayout& s) {
  return "TP" + text(s.tp) + " PP" + text(s.pp) + " EP" + text(s.ep) +
         (s.cp > 1 ? " CP" + text(s.cp) : "");
}

void advise_start(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  const Reader& model = sections.model;
  if (scenario.model.moe.present()) {
    const StartingLayout& s = scenario.model.starting_layout;
    if (s.present() && (s.tp != p.tp || s.pp != p.pp || s.ep != p.ep))
      add_finding(scenario, model, "expert_model_parallel_size", "moe-starting-point", Kind::advice,
                  "TP" + text(p.tp) + " PP" + text(p.pp) + " EP" + text(p.ep), text_of(s),
                  "the guide starts this model here: EP carries the experts, TP is sized by the "
                  "active parameters; simulate both and keep the faster");
    return;
  }
  const auto parameters = static_cast<double>(parameter_count(scenario.model, p.tp));
  const auto* start = std::find_if(dense_starts.begin(), dense_starts.end(),
                                   [&](const DenseStart& s) { return parameters <= s.parameters; });
  if (start == dense_starts.end()) return;
  const bool there = p.tp >= start->tp_low && p.tp <= start->tp_high && p.pp >= start->pp_low &&
                     p.pp <= start->pp_high;
  if (!there)
    add_finding(scenario, model, "tensor_model_parallel_size", "dense-starting-point", Kind::advice,
                "TP" + text(p.tp) + " PP" + text(p.pp), std::string(start->start),
                "the guide starts a dense model of " + text(std::llround(parameters / 1e8) / 10) +
                    "B parameters on " + std::string(start->gpus) +
                    " GPUs here; simulate both and keep the faster");
}

void advise_topology(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  const Cluster& c = scenario.cluster;
  const Reader& model = sections.model;
  const std::string tp = "tensor_model_parallel_size";
  if (p.tp > 1 && c.nvlink_domain % p.tp != 0)
    add_finding(scenario, model, tp, "tp-across-domains", Kind::advice, text(p.tp), text(p.tp),
                "TP groups of " + text(p.tp) + " do not fit NVLink domains of " +
                    text(c.nvlink_domain) +
                    " GPUs: some cross the network in every layer, which is nearly always a loss; "
                    "use a TP that divides the domain and PP across nodes");
  const bool ethernet = c.fabric == "ethernet" || c.fabric == "efa";
  if (ethernet && p.tp > 4 && c.nodes > 1)
    add_finding(scenario, model, tp, "tp-on-ethernet", Kind::advice, text(p.tp), "4",
                "between nodes on Ethernet the guide starts with TP 4 and PP across");
}

void advise_sequence(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  const int64_t s = scenario.batch.sequence;
  const Reader& model = sections.model;
  if (s >= 2048 && p.tp > 1 && !p.sequence_parallel)
    add_finding(scenario, model, "sequence_parallel", "sequence-parallel-from-2k", Kind::advice,
                "false", "true",
                "from 2K tokens on the guide adds sequence parallelism: the same communication, "
                "smaller activations, and TP overlap needs it");
  const int start = s > 32768 ? 4 : s > 8192 ? 2 : 1;
  if (start > p.cp && s % (2 * start) == 0)
    add_finding(scenario, model, "context_parallel_size", "context-parallel-for-long-sequences",
                Kind::advice, text(p.cp), start == 4 ? "4-8" : "2",
                "for sequences of " + text(s) + " tokens the guide starts with CP " +
                    (start == 4 ? "4-8 (and considers cp_comm_type a2a+p2p)" : "2"));
}

void advise_pipeline(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  if (p.pp < 2 || p.vp || !p.layout.empty() || p.first_stage_layers || p.last_stage_layers) return;
  const int layers = scenario.model.layers / p.pp;
  int vp = 0;
  for (int v = 2; v <= layers && vp == 0; ++v)
    if (layers % v == 0) vp = v;
  const int64_t m = scenario.batch.microbatches;
  const bool divides = scenario.model.layers % p.pp == 0 && vp > 0 && m % p.pp == 0 && m >= p.pp;
  if (!divides) return;
  const auto percent = [](double x) { return text(std::llround(x * 100)) + " %"; };
  const double bubble = (p.pp - 1.0) / (static_cast<double>(m) + p.pp - 1),
               less = (p.pp - 1.0) / (vp * static_cast<double>(m) + p.pp - 1);
  add_finding(scenario, sections.model, "virtual_pipeline_model_parallel_size",
              "pipeline-without-interleaving", Kind::advice, "null", text(vp),
              "plain 1F1B idles (PP-1)/(M+PP-1) = " + percent(bubble) + " of the step; VP " +
                  text(vp) + " divides the layers and would leave " + percent(less) +
                  " before communication, and only with VP can p2p overlap");
}

/// Two sends and two receives to one peer carry no tags.
void advise_shape_exchange(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  if (p.pp != 2 || !p.vp || !sections.model.boolean("variable_seq_lengths", false)) return;
  add_finding(scenario, sections.model, "variable_seq_lengths", "shape-exchange-with-one-peer",
              Finding::Kind::advice, "true", "true",
              "at PP 2 the next stage is also the previous one: the interleaved schedule's two "
              "sends and two receives match in the order in which they are posted, and the shapes "
              "of forward and backward are crossed (NVIDIA/Megatron-LM pull request 5271)");
}

void advise_environment(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  const std::string queues = "CUDA_DEVICE_MAX_CONNECTIONS";
  const bool hopper = scenario.cluster.device.architecture != "blackwell";
  const bool ep_overlap = scenario.effective["model.overlap_moe_expert_parallel_comm"] == "true";
  const bool overlaps = p.tp > 1 || p.cp > 1;
  const LaunchEnv& env = scenario.launch_env;
  const int set = env.max_connections_set ? env.max_connections : 0;
  if (hopper && overlaps && !ep_overlap && set != 1)
    add_finding(
        scenario, sections.env_vars, queues, "launch-order-on-hopper", Kind::advice,
        set == 0 ? "null" : text(set), "1",
        "up to Hopper, TP and CP collectives start under compute only when one launch queue "
        "keeps the host's order: set it in the launch environment, it is no overlap key");
  if (!hopper && overlaps && (p.dp > 1 || p.pp > 1) && set > 0 && set < 32)
    add_finding(scenario, sections.env_vars, queues, "launch-queues-on-blackwell", Kind::advice,
                text(set), "32",
                "on Blackwell Megatron-Bridge launches with 32 queues when several kinds of "
                "communication overlap");
}

}  // namespace

std::optional<StartingPoint> starting_point(const Model& model, int64_t sequence) {
  if (model.moe.present()) {
    const StartingLayout& s = model.starting_layout;
    if (!s.present()) return std::nullopt;
    return StartingPoint{.tp_low = s.tp,
                         .tp_high = s.tp,
                         .pp_low = s.pp,
                         .pp_high = s.pp,
                         .cp = s.cp,
                         .ep = s.ep,
                         .text = text_of(s),
                         .gpus = ""};
  }
  const auto parameters = static_cast<double>(parameter_count(model, 1));
  for (const DenseStart& s : dense_starts)
    if (parameters <= s.parameters)
      return StartingPoint{.tp_low = s.tp_low,
                           .tp_high = s.tp_high,
                           .pp_low = s.pp_low,
                           .pp_high = s.pp_high,
                           // Of the sizes the largest asks for CP; else long sequences do.
                           .cp = &s == &dense_starts.back() || sequence > 8192 ? 2 : 1,
                           .ep = 0,
                           .text = std::string(s.start),
                           .gpus = std::string(s.gpus)};
  return std::nullopt;
}

void advise(const ScenarioSections& sections, Scenario& scenario) {
  advise_start(sections, scenario);
  advise_topology(sections, scenario);
  advise_sequence(sections, scenario);
  advise_pipeline(sections, scenario);
  advise_shape_exchange(sections, scenario);
  advise_environment(sections, scenario);
}

}  // namespace stepsim
