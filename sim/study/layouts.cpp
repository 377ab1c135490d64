#include "sim/study/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/study/assume.h"

namespace stepsim {
namespace {

using nlohmann::json;

struct SizeRow {
  std::string_view key;
  std::vector<int> LayoutSpace::*values;
};
constexpr std::array<SizeRow, 7> size_rows{{
    {"model.tensor_model_parallel_size", &LayoutSpace::tp},
    {"model.pipeline_model_parallel_size", &LayoutSpace::pp},
    {"model.virtual_pipeline_model_parallel_size", &LayoutSpace::vp},
    {"model.context_parallel_size", &LayoutSpace::cp},
    {"model.expert_model_parallel_size", &LayoutSpace::ep},
    {"model.expert_tensor_parallel_size", &LayoutSpace::etp},
    {"train.micro_batch_size", &LayoutSpace::mbs},
}};

std::vector<int> divisors(int64_t n, int64_t most) {
  std::vector<int> result;
  for (int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) result.push_back(static_cast<int>(d));
  return result;
}

std::vector<int> powers_of_two(int64_t most) {
  std::vector<int> result;
  for (int64_t v = 1; v <= most; v *= 2) result.push_back(static_cast<int>(v));
  return result;
}

std::vector<int> among(const std::vector<int>& all, const std::vector<int>& wanted) {
  std::vector<int> result;
  for (int v : all)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), v) != wanted.end())
      result.push_back(v);
  return result;
}

/// How the layers are split over so many virtual stages.
enum class Split { even, ends_counted, spelled, none };
Split split_of(const Model& m, int stages) {
  if (m.mtp_layers == 0 && m.layers % stages == 0) return Split::even;
  if (m.mtp_layers == 0 && (m.layers + 2) % stages == 0) return Split::ends_counted;
  return even_layout(m.layers, m.mtp_layers, stages).empty() ? Split::none : Split::spelled;
}

/// Those that split plainly, else with counted ends, else powers of two that are spelled out.
std::vector<int> virtual_sizes(const Model& m, int pp) {
  if (pp == 1) return {1};
  for (Split kind : {Split::even, Split::ends_counted}) {
    std::vector<int> sizes;
    for (int vp = 1; vp * pp <= m.layers + 2; ++vp)
      if (split_of(m, vp * pp) == kind) sizes.push_back(vp);
    if (!sizes.empty()) return sizes;
  }
  std::vector<int> sizes;
  for (int vp : powers_of_two(m.layers / pp))
    if (split_of(m, vp * pp) == Split::spelled) sizes.push_back(vp);
  return sizes;
}

Option option(std::string label, std::initializer_list<std::pair<const char*, const char*>> rows) {
  Option result{.label = std::move(label), .point = {}};
  for (const auto& [key, value] : rows) result.point.push_back({key, value});
  return result;
}

Option recompute(std::string label, const char* modules) {
  return option(std::move(label), {{"model.recompute_granularity", "\"selective\""},
                                   {"model.recompute_modules", modules},
                                   {"model.recompute_method", ""},
                                   {"model.recompute_num_layers", ""}});
}

