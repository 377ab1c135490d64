// Launch-time environment: NVLS, how many queues the host issues kernels through, and what norm
// kernels leave to communication (CUDA C++ Programming Guide;
// transformer_engine/pytorch/module/_common.py).
#include <charconv>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/environment.h"
#include "sim/config/resolve.h"

namespace stepsim {

std::optional<int> environment_count(const Reader& env_vars, const std::string& key, int low,
                                     int high) {
  const nlohmann::json* value = env_vars.find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_string()) return env_vars.integer(key, low, {low, high});
  const std::string text = value->get<std::string>();
  if (text.empty()) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < low || number > high)
    env_vars.fail(key, "must be an integer from " + std::to_string(low) + " to " +
                           std::to_string(high) + "; got '" + printable(text) + "'");
  return number;
}

namespace {

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
    const int value = environment_count(env_vars, name, least, most).value_or(fallback);
    if (!scenario.costs) scenario.effective["env_vars." + name] = std::to_string(value);
    return value;
  };
  const std::string queues = "CUDA_DEVICE_MAX_CONNECTIONS";
  env.max_connections_set = environment_count(env_vars, queues, 1, 32).has_value();
  env.max_connections = read(queues, absent.max_connections, 1, 32);
  env.norm_margin_forward =
      read("NVTE_FWD_LAYERNORM_SM_MARGIN", absent.norm_margin_forward, 0, 128);
  env.norm_margin_backward =
      read("NVTE_BWD_LAYERNORM_SM_MARGIN", absent.norm_margin_backward, 0, 128);
  // Bridge's recipes turn NVLS off, but with registered user buffers
  // (recipes/utils/environment_utils.py, scripts/training/recipe_runner.py).
  const std::string nvls = "NCCL_NVLS_ENABLE";
  if (sections.dialect == Dialect::bridge && !environment_count(env_vars, nvls, 0, 2)) {
    scenario.cluster.nccl.nvls = sections.ddp.boolean("nccl_ub", false);
    if (!scenario.costs)
      scenario.effective["env_vars." + nvls] = scenario.cluster.nccl.nvls ? "1" : "0";
  }
}

}  // namespace stepsim
