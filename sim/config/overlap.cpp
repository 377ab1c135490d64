// CommOverlapConfig as Megatron-Bridge applies it (src/megatron/bridge/training/comm_overlap.py):
// defaults by layout, then the user's values, then written over model and ddp, False included.
// Without the section nothing of this runs and Megatron-Core's defaults hold
// (model_parallel_config.py, distributed_data_parallel_config.py).
#include "sim/config/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using Kind = Finding::Kind;

/// tp_comm_overlap_rs_dgrad: qkv's and fc1's data gradients are reduce-scattered piece by piece,
/// and their bulk collectives are off (Transformer Engine pytorch/module/layernorm_linear.py).
/// Without it a configured pipeline is not reached. A bulk communicator cannot reduce.
void resolve_reduced_dgrads(bool on, TpOverlaps& methods) {
  using enum TpGemm;
  for (const auto& [dgrad, wgrad] :
       {std::pair{qkv_dgrad, qkv_wgrad}, std::pair{fc1_dgrad, fc1_wgrad}}) {
    TpOverlap& method = methods[static_cast<size_t>(dgrad)];
    if (on) methods[static_cast<size_t>(wgrad)] = {};
    if (on == (method.method == TpMethod::bulk)) method = {};
  }
}

void resolve_tp(const ScenarioSections& sections, Scenario& scenario) {
  Overlap& overlap = scenario.overlap;
  const Reader& model = sections.model;
  const Reader& asked = sections.comm_overlap.present() ? sections.comm_overlap : model;
  overlap.tp_comm_overlap =
      written_switch(scenario, sections, model, "tp_comm_overlap", false, false);
  const int tp = scenario.parallel.tp;
  // Megatron-LM's arguments.py asserts what Bridge switches off.
  if (overlap.tp_comm_overlap && sections.dialect == Dialect::megatron_lm &&
      !scenario.parallel.sequence_parallel) {
    refuse(sections, scenario, asked, "tp_comm_overlap", "mlm-tp-overlap-needs-sequence-parallel",
           "needs sequence_parallel, and that needs tensor_model_parallel_size > 1");
    overlap.tp_comm_overlap = false;
  }
  // Bridge's gates, in its order; none of them is an error there.
  if (overlap.tp_comm_overlap && tp < 2) {
    overlap.tp_comm_overlap = false;
    add_finding(
        scenario, asked, "tp_comm_overlap", "tp-overlap-needs-tp", Kind::silent, "true", "false",
        "there is no tensor-parallel communication to overlap: tensor_model_parallel_size is 1");
  }
  if (overlap.tp_comm_overlap && !scenario.parallel.sequence_parallel) {
    overlap.tp_comm_overlap = false;
    add_finding(scenario, asked, "tp_comm_overlap", "tp-overlap-needs-sequence-parallel",
                Kind::silent, "true", "false",
                "userbuffers overlap all-gathers and reduce-scatters, which only sequence "
                "parallelism makes: model.sequence_parallel is false");
  }
  if (overlap.tp_comm_overlap && scenario.software.transformer_engine == "none") {
    overlap.tp_comm_overlap = false;
    add_finding(scenario, asked, "tp_comm_overlap", "tp-overlap-needs-transformer-engine",
                Kind::silent, "true", "false",
                "userbuffers are Transformer Engine's, and software.transformer_engine says that "
                "it is not installed");
  }
  // Transformer Engine's modules outside qkv, proj, fc1 and fc2 clear the switch for every layer
  // built after them; expert linears never use it.
  if (overlap.tp_comm_overlap && scenario.model.mla.present()) {
    overlap.tp_comm_overlap = false;
    add_finding(scenario, asked, "tp_comm_overlap", "tp-overlap-excludes-mla", Kind::silent, "true",
                "false",
                "the down projections of multi-latent attention are no linear that userbuffers "
                "serve: Transformer Engine switches them off for the whole model");
  }
  if (overlap.tp_comm_overlap && scenario.model.moe.present())
    add_finding(scenario, asked, "tp_comm_overlap", "tp-overlap-not-for-experts", Kind::advice,
                "true", "true", "attention overlaps its collectives, expert linears never do");
  scenario.effective["model.tp_comm_overlap"] = json_text(overlap.tp_comm_overlap);
  const auto delayed = scenario.effective.find("model.delay_wgrad_compute");
  if (overlap.tp_comm_overlap && delayed != scenario.effective.end() && delayed->second == "true")
    refuse(sections, scenario, asked, "delay_wgrad_compute", "delayed-wgrad-excludes-userbuffers",
           "cannot be combined with tp_comm_overlap (Transformer Engine raises in the first "
           "backward)");

  TpOverlaps methods = built_in_overlaps(tp);
  const nlohmann::json* cfg = asked.find("tp_comm_overlap_cfg");
  if (cfg != nullptr && cfg->is_string()) {
    const std::string preset = asked.string("tp_comm_overlap_cfg", "");
    const std::vector<std::string> names = preset_names();
    if (!apply_preset(preset, tp, methods)) {
      asked.fail("tp_comm_overlap_cfg",
                 "unknown preset '" + printable(preset) + "'" + suggestion(preset, names));
    }
  } else if (cfg != nullptr) {
    read_tp_overlaps(asked.child("tp_comm_overlap_cfg"), tp, methods);
  } else if (overlap.tp_comm_overlap) {
    add_finding(scenario, asked, "tp_comm_overlap_cfg", "tp-overlap-built-in-methods", Kind::advice,
                "null", "\"Transformer Engine built-ins\"",
                "no userbuffers configuration is named, so Transformer Engine's built-in methods "
                "run; a preset tuned for the GPU and hidden size is usually faster");
  }
  const auto off = [&](const std::string& key, bool when, std::initializer_list<TpGemm> gemms) {
    if (model.optional_bool(key).value_or(!when) != when) return;
    for (const TpGemm gemm : gemms) methods[static_cast<size_t>(gemm)] = {};
  };
  using enum TpGemm;
  off("tp_comm_overlap_ag", false, {qkv_fprop, fc1_fprop, proj_dgrad, fc2_dgrad});
  off("tp_comm_overlap_rs", false, {proj_fprop, fc2_fprop});
  off("tp_comm_bulk_dgrad", false, {qkv_dgrad, fc1_dgrad});
  off("tp_comm_bulk_wgrad", false, {qkv_wgrad, fc1_wgrad});
  off("tp_comm_overlap_disable_qkv", true, {qkv_fprop, qkv_dgrad, qkv_wgrad});
  off("tp_comm_overlap_disable_fc1", true, {fc1_fprop, fc1_dgrad, fc1_wgrad});
  const bool reduces = model.boolean("tp_comm_overlap_rs_dgrad", false);
  resolve_reduced_dgrads(reduces, methods);
  if (!overlap.tp_comm_overlap) return;
  overlap.tp = methods;
  for (const TpGemmRow& row : tp_gemm_rows)
    scenario.effective["model.tp_comm_overlap_cfg." + std::string(row.name)] =
        json_text(std::string(name(methods[static_cast<size_t>(row.gemm)].method)));
}

