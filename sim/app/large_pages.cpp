// Big blocks on huge pages: a graph of millions of tasks is written once, and on 4 KiB pages the
// first touch of each page costs more than the simulation, most of all on virtual machines.
// Replaces the program's operator new; sanitizers keep their own.
#include "sim/app/large_pages.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <thread>

#if defined(__SANITIZE_ADDRESS__)
#define STEPSIM_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STEPSIM_SANITIZED
#endif
#endif

#ifdef STEPSIM_SANITIZED

void stepsim::app::keep_freed_blocks() {}

#else

namespace {

constexpr size_t huge_page = size_t{2} << 20;
/// What a step of a few million tasks needs. Only what is touched is taken.
constexpr size_t first_heap = size_t{384} << 20;
/// No more of a block is touched ahead: a reserve may be larger than what is used.
constexpr size_t most_ahead = size_t{64} << 20;

#ifdef MADV_POPULATE_WRITE
/// Touches the pages of new big blocks ahead of who writes them, on another core. It changes no
/// content, so a block that is freed meanwhile does no harm.
class PageToucher {
 public:
  void touch(void* block, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (waiting_ == std::size(blocks_)) return;  // only a hint
    blocks_[(first_ + waiting_++) % std::size(blocks_)] = {static_cast<char*>(block), bytes};
    changed_.notify_one();
  }
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return waiting_ > 0; });
      const Block block = blocks_[first_];
      first_ = (first_ + 1) % std::size(blocks_);
      --waiting_;
      lock.unlock();
      for (size_t done = 0; done < block.bytes; done += huge_page)
        if (madvise(block.begin + done, huge_page, MADV_POPULATE_WRITE) != 0) break;
    }
  }

 private:
  struct Block {
    char* begin = nullptr;
    size_t bytes = 0;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  Block blocks_[64];
  size_t first_ = 0, waiting_ = 0;
};
std::atomic<PageToucher*> toucher = nullptr;
#endif

}  // namespace

void stepsim::app::keep_freed_blocks() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  // Small blocks come from large pages as well: the heap grows once, is marked, and keeps its room.
  void* room = std::malloc(first_heap);
  if (!room) return;
  const auto first =
      (reinterpret_cast<std::uintptr_t>(room) + huge_page - 1) / huge_page * huge_page;
  madvise(reinterpret_cast<void*>(first), first_heap - huge_page, MADV_HUGEPAGE);
  std::free(room);
#ifdef MADV_POPULATE_WRITE
  if (std::thread::hardware_concurrency() < 2) return;
  try {
    auto* const works = new PageToucher;  // it lives as long as the process: no one may join it
    std::thread([works] { works->work(); }).detach();
    toucher = works;
  } catch (const std::exception&) {
    return;  // without a thread pages are touched where they are written
  }
#endif
}

void* operator new(size_t bytes) {
  void* block = nullptr;
  if (bytes >= huge_page) {
    // To the end of its last page: of a page that is asked for in part the kernel makes small ones.
    const size_t whole = (bytes + huge_page - 1) / huge_page * huge_page;
    block = std::aligned_alloc(huge_page, whole);
    if (block)
      madvise(block, whole, MADV_HUGEPAGE);  // a hint: small pages do when there are no huge ones
#ifdef MADV_POPULATE_WRITE
    if (PageToucher* const works = toucher; works && block && whole > 2 * huge_page)
      works->touch(block, std::min(whole, most_ahead));
#endif
  } else {
    block = std::malloc(bytes > 0 ? bytes : 1);
  }
  if (!block) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

#endif