std::vector<Choice> standard_choices(const Scenario& s) {
  const bool experts = s.model.moe.present(), latent = s.model.mla.present();
  std::vector<Choice> choices;
  Choice again{"recompute", Choice::Open::always, {}};
  again.options.push_back(option("", {{"model.recompute_granularity", ""},
                                      {"model.recompute_modules", ""},
                                      {"model.recompute_method", ""},
                                      {"model.recompute_num_layers", ""}}));
  if (latent) again.options.push_back(recompute("recompute mla_up_proj", "[\"mla_up_proj\"]"));
  if (experts) {
    again.options.push_back(recompute("recompute moe_act", "[\"moe_act\"]"));
  } else {
    again.options.push_back(recompute("recompute mlp", "[\"mlp\"]"));
  }
  again.options.push_back(option("recompute all", {{"model.recompute_granularity", "\"full\""},
                                                   {"model.recompute_method", "\"uniform\""},
                                                   {"model.recompute_num_layers", "1"},
                                                   {"model.recompute_modules", ""}}));
  choices.push_back(std::move(again));
  choices.push_back({"tp overlap",
                     Choice::Open::tp,
                     {option("", {{"comm_overlap.tp_comm_overlap", "true"}}),
                      option("no TP overlap", {{"comm_overlap.tp_comm_overlap", "false"},
                                               {"comm_overlap.tp_comm_overlap_cfg", ""}})}});
  const auto sharding = [](std::string label, const char* sharded, const char* reduce,
                           const char* gather, const char* in_step) {
    return option(std::move(label),
                  {{"ddp.use_distributed_optimizer", sharded},
                   {"comm_overlap.overlap_grad_reduce", reduce},
                   {"comm_overlap.overlap_param_gather", gather},
                   {"comm_overlap.overlap_param_gather_with_optimizer_step", in_step}});
  };
  choices.push_back({"sharding",
                     Choice::Open::dp,
                     {sharding("", "true", "true", "true", "false"),
                      sharding("gather in the update", "true", "true", "true", "true"),
                      sharding("no DP overlap", "true", "false", "false", "false"),
                      sharding("optimizer not sharded", "false", "true", "false", "false")}});
  if (!experts) return choices;
  const auto dispatcher = [](std::string label, const char* type, const char* backend) {
    return option(std::move(label), {{"model.moe_token_dispatcher_type", type},
                                     {"model.moe_flex_dispatcher_backend", backend}});
  };
  choices.push_back(
      {"dispatcher",
       Choice::Open::ep,
       {dispatcher("", "\"alltoall\"", ""), dispatcher("DeepEP", "\"flex\"", "\"deepep\""),
        dispatcher("Hybrid-EP", "\"flex\"", "\"hybridep\"")}});
  choices.push_back(
      {"expert overlap",
       Choice::Open::ep,
       {option("", {{"comm_overlap.overlap_moe_expert_parallel_comm", "false"},
                    {"comm_overlap.delay_wgrad_compute", "false"}}),
        option("EP overlap", {{"comm_overlap.overlap_moe_expert_parallel_comm", "true"},
                              {"comm_overlap.delay_wgrad_compute", "true"}})}});
  return choices;
}

json::json_pointer pointer_of(const std::string& key) {
  std::string path = "/" + key;
  std::replace(path.begin(), path.end(), '.', '/');
  return json::json_pointer(path);
}

json value_of_text(const std::string& text) {
  if (text == "True" || text == "False") return text == "True";
  const json parsed = json::parse(text, nullptr, false);
  return parsed.is_discarded() ? json(text) : parsed;
}

void write_option(json& scenario, const Option& option) {
  for (const Assignment& a : option.point) {
    const json::json_pointer at = pointer_of(a.key);
    if (!a.value.empty() && a.value != "null" && a.value != "None") {
      const std::string section = a.key.substr(0, a.key.find('.'));
      if (section != a.key && scenario.contains(section) && scenario[section].is_string())
        scenario[section] = {{"recipe", scenario[section]}};
      scenario[at] = value_of_text(a.value);
    } else if (scenario.contains(at)) {
      scenario[at.parent_pointer()].erase(at.back());
    }
  }
}

void set_size(json& section, const char* key, int value) {
  if (value > 1)
    section[key] = value;
  else
    section.erase(key);
}

bool is_open(const Choice& choice, const Layout& l) {
  switch (choice.open) {
    case Choice::Open::tp:
      return l.tp > 1;
    case Choice::Open::dp:
      return l.dp() * l.cp > 1;
    case Choice::Open::ep:
      return l.ep > 1;
    case Choice::Open::always:
      return true;
  }
  return true;
}

/// A layout takes some 200 bytes until the search has ended.
constexpr size_t most_layouts = 6'000'000;

