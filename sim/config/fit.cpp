// Model against mesh: heads, widths, vocabulary, layers over stages, sequence (Megatron-Core
// transformer_config.py, transformer_block.py; Megatron-Bridge models/gpt_provider.py).
#include <algorithm>

#include "sim/config/layout.h"
#include "sim/config/model_read.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

/// Even split of `layers` over `stages`, each a multiple of VP.
void check_even(const ScenarioSections& sections, Scenario& scenario, int64_t layers,
                int64_t stages, int64_t vp, const std::string& what) {
  const Reader& model = sections.model;
  if (stages == 0) {
    if (layers != 0)
      refuse(sections, scenario, model, "num_layers_in_first_pipeline_stage", "layers-left-over",
             text(layers) + " layers are left and no stage to hold them");
    return;
  }
  if (layers % stages != 0 || layers == 0)
    return refuse(
        sections, scenario, model, "pipeline_model_parallel_size", "layers-not-divisible",
        what + " do not split evenly over " + text(stages) +
            " stages; set another "
            "PP, num_layers_in_first/last_pipeline_stage or account_for_*_in_pipeline_split");
  if (layers / stages % vp != 0)
    refuse(sections, scenario, model, "virtual_pipeline_model_parallel_size",
           "layers-per-stage-not-divisible",
           "must divide " + text(layers / stages) + " layers per stage (" + what + " / " +
               text(stages) + "); got " + text(vp));
}

void check_layer_split(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const Parallelism& p = scenario.parallel;
  const int64_t vp = p.pipeline().virtual_stages() / p.pp;  // chunks that hold layers of their own
  if (!p.layout.empty()) {
    const std::string key = "pipeline_model_parallel_layout";
    const std::string problem =
        layout_problem(p.layout, scenario.model.layers, scenario.model.mtp_layers, p.pp);
    if (!problem.empty()) refuse(sections, scenario, model, key, "layout-broken", problem);
    if (p.first_stage_layers || p.last_stage_layers || p.account_for_embedding ||
        p.account_for_loss)
      refuse(sections, scenario, model, key, "split-rules-exclude-each-other",
             "cannot be combined with num_layers_in_first/last_pipeline_stage or "
             "account_for_embedding/loss_in_pipeline_split");
    return;
  }
  int64_t layers = scenario.model.layers, stages = p.pp;
  std::string what = text(layers) + " layers";
  if (p.first_stage_layers || p.last_stage_layers) {
    const char* key = p.first_stage_layers ? "num_layers_in_first_pipeline_stage"
                                           : "num_layers_in_last_pipeline_stage";
    if (p.account_for_embedding || p.account_for_loss)
      refuse(sections, scenario, model, key, "split-rules-exclude-each-other",
             "cannot be combined with account_for_embedding_in_pipeline_split or "
             "account_for_loss_in_pipeline_split");
    if (p.pp < 2)
      return refuse(sections, scenario, model, key, "uneven-split-needs-pp",
                    "needs pipeline_model_parallel_size > 1; got 1");
    for (const auto& [name, given] :
         {std::pair{"num_layers_in_first_pipeline_stage", p.first_stage_layers},
          std::pair{"num_layers_in_last_pipeline_stage", p.last_stage_layers}}) {
      if (!given) continue;
      if (*given % vp != 0)
        refuse(sections, scenario, model, name, "stage-layers-not-divisible",
               "must be a multiple of VP " + text(vp) + "; got " + text(*given));
      if (*given > layers)
        return refuse(sections, scenario, model, name, "stage-layers-too-many",
                      "is more than the " + text(layers) + " layers that are left");
      layers -= *given;
      --stages;
    }
    what = text(layers) + " remaining layers";
  } else if (p.account_for_embedding || p.account_for_loss) {
    layers += (p.account_for_embedding ? 1 : 0) + (p.account_for_loss ? 1 : 0);
    what = text(layers) + " layers (" + text(scenario.model.layers) +
           " and embedding or loss counted as one each)";
  }
  check_even(sections, scenario, layers, stages, vp, what);
}

}  // namespace

