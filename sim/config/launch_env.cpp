// Launch-time environment: how many queues the host issues kernels through, and what norm kernels
// leave to communication (CUDA C++ Programming Guide;
// transformer_engine/pytorch/module/_common.py).
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/resolve.h"

namespace stepsim {

namespace {

/// An environment variable's integer, as a number or as its text.
int variable(const Reader& env, const std::string& key, int absent, int least, int most) {
  const nlohmann::json* value = env.find(key);
  if (value == nullptr || !value->is_string())
    return static_cast<int>(env.integer(key, absent, {least, most}));
  const std::string text = value->get<std::string>();
  const bool digits = !text.empty() && text.size() <= 4 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(text) < least || std::stoi(text) > most)
    env.fail(key, "must be an integer from " + std::to_string(least) + " to " +
                      std::to_string(most) + "; got '" + printable(text) + "'");
  return std::stoi(text);
}

/// What the launcher sets where the scenario says nothing: by GPU generation and parallelism
/// (Megatron-Bridge v0.5.1 recipes/run_plugins.py, PerfEnvPlugin). Megatron-LM sets nothing.
LaunchEnv launcher_default(const ScenarioSections& sections, const Scenario& scenario) {
  LaunchEnv env;
  if (sections.dialect != Dialect::bridge) return env;
  const auto effective = [&](const char* key) {
    const auto found = scenario.effective.find(key);
    return found == scenario.effective.end() ? std::string() : found->second;
  };
  const Parallelism& p = scenario.parallel;
  const bool flex = effective("model.moe_token_dispatcher_type") == "\"flex\"";
  const bool inner = p.tp > 1 || p.cp > 1, outer = p.dp > 1 || p.pp > 1;
  const bool blackwell = scenario.cluster.device.architecture == "blackwell";
  if (flex || (blackwell && inner && outer))
    env.max_connections = 32;
  else if (!blackwell && inner && effective("model.overlap_moe_expert_parallel_comm") != "true")
    env.max_connections = 1;
  env.norm_margin_forward = env.norm_margin_backward = flex ? 20 : 16;
  return env;
}

}  // namespace

void resolve_launch_env(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& env_vars = sections.env_vars;
  const LaunchEnv absent = launcher_default(sections, scenario);
  LaunchEnv& env = scenario.launch_env;
  const auto read = [&](const std::string& name, int fallback, int least, int most) {
    const int value = variable(env_vars, name, fallback, least, most);
    if (!scenario.costs) scenario.effective["env_vars." + name] = std::to_string(value);
    return value;
  };
  const std::string queues = "CUDA_DEVICE_MAX_CONNECTIONS";
  env.max_connections_set = env_vars.find(queues) != nullptr;
  env.max_connections = read(queues, absent.max_connections, 1, 32);
  env.norm_margin_forward =
      read("NVTE_FWD_LAYERNORM_SM_MARGIN", absent.norm_margin_forward, 0, 128);
  env.norm_margin_backward =
      read("NVTE_BWD_LAYERNORM_SM_MARGIN", absent.norm_margin_backward, 0, 128);
}

}  // namespace stepsim