/// Every combination of the open choices.
void add_settings(const LayoutSpace& space, Layout layout, std::vector<Layout>& result) {
  layout.settings.assign(space.choices.size(), 0);
  for (;;) {
    if (result.size() == most_layouts)
      throw Error(std::string(command_line_name), "/--vary",
                  fmt::format("the space has more than {} layouts; narrow it, say with "
                              "--vary model.expert_tensor_parallel_size=1",
                              most_layouts));
    result.push_back(layout);
    size_t c = space.choices.size();
    while (c > 0) {
      const Choice& choice = space.choices[c - 1];
      int& chosen = layout.settings[c - 1];
      if (is_open(choice, layout) && chosen + 1 < static_cast<int>(choice.options.size())) {
        ++chosen;
        break;
      }
      chosen = 0;
      --c;
    }
    if (c == 0) return;
  }
}

}  // namespace

LayoutSpace standard_space(const Scenario& resolved, const json& base, bool own_settings,
                           std::span<const std::string> words) {
  LayoutSpace space;
  std::vector<std::string> set;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    set.push_back(word.substr(0, equals));
    for (const SizeRow& row : size_rows)
      if (row.key == set.back() && equals != std::string::npos)
        apply_axis(space, parse_axis(word, "--vary"));
  }
  for (Choice& choice : standard_choices(resolved)) {
    const bool fixed = std::any_of(
        choice.options[0].point.begin(), choice.options[0].point.end(),
        [&](const Assignment& a) { return std::find(set.begin(), set.end(), a.key) != set.end(); });
    if (fixed) continue;
    if (own_settings) {
      // What the base has comes first; what would write the same is no other option.
      std::erase_if(choice.options, [&](const Option& o) {
        json written = base;
        write_option(written, o);
        return written == base;
      });
      choice.options.insert(choice.options.begin(), Option{});
      for (size_t i = 1; i < choice.options.size(); ++i)
        if (choice.options[i].label.empty()) choice.options[i].label = "plain " + choice.name;
    }
    space.choices.push_back(std::move(choice));
  }
  return space;
}

void apply_axis(LayoutSpace& space, const Axis& axis) {
  const std::string& key = axis.keys.front();
  for (const SizeRow& row : size_rows) {
    if (row.key != key) continue;
    std::vector<int>& values = space.*row.values;
    values.clear();
    for (const Point& p : axis.points) {
      const json value = value_of_text(p.front().value);
      if (!value.is_null() && (!value.is_number_integer() || value < 1 || value > 1'000'000))
        throw Error(std::string(command_line_name), "/--vary/" + key,
                    "expected sizes from 1; got '" + printable(p.front().value) + "'");
      values.push_back(value.is_null() ? 1 : value.get<int>());
    }
    return;
  }
  std::erase_if(space.choices, [&](const Choice& choice) {
    const Point& point = choice.options.back().point;
    return std::any_of(point.begin(), point.end(),
                       [&](const Assignment& a) { return a.key == key; });
  });
  Choice choice{key, Choice::Open::always, {}};
  for (const Point& p : axis.points)
    choice.options.push_back({key.substr(key.rfind('.') + 1) + "=" + p.front().value, p});
  space.choices.push_back(std::move(choice));
}

std::vector<Layout> layouts(const LayoutSpace& space, const Scenario& s, int gpus) {
  const Model& m = s.model;
  const int64_t domain = space.tp_across_domains ? gpus : std::min(gpus, s.cluster.nvlink_domain);
  const int64_t sequence = s.batch.sequence, global = s.batch.global;
  std::vector<Layout> result;
  for (int tp : among(powers_of_two(domain), space.tp)) {
    if (gpus % tp != 0 || m.heads % tp != 0) continue;
    if (!space.tp_across_domains && s.cluster.nvlink_domain % tp != 0) continue;
    for (int cp : among(powers_of_two(std::max<int64_t>(1, sequence / 1024)), space.cp)) {
      if (gpus / tp % cp != 0) continue;
      for (int pp : among(divisors(gpus / tp / cp, m.layers + 2), space.pp))
        for (int vp : among(virtual_sizes(m, pp), space.vp))
          for (int mbs : among({1, 2, 4, 8}, space.mbs)) {
            Layout layout{gpus, tp, pp, vp, cp, 1, 1, mbs, {}};
            if (global % (int64_t{mbs} * layout.dp()) != 0) continue;
            const int64_t microbatches = global / (int64_t{mbs} * layout.dp());
            if (vp > 1 && microbatches < pp) continue;
            if (!m.moe.present()) {
              add_settings(space, layout, result);
              continue;
            }
            for (int ep : among(divisors(m.moe.experts, gpus / pp), space.ep))
              for (int etp :
                   among(tp > 1 ? std::vector<int>{1, tp} : std::vector<int>{1}, space.etp)) {
                if (gpus / pp % (ep * etp) != 0) continue;
                layout.ep = ep;
                layout.etp = etp;
                add_settings(space, layout, result);
              }
          }
    }
  }
  return result;
}