void resolve_p2p(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  Overlap& overlap = scenario.overlap;
  const Reader& model = sections.model;
  const bool interleaved = p.pp > 1 && p.vp.value_or(0) > 1 && !p.vp_from_layout;
  overlap.overlap_p2p =
      written_switch(scenario, sections, model, "overlap_p2p_comm", interleaved, false);
  overlap.batch_p2p =
      written_switch(scenario, sections, model, "batch_p2p_comm", p.pp > 1 && !interleaved, true);
  overlap.p2p_warmup_flush = model.boolean("overlap_p2p_comm_warmup_flush", false);
  overlap.deallocate_pipeline_outputs = model.boolean("deallocate_pipeline_outputs", true);
  const Reader& asked =
      sections.comm_overlap.has("overlap_p2p_comm") ? sections.comm_overlap : model;
  if (overlap.overlap_p2p && p.pp > 1 && !p.vp && sections.dialect == Dialect::megatron_lm) {
    overlap.overlap_p2p = false;
    overlap.batch_p2p = true;
    add_finding(scenario, asked, "overlap_p2p_comm", "mlm-p2p-overlap-needs-vp", Kind::silent,
                "true", "false",
                "the non-interleaved schedule does not overlap p2p communication: Megatron-LM "
                "clears the switch with a warning");
  }
  if (overlap.overlap_p2p && p.pp > 1 && !p.vp)
    refuse(
        sections, scenario, asked, "overlap_p2p_comm", "p2p-overlap-needs-vp",
        "needs virtual_pipeline_model_parallel_size: the non-interleaved schedule does not overlap "
        "p2p communication (Megatron-Core raises)");
  if (overlap.overlap_p2p && overlap.batch_p2p && p.pp > 1 && p.vp)
    refuse(sections, scenario, asked, "overlap_p2p_comm", "p2p-overlap-excludes-batching",
           "cannot be combined with batch_p2p_comm (Megatron-Core raises); got both true" +
               std::string(p.vp == 1 ? ": VP = 1 makes batched p2p the default" : ""));
  if (overlap.p2p_warmup_flush && (!overlap.overlap_p2p || overlap.batch_p2p))
    refuse(sections, scenario, model, "overlap_p2p_comm_warmup_flush", "warmup-flush-needs-overlap",
           "needs overlap_p2p_comm true and batch_p2p_comm false");
  if (overlap.overlap_p2p && p.pp == 1) {
    overlap.overlap_p2p = false;
    add_finding(scenario, asked, "overlap_p2p_comm", "p2p-overlap-needs-pipeline", Kind::silent,
                "true", "false",
                "there is no pipeline communication: pipeline_model_parallel_size is 1");
  }
  if (scenario.costs) {
    // Given times come with asynchronous transfers, as in the papers: these switches do nothing.
    for (const char* key : {"overlap_p2p_comm", "batch_p2p_comm"}) {
      for (const Reader* section : {&sections.comm_overlap, &model})
        if (section->has(key))
          add_finding(scenario, *section, key, "given-costs-are-asynchronous", Kind::advice,
                      section->text_of(key), "null",
                      "with given costs every transfer is asynchronous; the switch does nothing");
      scenario.effective["model." + std::string(key)] = "null";
    }
    return;
  }
  scenario.effective["model.overlap_p2p_comm"] = json_text(overlap.overlap_p2p);
  scenario.effective["model.batch_p2p_comm"] = json_text(overlap.batch_p2p);
}

