// Where the program's memory lies.
#pragma once

namespace stepsim::app {

/// What is freed stays with the process: first touching a page anew costs more than what is mostly
/// done with it, most of all on virtual machines.
void keep_freed_blocks();

}  // namespace stepsim::app
