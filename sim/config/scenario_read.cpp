// One scenario from start to end: merge, spell-check, then the passes of resolve.h in Bridge's
// order.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/bridge_keys.h"
#include "sim/config/cluster_read.h"
#include "sim/config/doubts.h"
#include "sim/config/import.h"
#include "sim/config/model_gaps.h"
#include "sim/config/model_read.h"
#include "sim/config/resolve.h"
#include "sim/config/scenario_load.h"

namespace stepsim {
namespace {

using nlohmann::json;

/// mixed_precision may be a recipe's name; from here on it is an object.
bool open_recipe(Document& document) {
  const auto found = document.root->find("mixed_precision");
  if (found == document.root->end() || !found->is_string()) return false;
  *found = json{{"recipe", *found}};
  return true;
}

void check_keys(const ScenarioSections& sections) {
  check_spelling(sections.top, *section_row(""));
  for (const Reader* section :
       {&sections.cluster, &sections.software, &sections.pipeline, &sections.costs, &sections.model,
        &sections.ddp, &sections.comm_overlap, &sections.mixed_precision, &sections.dataset,
        &sections.train, &sections.optimizer, &sections.env_vars, &sections.peft})
    check_spelling(*section, *section_row(section->pointer().substr(1)));
}

void read_header(const Reader& top, Scenario& scenario) {
  scenario.name = top.string("name", std::filesystem::path(scenario.file).stem().string());
  scenario.description = top.string("description", "");
  scenario.source = top.string("source", "");
  const Reader measured = top.child("measured");
  if (measured.has("step_time_seconds"))
    scenario.measured_step_seconds = measured.required_number("step_time_seconds", 1e-9, 1e9);
  for (const char* key : {"base", "notes", "unknown"}) top.use(key);
}

void read_software(const Reader& section, Scenario& scenario) {
  Software& software = scenario.software;
  software.release = section.string("release", "");
  software.nccl = section.string("nccl", "");
  if (section.has("nccl") && software.nccl.empty())
    section.fail("nccl", "must be a version such as 2.27.5; got ''");
  software.transformer_engine = section.string("transformer_engine", "");
  software.cudnn = section.string("cudnn", "");
}

/// cluster.hosts: the node of each block of ranks, each node at most once.
void read_hosts(const Reader& section, Cluster& cluster) {
  const json* hosts = section.find("hosts");
  if (hosts == nullptr) return;
  const int blocks = (cluster.gpus + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
  const std::string expected = "must list the node (0 to " + std::to_string(cluster.nodes - 1) +
                               ") of each of " + std::to_string(blocks) + " blocks of " +
                               std::to_string(cluster.gpus_per_node) + " ranks, each node once";
  if (!hosts->is_array() || hosts->size() != static_cast<size_t>(blocks))
    section.fail("hosts", expected);
  std::vector<bool> taken(static_cast<size_t>(cluster.nodes), false);
  for (const json& host : *hosts) {
    if (!host.is_number_integer() || host < 0 || host >= cluster.nodes || taken[host.get<size_t>()])
      section.fail("hosts", expected);
    taken[host.get<size_t>()] = true;
    cluster.hosts.push_back(host.get<int>());
  }
  // In order: as if nothing had been said.
  if (std::is_sorted(cluster.hosts.begin(), cluster.hosts.end()) &&
      cluster.hosts.back() == blocks - 1)
    cluster.hosts.clear();
}

void read_cluster_section(const ScenarioSections& sections, Scenario& scenario,
                          const DataPaths& data) {
  const Reader& section = sections.cluster;
  if (sections.no_machine()) return;
  if (!section.present())
    sections.top.fail(
        "cluster", "is missing; expected an object with system and nodes, or --cluster NAME:NODES");
  const std::string name = section.required_string("system");
  const std::filesystem::path beside = std::filesystem::path(section.file("system")).parent_path();
  const Located found = locate_system(name, data, beside);
  if (!found.problem.empty()) section.fail("system", found.problem);
  const auto gpus = section.optional_int("gpus", gpus_range);
  const auto nodes = section.optional_int("nodes", nodes_range);
  if (!nodes && !gpus) section.fail("nodes", "is missing; expected an integer");
  const Document document = load_document(found.file);
  bool stack_found = true;
  scenario.cluster = read_system(
      Reader(document, found.pointer), found.pointer.empty() ? found.file.stem().string() : name,
      scenario.software.release, data, found.file.parent_path(), stack_found);
  const int64_t per_node = scenario.cluster.gpus_per_node;
  const int64_t count = nodes.value_or((gpus.value_or(1) + per_node - 1) / per_node);
  if (count * per_node > gpus_range.high)
    section.fail("nodes", "gives " + std::to_string(count * per_node) + " GPUs; the limit is " +
                              std::to_string(gpus_range.high));
  if (gpus && *gpus > count * per_node)
    section.fail("gpus", "must be at most nodes x GPUs per node = " + std::to_string(count) +
                             " x " + std::to_string(per_node) + " = " +
                             std::to_string(count * per_node) + "; got " + std::to_string(*gpus));
  const int domain = scenario.cluster.nvlink_domain;
  scale(scenario.cluster, count, gpus.value_or(0));
  if (const int used = scenario.cluster.nvlink_domain; used != domain)
    add_finding(scenario, section, gpus ? "gpus" : "nodes", "nvlink-domain-segments",
                Finding::Kind::advice, std::to_string(domain), std::to_string(used),
                std::to_string(scenario.cluster.gpus) + " GPUs fill no whole domains of " +
                    std::to_string(domain) + "; placed in equal segments of " +
                    std::to_string(used) + ", as a scheduler does");
  read_hosts(section, scenario.cluster);
  if (!stack_found)
    add_finding(scenario, sections.software, "release", "stack-profile-stands-in",
                Finding::Kind::advice, json_text(scenario.software.release),
                json_text(scenario.cluster.stack.name),
                "the system has no stack profile for this release; its first one stands in");
}

void read_model_section(const ScenarioSections& sections, Scenario& scenario,
                        const DataPaths& data) {
  const Reader& section = sections.model;
  const bool named = section.has("hf_config");
  const bool sizes = section.has("num_layers") || section.has("hidden_size");
  if (!named && !sizes) {
    if (sections.given_costs()) return;
    section.fail("hf_config",
                 "is missing; expected a model's name, a path to a config.json, or Bridge's sizes "
                 "(num_layers, ...)");
  }
  if (named) {
    const std::string name = section.required_string("hf_config");
    const Located found =
        locate_model(name, data, std::filesystem::path(section.file("hf_config")).parent_path());
    if (!found.problem.empty()) section.fail("hf_config", found.problem);
    const Document document = load_document(found.file);
    const std::string stem = found.file.stem().string();
    scenario.model =
        read_architecture(Reader(document, ""),
                          stem == "config" ? found.file.parent_path().filename().string() : stem);
  }
  override_architecture(scenario.model, section, !named);
  // A learned table that nobody sized is as long as the sequence it is trained on.
  if (scenario.model.position == PositionEmbedding::learned && scenario.model.max_positions == 0)
    scenario.model.max_positions = scenario.batch.sequence;
  if (!sections.given_costs() && !sections.collect)
    refuse_unsimulated_model(section, scenario.model);
}

/// Scores are materialised by these two, by no other backend; auto leaves it to the stack profile.
void read_attention_backend(const Reader& model, StackProfile& stack) {
  static const std::vector<std::string> backends{"flash", "fused", "unfused", "local", "auto"};
  const std::string backend = model.choice("attention_backend", "auto", backends);
  if (backend != "auto") stack.fused_attention = backend == "flash" || backend == "fused";
}

/// The GPU must be able to run the precision asked for.
void check_device(const ScenarioSections& sections, const Scenario& scenario) {
  const Device& device = scenario.cluster.device;
  const auto runs = [&](Dtype dtype) {
    return device.gemm[static_cast<size_t>(dtype)].peak.value > 0;
  };
  const Precision& precision = scenario.precision;
  if (runs(precision.parameters) && runs(gemm_dtype(precision))) return;
  const std::string message = "recipe '" + precision.recipe + "' needs GEMMs that GPU '" +
                              device.name + "' has no rate for";
  if (sections.recipe_is_text || !sections.mixed_precision.present())
    sections.top.fail("mixed_precision", message);
  sections.mixed_precision.fail("recipe", message);
}

void read_switches(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  scenario.gradient_accumulation_fusion = model.boolean("gradient_accumulation_fusion", true);
  scenario.fused_rope = model.boolean("apply_rope_fusion", true);
  // Bridge's GPT provider fuses the loss unless told otherwise.
  const bool fused_loss = model.boolean("cross_entropy_loss_fusion", true);
  static const std::vector<std::string> losses{"te", "native"};
  const std::string loss = model.choice("cross_entropy_fusion_impl", "native", losses);
  scenario.cross_entropy = !fused_loss    ? CrossEntropy::unfused
                           : loss == "te" ? CrossEntropy::te
                                          : CrossEntropy::native;
  scenario.effective["model.gradient_accumulation_fusion"] =
      json_text(scenario.gradient_accumulation_fusion);
}

/// What Bridge knows and this program does not, once each, in the order of the sections.
void list_not_modelled(const ScenarioSections& sections, const Document& document,
                       Scenario& scenario) {
  for (const std::string& key : sections.top.keys())
    if (is_ignored_section(key)) scenario.not_modelled.push_back(key);
  for (const Reader* section : {&sections.model, &sections.ddp, &sections.comm_overlap,
                                &sections.mixed_precision, &sections.dataset, &sections.train,
                                &sections.optimizer, &sections.env_vars, &sections.peft})
    for (const std::string& key : section->unused())
      scenario.not_modelled.push_back(section->pointer().substr(1) + "." + printable(key));
  for (std::string& key : unmodelled_keys(scenario.model))
    scenario.not_modelled.push_back(std::move(key));
  if (const auto flags = document.root->find("_not_modelled");
      flags != document.root->end() && flags->is_array())
    for (const json& flag : *flags)
      if (flag.is_string()) scenario.not_modelled.push_back(printable(flag.get<std::string>()));
}

/// A resolved run_config.yaml keeps what was asked of comm_overlap beside what came of it: says
/// where the two differ.
void compare_with_request(const ScenarioSections& sections, const Document& document,
                          Scenario& scenario) {
  const auto asked = document.root->find("_comm_overlap_requested");
  if (asked == document.root->end() || !asked->is_object()) return;
  for (const auto& [key, value] : asked->items()) {
    if (!value.is_boolean()) continue;
    for (const Reader* section : {&sections.model, &sections.ddp}) {
      const auto effect = scenario.effective.find(section->pointer().substr(1) + "." + key);
      if (effect == scenario.effective.end() || effect->second == json_text(value.get<bool>()))
        continue;
      add_finding(scenario, *section, key, "request-not-in-effect", Finding::Kind::silent,
                  json_text(value.get<bool>()), effect->second,
                  "comm_overlap." + key +
                      " was requested, and the resolved configuration holds another value: a gate "
                      "of Bridge changed it (stepsim explain comm_overlap." +
                      key + ")");
    }
  }
}

void write_sizes(Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  const auto put = [&](const std::string& key, int64_t value) {
    scenario.effective[key] = json_text(value);
  };
  put("model.tensor_model_parallel_size", p.tp);
  put("model.pipeline_model_parallel_size", p.pp);
  put("model.context_parallel_size", p.cp);
  scenario.effective["model.virtual_pipeline_model_parallel_size"] =
      json_text(std::optional<int64_t>(p.vp));
  put("train.global_batch_size", scenario.batch.global);
  put("train.micro_batch_size", scenario.batch.micro);
  if (scenario.batch.sequence > 0) put("dataset.seq_length", scenario.batch.sequence);
}

Scenario read_document(Document document, std::span<const std::string> overrides,
                       const std::string& cluster, const DataPaths& data, Strictness strictness) {
  Scenario scenario;
  scenario.file = document.file;
  document = with_bases(std::move(document));
  const json written = *document.root;
  apply_cluster(document, cluster);
  apply_overrides(document, overrides);
  scenario.overridden = *document.root != written;
  apply_launch(document);
  const bool recipe_is_text = open_recipe(document);
  ScenarioSections sections(document);
  sections.recipe_is_text = recipe_is_text;
  sections.collect = strictness == Strictness::collect;
  if (document.root->value("_dialect", "") == "megatron-lm")
    sections.dialect = Dialect::megatron_lm;
  check_keys(sections);
  refuse_unsimulated(sections, scenario);
  read_header(sections.top, scenario);
  read_software(sections.software, scenario);
  read_cluster_section(sections, scenario, data);
  resolve_precision(sections, scenario);
  resolve_sizes(sections, scenario, sections.given_costs());
  resolve_packing(sections, scenario);
  resolve_faults(sections, scenario);
  read_model_section(sections, scenario, data);
  scenario.doubts = read_doubts(data.root);
  read_attention_backend(sections.model, scenario.cluster.stack);
  resolve_layout(sections, scenario);
  resolve_schedule(sections, scenario);
  resolve_costs(sections, scenario);
  resolve_kernel_times(sections, scenario);
  resolve_recompute(sections, scenario);
  read_switches(sections, scenario);
  scenario.cluster.nccl = read_nccl(sections.env_vars, scenario.software.nccl);
  resolve_graphs(sections, scenario);
  if (!scenario.costs) {
    check_device(sections, scenario);
    check_model_fits_mesh(sections, scenario);
    resolve_experts(sections, scenario);
    resolve_adapters(sections, scenario);
  }
  resolve_moe_routing(sections, scenario);
  resolve_overlap(sections, scenario);
  resolve_launch_env(sections, scenario);
  resolve_fully_sharded(sections, scenario);
  resolve_optimizer(sections, scenario);
  if (!scenario.costs) {
    validate(sections, scenario);
    if (sections.collect) advise(sections, scenario);
  }
  if (!sections.collect) check_task_count(sections, scenario);
  write_sizes(scenario);
  compare_with_request(sections, document, scenario);
  list_not_modelled(sections, document, scenario);
  scenario.resolved_json = document.root->dump(-1, ' ', true, json::error_handler_t::replace);
  return scenario;
}

}  // namespace

ScenarioSections::ScenarioSections(const Document& document)
    : top(document, ""),
      cluster(document, "/cluster"),
      model(document, "/model"),
      ddp(document, "/ddp"),
      comm_overlap(document, "/comm_overlap"),
      mixed_precision(document, "/mixed_precision"),
      dataset(document, "/dataset"),
      train(document, "/train"),
      optimizer(document, "/optimizer"),
      env_vars(document, "/env_vars"),
      software(document, "/software"),
      pipeline(document, "/pipeline"),
      costs(document, "/costs"),
      dist(document, "/dist"),
      peft(document, "/peft") {}

void refuse(const ScenarioSections& sections, Scenario& scenario, const Reader& section,
            const std::string& key, const std::string& id, const std::string& reason) {
  if (!sections.collect) section.fail(key, reason);
  add_finding(scenario, section, key, id, Finding::Kind::error, section.text_of(key), "", reason);
}

void not_simulated(const ScenarioSections& sections, Scenario& scenario, const Reader& section,
                   const std::string& key, const std::string& message) {
  if (!sections.collect) section.fail(key, message);
  add_finding(scenario, section, key, "not-simulated-yet", Finding::Kind::advice,
              section.text_of(key), "", message);
}

void add_finding(Scenario& scenario, const Reader& section, const std::string& key,
                 const std::string& id, Finding::Kind kind, const std::string& requested,
                 const std::string& effective, const std::string& reason) {
  const std::string name =
      section.pointer().empty() ? key : section.pointer().substr(1) + "." + key;
  scenario.findings.push_back(
      {id, kind, name, section.pointer(key), requested, effective, reason, section.file(key)});
}

Cluster read_cluster_words(const std::string& cluster, std::span<const std::string> overrides,
                           const DataPaths& data) {
  Document document{std::string(command_line_name), std::make_shared<json>(json::object()), {}};
  apply_cluster(document, cluster);
  apply_overrides(document, overrides);
  const ScenarioSections sections(document);
  static const std::vector<std::string> own{"cluster", "software", "env_vars"};
  for (const std::string& key : sections.top.keys())
    if (std::find(own.begin(), own.end(), key) == own.end())
      sections.top.fail(key, "is no part of a system" + suggestion(key, own));
  for (const Reader* section : {&sections.cluster, &sections.software})
    check_spelling(*section, *section_row(section->pointer().substr(1)));
  Scenario scenario;
  read_software(sections.software, scenario);
  read_cluster_section(sections, scenario, data);
  scenario.cluster.nccl = read_nccl(sections.env_vars, scenario.software.nccl);
  sections.env_vars.refuse_unused();
  return scenario.cluster;
}

Scenario read_scenario(const std::string& path, std::span<const std::string> overrides,
                       const std::string& cluster, const DataPaths& data, Strictness strictness) {
  return read_document(load_any(path), overrides, cluster, data, strictness);
}

Scenario read_scenario_text(const std::string& text, const std::string& file,
                            std::span<const std::string> overrides, const std::string& cluster,
                            const DataPaths& data, Strictness strictness) {
  return read_document(parse_any(text, file), overrides, cluster, data, strictness);
}

}  // namespace stepsim