/// pipeline.p2p_order: only exchanges that block one by one have an order.
void resolve_p2p_order(const ScenarioSections& sections, Scenario& scenario) {
  static const std::vector<std::string> names{"together", "even_odd", "fixed"};
  const std::string asked = sections.pipeline.choice("p2p_order", "together", names);
  if (asked == "together") return;
  scenario.p2p_order = asked == "fixed" ? P2pOrder::fixed : P2pOrder::even_odd;
  const Overlap& overlap = scenario.overlap;
  if (scenario.costs || (!overlap.overlap_p2p && !overlap.batch_p2p)) return;
  // Where comm_overlap is given it writes its own values over model's.
  const std::string section = sections.comm_overlap.present() ? "comm_overlap." : "model.";
  sections.pipeline.fail(
      "p2p_order", "'" + asked + "' waits for each send and receive before the next: it needs " +
                       section + "overlap_p2p_comm false and " + section + "batch_p2p_comm false");
}

void resolve_bucket(const ScenarioSections& sections, Scenario& scenario, bool bridge_applies) {
  const Parallelism& p = scenario.parallel;
  constexpr Range elements{1, INT64_MAX};
  // Python's True is the integer 1.
  const auto asked_of = [&](const Reader& section) -> std::optional<int64_t> {
    const nlohmann::json* value = section.find("bucket_size");
    if (!sections.collect || value == nullptr || *value != true)
      return section.optional_int("bucket_size", elements);
    add_finding(scenario, section, "bucket_size", "bucket-size-is-a-switch", Kind::unit, "true",
                "1", "bucket_size is a count: true means 1 parameter, one collective per tensor");
    return 1;
  };
  const auto own = asked_of(sections.ddp);
  const auto user = asked_of(sections.comm_overlap);
  std::optional<int64_t> size = own;
  constexpr int64_t bridge_bucket = int64_t{128} << 20;
  if (bridge_applies) size = user ? user : p.dp > 1 ? std::optional(bridge_bucket) : std::nullopt;
  if (bridge_applies && own && size != own)
    add_finding(scenario, sections.ddp, "bucket_size", "comm-overlap-overwrites", Kind::silent,
                json_text(*own), json_text(size),
                "the comm_overlap section writes its bucket_size over ddp's, its automatic value "
                "included; set comm_overlap.bucket_size");
  // Megatron-Core ddp.py: no overlap, no buckets; overlap without a size, max(40e6, 1e6 * ranks).
  const bool buckets = scenario.overlap.overlap_grad_reduce;
  if (!buckets)
    size.reset();
  else if (!size)
    size = std::max<int64_t>(40'000'000, 1'000'000 * int64_t{p.dp} * p.cp);
  if (user || own) {
    const Reader& asked = user ? sections.comm_overlap : sections.ddp;
    const int64_t asked_size = user.value_or(own.value_or(0));
    const int bytes = scenario.precision.grad_reduce_in_fp32 ? 4 : 2;
    add_finding(
        scenario, asked, "bucket_size", "bucket-size-counts-elements", Kind::unit,
        json_text(asked_size), json_text(size),
        fmt::format("bucket_size counts parameters, not bytes: {} elements are {:.6g} MiB of "
                    "{}-byte gradients",
                    asked_size, static_cast<double>(asked_size) * bytes / (1 << 20), bytes));
    if (!buckets)
      add_finding(scenario, asked, "bucket_size", "bucket-size-needs-grad-overlap", Kind::silent,
                  json_text(asked_size), "null",
                  "without overlap_grad_reduce all gradients of a chunk are one bucket");
    else if (scenario.overlap.param_gather_with_optimizer_step)
      add_finding(scenario, asked, "bucket_size", "bucket-size-against-optimizer-step",
                  Kind::silent, json_text(asked_size), "null",
                  "overlap_param_gather_with_optimizer_step turns buckets off on every rank");
  }
  scenario.data_parallel.bucket_size = size;
  scenario.effective["ddp.bucket_size"] = json_text(size);
}

