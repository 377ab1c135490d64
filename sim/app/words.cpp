#include "sim/app/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim/base/table.h"

namespace stepsim::app {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> short_flags{
    {{"-tp", "model.tensor_model_parallel_size"},
     {"-pp", "model.pipeline_model_parallel_size"},
     {"-cp", "model.context_parallel_size"},
     {"-vp", "model.virtual_pipeline_model_parallel_size"},
     {"-ep", "model.expert_model_parallel_size"},
     {"-etp", "model.expert_tensor_parallel_size"},
     {"-ms", "train.train_iters"},
     {"-gb", "train.global_batch_size"},
     {"-mb", "train.micro_batch_size"},
     {"-sl", "dataset.seq_length"}}};

}  // namespace

std::vector<std::string> with_short_flags(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  constexpr std::array<std::string_view, 5> takers{"run", "check", "sweep", "diff", "bisect"};
  if (words.empty() || std::find(takers.begin(), takers.end(), words[0]) == takers.end())
    return words;
  std::vector<std::string> result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string flag = words[i].substr(0, words[i].find('='));
    const auto* row = std::find_if(short_flags.begin(), short_flags.end(),
                                   [&](const auto& r) { return r.first == flag; });
    if (row == short_flags.end()) {
      result.push_back(words[i]);
      continue;
    }
    const size_t equals = words[i].find('=');
    std::string value;
    if (equals != std::string::npos)
      value = words[i].substr(equals + 1);
    else if (i + 1 < words.size())
      value = words[++i];
    result.push_back(std::string(row->second) + "=" + value);
  }
  return result;
}

Error word_error(const CLI::App& app, const CLI::ParseError& problem,
                 const std::vector<std::string>& words) {
  std::vector<std::string> commands;
  const CLI::App* chosen = nullptr;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    commands.push_back(command->get_name());
    if (!words.empty() && command->get_name() == words[0]) chosen = command;
  }
  const std::string place = "<command line>";
  if (words.empty())
    return {place, "", fmt::format("expected a command: {}", fmt::join(commands, ", "))};
  if (chosen == nullptr)
    return {place, "/" + words[0],
            "unknown command '" + words[0] + "'" + suggestion(words[0], commands)};
  std::vector<std::string> options;
  for (const CLI::Option* option : chosen->get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    if (flag.starts_with("--") && std::find(options.begin(), options.end(), flag) == options.end())
      return {place, "/" + flag, "unknown option '" + flag + "'" + suggestion(flag, options)};
  }
  std::string what = problem.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return {place, "/" + chosen->get_name(), what + " (stepsim " + chosen->get_name() + " --help)"};
}

}  // namespace stepsim::app
