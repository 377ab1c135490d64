#include "sim/study/calibrate_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/files.h"

namespace stepsim {
namespace {

std::string joined(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) text += (text.empty() ? "" : ", ") + file;
  return text;
}

/// Links as they were fitted; how far a job reaches stays what the scenario says.
void take_links(Cluster& to, const Cluster& from) {
  to.device = from.device;
  to.nic_efficiency = from.nic_efficiency;
  to.nic_latency = from.nic_latency;
}

}  // namespace

SystemCalibration calibrate_system(const std::string& system,
                                   const std::vector<std::string>& collectives,
                                   const std::vector<std::string>& steps, const DataPaths& data) {
  SystemCalibration result{.system = system, .links = {}, .steps = {}, .file_text = {}};
  const Located found = locate_system(system, data);
  if (!found.problem.empty()) throw Error(printable(system), "", found.problem);
  HardwareFile file = HardwareFile::of_system(found.file, found.pointer, data);
  if (!collectives.empty()) {
    std::vector<CollectiveSample> samples;
    for (const std::string& name : collectives)
      for (const CollectiveSample& sample : read_collective_samples(name))
        samples.push_back(sample);
    result.links = calibrate_links(read_cluster(system, 1, "", data), samples);
    for (const LinkParameter& p : result.links->parameters)
      file.set(p.pointer, p.after, p.unit,
               fmt::format("fitted to {} ({} collectives, stepsim calibrate --collectives)",
                           joined(collectives), samples.size()));
  }
  if (!steps.empty()) {
    std::vector<StepSample> samples = read_samples(steps, data, 1, system);
    std::map<std::string, double> stacks;
    for (StepSample& sample : samples) {
      if (result.links) take_links(sample.row.scenario->cluster, result.links->cluster);
      const StackProfile& stack = sample.row.scenario->cluster.stack;
      stacks[stack.name] = stack.dispatch.value;
    }
    result.steps = calibrate_steps(std::move(samples), system_step_parameters(found, stacks, data));
    for (const FittedStepParameter& p : result.steps->parameters)
      for (const StepPlace& place : p.parameter.places)
        file.set(place.pointer, p.after, std::string(p.parameter.row->unit),
                 fmt::format("fitted to {} ({} steps, stepsim calibrate --steps)", joined(steps),
                             result.steps->steps));
  }
  result.file_text = file.text();
  return result;
}

}  // namespace stepsim