void resolve_dp(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  Overlap& overlap = scenario.overlap;
  DataParallel& data_parallel = scenario.data_parallel;
  const Reader& ddp = sections.ddp;
  const Reader& user = sections.comm_overlap;
  const bool ddp_sharded = ddp.boolean("use_distributed_optimizer", false);
  const bool late = !ddp_sharded && sections.optimizer.boolean("use_distributed_optimizer", false);
  data_parallel.distributed_optimizer = ddp_sharded || late;
  data_parallel.average_in_collective = ddp.boolean("average_in_collective", false);
  if (late)
    add_finding(
        scenario, sections.optimizer, "use_distributed_optimizer",
        "distributed-optimizer-synced-late", Kind::silent, "true", "true",
        "the optimizer's switch reaches ddp only when the configuration is validated, after the "
        "overlap defaults: they are not applied; set ddp.use_distributed_optimizer");
  // The data-parallel part of the section only runs if ddp already shards the optimizer.
  const bool applies = user.present() && ddp_sharded;
  const bool automatic = p.dp > 1;
  const auto flag = [&](const std::string& key, bool bridge_default) {
    if (applies) return written_switch(scenario, sections, ddp, key, bridge_default, false);
    const bool value = ddp.boolean(key, false);
    if (const auto asked = user.optional_bool(key); asked && *asked != value)
      add_finding(scenario, user, key, "overlap-needs-distributed-optimizer", Kind::silent,
                  json_text(*asked), json_text(value),
                  "the data-parallel part of comm_overlap runs only when "
                  "ddp.use_distributed_optimizer is true");
    return value;
  };
  overlap.overlap_grad_reduce = flag("overlap_grad_reduce", automatic);
  overlap.overlap_param_gather = flag("overlap_param_gather", automatic);
  overlap.align_param_gather =
      flag("align_param_gather", p.dp > 1 && p.pp > 1 && p.vp.value_or(0) > 1 && !p.vp_from_layout);
  overlap.param_gather_with_optimizer_step =
      flag("overlap_param_gather_with_optimizer_step", false);
  overlap.align_grad_reduce = ddp.boolean("align_grad_reduce", true);
  if (applies && p.dp == 1 && p.cp > 1 && !overlap.overlap_grad_reduce &&
      !user.has("overlap_grad_reduce"))
    add_finding(scenario, user, "overlap_grad_reduce", "dp-overlap-ignores-cp", Kind::silent,
                "null", "false",
                "Bridge counts data-parallel ranks without context parallelism: DP is 1, so "
                "nothing is overlapped although gradients are reduced over DP x CP = " +
                    std::to_string(p.cp) + " ranks");
  if (sections.dialect == Dialect::megatron_lm && overlap.align_param_gather && !p.vp) {
    overlap.align_param_gather = false;
    add_finding(scenario, ddp, "align_param_gather", "mlm-align-param-gather-needs-vp",
                Kind::silent, "true", "false",
                "Megatron-LM clears the switch without the interleaved schedule");
  }
  if (overlap.overlap_param_gather && !data_parallel.distributed_optimizer) {
    overlap.overlap_param_gather = overlap.align_param_gather =
        overlap.param_gather_with_optimizer_step = false;
    if (sections.dialect == Dialect::megatron_lm)
      refuse(sections, scenario, ddp, "overlap_param_gather",
             "mlm-param-gather-needs-distributed-optimizer", "needs use_distributed_optimizer");
    else
      add_finding(scenario, ddp, "overlap_param_gather", "param-gather-needs-distributed-optimizer",
                  Kind::silent, "true", "false",
                  "parameters are gathered only when the optimizer is sharded: "
                  "use_distributed_optimizer is false");
  }
  resolve_bucket(sections, scenario, applies);
  scenario.effective["ddp.use_distributed_optimizer"] =
      json_text(data_parallel.distributed_optimizer);
  scenario.effective["ddp.average_in_collective"] = json_text(data_parallel.average_in_collective);
  scenario.effective["ddp.overlap_grad_reduce"] = json_text(overlap.overlap_grad_reduce);
  scenario.effective["ddp.overlap_param_gather"] = json_text(overlap.overlap_param_gather);
  scenario.effective["ddp.align_param_gather"] = json_text(overlap.align_param_gather);
  scenario.effective["ddp.overlap_param_gather_with_optimizer_step"] =
      json_text(overlap.param_gather_with_optimizer_step);
}

