// Where the program's memory lies.
#pragma once

namespace stepsim::app {

/// What is freed of blocks smaller than a large page stays with the process: first touching a page
/// anew costs more than what is mostly done with it. Larger blocks go back.
void keep_small_blocks();

}  // namespace stepsim::app