void check_model_fits_mesh(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  const Model& m = scenario.model;
  const Reader& model = sections.model;
  const std::string tp = "tensor_model_parallel_size";
  if (m.heads % p.tp != 0)
    refuse(sections, scenario, model, tp, "tp-does-not-divide-heads",
           "must divide " + text(m.heads) + " attention heads; got " + text(p.tp));
  if (m.query_groups % p.tp != 0 && p.tp % m.query_groups != 0)
    refuse(sections, scenario, model, tp, "tp-does-not-fit-groups",
           "must divide or be a multiple of " + text(m.query_groups) + " query groups; got " +
               text(p.tp));
  if (m.ffn_hidden % p.tp != 0)
    refuse(sections, scenario, model, tp, "tp-does-not-divide-ffn",
           "must divide ffn_hidden_size " + text(m.ffn_hidden) + "; got " + text(p.tp));
  // Megatron-Core ssm/mamba_mixer.py; transformer_config.py for the delta net.
  if (m.mamba.present() && (m.mamba.heads % p.tp != 0 || m.mamba.groups % p.tp != 0))
    refuse(sections, scenario, model, tp, "tp-does-not-divide-mamba-heads",
           "must divide " + text(m.mamba.heads) + " Mamba heads and " + text(m.mamba.groups) +
               " groups; got " + text(p.tp));
  const int64_t parts = int64_t{p.tp} * p.cp;
  if (m.delta_net.present() &&
      (m.delta_net.key_heads % parts != 0 || m.delta_net.value_heads % parts != 0))
    refuse(sections, scenario, model, tp, "tp-does-not-divide-delta-heads",
           "TP x CP must divide " + text(m.delta_net.key_heads) + " key and " +
               text(m.delta_net.value_heads) + " value heads of the delta net; got " + text(parts));
  if (!m.vocab_padding && m.vocab % p.tp != 0)
    refuse(sections, scenario, model, tp, "tp-does-not-divide-vocabulary",
           "must divide the vocabulary of " + text(m.vocab) +
               " when should_pad_vocab is false; got " + text(p.tp));
  check_layer_split(sections, scenario);
  const int64_t ends =
      std::max(scenario.precision.bf16_first_layers, scenario.precision.bf16_last_layers);
  if (ends > m.layers / p.pp)
    refuse(sections, scenario, sections.mixed_precision, "num_layers_at_start_in_bf16",
           "bf16-ends-too-many",
           "first and last bf16 layers must each be at most layers / PP = " +
               text(m.layers / p.pp) + "; got " + text(ends));
  const int64_t s = scenario.batch.sequence;
  const std::string where = sections.dataset.has("seq_length") ? "seq_length" : "sequence_length";
  const Reader& section =
      sections.dataset.has("seq_length") || sections.dataset.has("sequence_length")
          ? sections.dataset
          : model;
  const std::string key = &section == &model ? "seq_length" : where;
  if (p.cp > 1 && s % (2 * p.cp) != 0)
    refuse(sections, scenario, section, key, "sequence-not-divisible-by-cp",
           "must be a multiple of 2 x CP = " + text(2 * p.cp) +
               " (each rank holds two causal slices); got " + text(s));
  if (p.sequence_parallel && s / p.cp % p.tp != 0)
    refuse(sections, scenario, section, key, "sequence-not-divisible-by-tp",
           "sequence / CP = " + text(s / p.cp) + " must be a multiple of TP " + text(p.tp) +
               " under sequence parallelism");
  if (m.position == PositionEmbedding::learned && s > m.max_positions)
    refuse(sections, scenario, section, key, "sequence-beyond-positions",
           "must be at most the model's " + text(m.max_positions) + " learned positions; got " +
               text(s));
}

}  // namespace stepsim