void resolve_embedding_wgrad(const ScenarioSections& sections, Scenario& scenario) {
  Overlap& overlap = scenario.overlap;
  const Reader& model = sections.model;
  const Reader& asked = sections.comm_overlap.present() ? sections.comm_overlap : model;
  overlap.defer_embedding_wgrad =
      written_switch(scenario, sections, model, "defer_embedding_wgrad_compute", false, false);
  constexpr Range limit{-1, INT32_MAX};
  const int own =
      model.integer("wgrad_deferral_limit", sections.comm_overlap.present() ? -1 : 0, limit);
  overlap.wgrad_deferral_limit =
      sections.comm_overlap.present()
          ? sections.comm_overlap.integer("wgrad_deferral_limit", -1, limit)
          : own;
  const std::string limit_key = "wgrad_deferral_limit";
  if (sections.comm_overlap.present() && model.has(limit_key) &&
      own != overlap.wgrad_deferral_limit)
    add_finding(scenario, model, limit_key, "comm-overlap-overwrites", Kind::silent,
                json_text(int64_t{own}), json_text(int64_t{overlap.wgrad_deferral_limit}),
                "the comm_overlap section writes its limit over the one here, its default -1 "
                "included; set comm_overlap.wgrad_deferral_limit");
  scenario.effective["model.defer_embedding_wgrad_compute"] =
      json_text(overlap.defer_embedding_wgrad);
  scenario.effective["model.wgrad_deferral_limit"] =
      json_text(int64_t{overlap.wgrad_deferral_limit});
  if (overlap.defer_embedding_wgrad && scenario.adapters.present()) {
    overlap.defer_embedding_wgrad = false;
    scenario.effective["model.defer_embedding_wgrad_compute"] = "false";
    add_finding(scenario, asked, "defer_embedding_wgrad_compute", "deferred-head-needs-gradient",
                Kind::silent, "true", "false",
                "the output projection is frozen beside adapters: it has no weight gradient");
  }
  if (!overlap.defer_embedding_wgrad) return;
  if (scenario.parallel.pp == 1)
    refuse(sections, scenario, asked, "defer_embedding_wgrad_compute", "deferred-head-needs-pp",
           "needs pipeline_model_parallel_size > 1 (Megatron-Core raises)");
  if (!scenario.gradient_accumulation_fusion)
    refuse(sections, scenario, asked, "defer_embedding_wgrad_compute", "deferred-head-needs-fusion",
           "needs model.gradient_accumulation_fusion (Megatron-Core raises)");
  if (overlap.wgrad_deferral_limit < 0)
    refuse(sections, scenario, asked, "wgrad_deferral_limit", "deferral-limit-negative",
           "must be 0 (all microbatches) or more when defer_embedding_wgrad_compute is set; got " +
               std::to_string(overlap.wgrad_deferral_limit) +
               " (Bridge's default, which Megatron-Core refuses)");
}

}  // namespace

bool written_switch(Scenario& scenario, const ScenarioSections& sections, const Reader& target,
                    const std::string& key, bool bridge_default, bool core_default) {
  const std::optional<bool> own = target.optional_bool(key);
  if (!sections.comm_overlap.present()) return own.value_or(core_default);
  const bool value = sections.comm_overlap.optional_bool(key).value_or(bridge_default);
  if (own && *own != value)
    add_finding(scenario, target, key, "comm-overlap-overwrites", Kind::silent, json_text(*own),
                json_text(value),
                "the comm_overlap section writes this switch over the one here, its automatic "
                "value included; set comm_overlap." +
                    key);
  return value;
}

void resolve_overlap(const ScenarioSections& sections, Scenario& scenario) {
  resolve_tp(sections, scenario);
  resolve_p2p(sections, scenario);
  resolve_p2p_order(sections, scenario);
  resolve_dp(sections, scenario);
  resolve_embedding_wgrad(sections, scenario);
}

}  // namespace stepsim
