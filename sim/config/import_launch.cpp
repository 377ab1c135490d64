#include "sim/config/import_launch.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace stepsim {
namespace {

using nlohmann::json;

constexpr int64_t most_ranks = 100'000'000;

std::optional<int64_t> count(const ShellWord& word) {
  int64_t value = 0;
  const std::string& text = word.text;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!word.lacks.empty() || code != std::errc{} || end != text.data() + text.size() || value < 1 ||
      value > most_ranks)
    return std::nullopt;
  return value;
}

bool is_training_script(const ShellWord& word) {
  std::string_view name = word.text;
  if (name.find_first_of(" \t\n") != std::string_view::npos) return false;
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 = 0
  return name.starts_with("pretrain_") && name.ends_with(".py");
}

/// torchrun takes dashes and underscores alike (torch/distributed/argparse_util.py).
std::optional<int64_t> launcher_flag(std::span<const ShellWord> words, const std::string& flag) {
  std::optional<int64_t> value;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string text = words[i].text;
    const size_t equals = std::min(text.find('='), text.size());
    std::replace(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), '_', '-');
    if (text.substr(0, equals) != flag) continue;
    if (equals < text.size())
      value = count({text.substr(equals + 1), words[i].lacks});
    else if (i + 1 < words.size())
      value = count(words[i + 1]);
  }
  return value;
}

std::optional<int64_t> variable(const ShellScript& script,
                                std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = script.variables.find(name);
        found != script.variables.end() && found->second.size() == 1)
      if (const auto value = count(found->second.front())) return value;
  return std::nullopt;
}

void put_environment(json& section, std::string_view name, const ShellWord& value) {
  const bool ours = name == "CUDA_DEVICE_MAX_CONNECTIONS" || name.starts_with("NCCL_") ||
                    name.starts_with("NVTE_") || name.starts_with("TORCH_NCCL_");
  if (!ours || !value.lacks.empty() || value.text.empty()) return;
  const auto number = count(value);
  if (number || value.text == "0")
    section[std::string(name)] = number.value_or(0);
  else
    section[std::string(name)] = value.text;
}

}  // namespace

TrainingCommand training_command(const ShellScript& script) {
  TrainingCommand last;  // the last one that has arguments, else the last
  for (const ShellCommand& command : script.commands)
    for (size_t i = 0; i < command.words.size(); ++i) {
      if (!is_training_script(command.words[i])) continue;
      const bool has_arguments =
          std::any_of(command.words.begin() + static_cast<std::ptrdiff_t>(i), command.words.end(),
                      [](const ShellWord& word) { return word.text.starts_with("--"); });
      if (has_arguments || last.command == nullptr || !last.has_arguments)
        last = {&command, i + 1, has_arguments};
      break;
    }
  return last;
}

json launch_sizes(const ShellScript& script, std::span<const ShellWord> launcher) {
  json launch = json::object();
  auto per_node = launcher_flag(launcher, "--nproc-per-node");
  if (!per_node)
    per_node = variable(script, {"GPUS_PER_NODE", "NPROC_PER_NODE", "NUM_GPUS_PER_NODE"});
  auto nodes = launcher_flag(launcher, "--nnodes");
  if (!nodes) nodes = variable(script, {"NNODES", "NUM_NODES", "N_NODES"});
  auto gpus = variable(script, {"WORLD_SIZE"});
  if (!nodes && per_node && gpus && *gpus % *per_node == 0) nodes = *gpus / *per_node;
  if (per_node && nodes)
    gpus = *per_node <= most_ranks / *nodes ? std::optional(*per_node * *nodes) : std::nullopt;
  if (per_node) launch["gpus_per_node"] = *per_node;
  if (nodes) launch["nodes"] = *nodes;
  if (gpus) launch["gpus"] = *gpus;
  return launch;
}

json environment(const ShellScript& script, const TrainingCommand& training) {
  json section = json::object();
  for (const auto& [name, value] : script.exported) put_environment(section, name, value);
  if (training.command == nullptr) return section;
  for (const auto& [name, value] : training.command->environment)
    put_environment(section, name, value);
  // env NAME=value torchrun ...
  for (size_t i = 0; i < training.arguments; ++i) {
    const ShellWord& word = training.command->words[i];
    if (const size_t equals = word.text.find('='); equals != std::string::npos)
      put_environment(section, std::string_view(word.text).substr(0, equals),
                      {word.text.substr(equals + 1), word.lacks});
  }
  return section;
}

}  // namespace stepsim
