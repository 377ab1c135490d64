#include "sim/engine/engine.h"

#include "sim/engine/execution.h"

namespace stepsim {

std::variant<Timeline, Deadlock> run(const TaskGraph& graph, EngineOptions options) {
  Execution execution(graph);
  if (options.sharing && !graph.flows.empty())
    execution.share(contended_resources(graph), contended_pools(graph));
  execution.resolve_roots();
  execution.run_flows();
  if (options.counts != nullptr) *options.counts = execution.counts();
  if (!execution.finished()) return execution.deadlock();
  return std::move(execution).take_timeline();
}

}  // namespace stepsim
