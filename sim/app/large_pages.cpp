// Big blocks on huge pages: a graph of millions of tasks is written once, and on 4 KiB pages the
// first touch of each page costs more than the simulation. Replaces the program's operator new;
// sanitizers keep their own.
#include "sim/app/large_pages.h"

#include <malloc.h>
#include <sys/mman.h>

#include <climits>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STEPSIM_SANITIZED
#endif
#endif

namespace {
constexpr size_t huge_page = size_t{2} << 20;
}

void stepsim::app::keep_freed_blocks() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(STEPSIM_SANITIZED)

void* operator new(size_t bytes) {
  void* block = nullptr;
  if (bytes >= huge_page) {
    // To the end of its last page: of a page that is asked for in part the kernel makes small ones.
    const size_t whole = (bytes + huge_page - 1) / huge_page * huge_page;
    block = std::aligned_alloc(huge_page, whole);
    if (block)
      madvise(block, whole, MADV_HUGEPAGE);  // a hint: small pages do when there are no huge ones
  } else {
    block = std::malloc(bytes > 0 ? bytes : 1);
  }
  if (!block) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

#endif
