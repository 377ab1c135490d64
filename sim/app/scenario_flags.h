// Options that every command has which reads scenarios, of one or of two.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace stepsim::app {

/// `--cluster`, `--dialect` and `--json`. `of` says whose system it is, `what` is written as JSON.
template <class Options>
void add_scenario_flags(CLI::App* command, Options& options, const std::string& of,
                        const std::string& what) {
  command
      ->add_option("--cluster", options.cluster,
                   of + ": a name from `stepsim list clusters`, or a file")
      ->type_name("NAME[:NODES]");
  command
      ->add_option("--dialect", options.dialect,
                   "whose defaults and checks hold: bridge or megatron-lm")
      ->type_name("NAME")
      ->check(CLI::IsMember({"bridge", "megatron-lm"}));
  command
      ->add_option("--json", options.json_file, "write " + what + " as JSON (- = standard output)")
      ->type_name("FILE");
}

}  // namespace stepsim::app