json laid_out(const json& base, const LayoutSpace& space, const Layout& l, const Model& m) {
  json out = base;
  json& model = out["model"];
  const int tp_before = model.value("tensor_model_parallel_size", json(1)).is_number_integer()
                            ? model.value("tensor_model_parallel_size", 1)
                            : 1;
  for (const char* key :
       {"pipeline_model_parallel_layout", "num_layers_in_first_pipeline_stage",
        "num_layers_in_last_pipeline_stage", "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split", "microbatch_group_size_per_vp_stage"})
    model.erase(key);
  // A preset holds for one TP.
  if (tp_before != l.tp && out.contains("comm_overlap") && out["comm_overlap"].is_object())
    out["comm_overlap"].erase("tp_comm_overlap_cfg");
  set_size(model, "tensor_model_parallel_size", l.tp);
  set_size(model, "pipeline_model_parallel_size", l.pp);
  set_size(model, "virtual_pipeline_model_parallel_size", l.vp);
  set_size(model, "context_parallel_size", l.cp);
  if (m.moe.present()) {
    model["expert_model_parallel_size"] = l.ep;
    model["expert_tensor_parallel_size"] = l.etp;
  }
  model["sequence_parallel"] = l.tp > 1;
  switch (split_of(m, l.pp * l.vp)) {
    case Split::ends_counted:
      model["account_for_embedding_in_pipeline_split"] = true;
      model["account_for_loss_in_pipeline_split"] = true;
      break;
    case Split::spelled:
      if (l.pp > 1)
        model["pipeline_model_parallel_layout"] = even_layout(m.layers, m.mtp_layers, l.pp * l.vp);
      break;
    default:
      break;
  }
  // Both follow VP unless they are told (Megatron-Bridge comm_overlap.py).
  if (out.contains("comm_overlap") && out["comm_overlap"].is_object())
    for (const char* key : {"overlap_p2p_comm", "batch_p2p_comm"}) out["comm_overlap"].erase(key);
  out["train"]["micro_batch_size"] = l.mbs;
  out["cluster"].erase("nodes");
  out["cluster"]["gpus"] = l.gpus;
  for (size_t c = 0; c < space.choices.size(); ++c)
    write_option(out, space.choices[c].options[static_cast<size_t>(l.settings[c])]);
  return out;
}

std::string mesh_text(const Layout& l, bool experts) {
  std::string text = fmt::format("TP{} PP{}", l.tp, l.pp);
  if (l.vp > 1) text += fmt::format(" VP{}", l.vp);
  if (l.cp > 1) text += fmt::format(" CP{}", l.cp);
  if (experts) text += fmt::format(" EP{}", l.ep);
  if (experts && l.etp > 1) text += fmt::format(" ETP{}", l.etp);
  return text + fmt::format(" DP{} MBS{}", l.dp(), l.mbs);
}

std::string settings_text(const LayoutSpace& space, const Layout& l) {
  std::string text;
  for (size_t c = 0; c < space.choices.size(); ++c) {
    const std::string& label = space.choices[c].options[static_cast<size_t>(l.settings[c])].label;
    if (!label.empty()) text += (text.empty() ? "" : ", ") + label;
  }
  return text;
}

}  // namespace stepsim
