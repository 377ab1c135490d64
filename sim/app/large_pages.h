// Where the program's memory lies.
#pragma once

namespace stepsim::app {

/// What is freed stays with the process, its small blocks lie on large pages, and a thread touches
/// big ones ahead: a page's first touch costs more than what is mostly done with it.
void keep_freed_blocks();

}  // namespace stepsim::app
