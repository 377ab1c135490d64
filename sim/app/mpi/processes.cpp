// Many processes. The leader's thread for letters hands out errands; a process keeps one thread for
// letters too, so that it answers while its cores simulate.
#include "sim/app/processes.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <queue>
#include <thread>

#include "sim/app/mpi/board.h"
#include "sim/app/mpi/mail.h"
#include "sim/study/workers.h"

namespace stepsim::app {

namespace {

using LetterClock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::seconds;

constexpr auto pause_of_letters = microseconds(200);
constexpr auto silence_of_a_dead_leader = seconds(120);
constexpr auto patience_at_the_end = seconds(10);

/// What an errand and its answer begin with.
struct Heading {
  uint64_t filling = 0, number = 0;
};
std::string with_heading(const Heading& heading, const std::string& bytes) {
  std::string text(sizeof heading, '\0');
  std::memcpy(text.data(), &heading, sizeof heading);
  return text + bytes;
}
Heading heading_of(const std::string& text) {
  Heading heading;
  if (text.size() >= sizeof heading) std::memcpy(&heading, text.data(), sizeof heading);
  return heading;
}

/// What a process may use: the cores it is bound to, or its part of the machine's.
size_t usable_cores() {
  MPI_Comm here = MPI_COMM_NULL;
  int beside = 1;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  MPI_Comm_size(here, &beside);
  MPI_Comm_free(&here);
  cpu_set_t set;
  CPU_ZERO(&set);
  const size_t all = core_count();
  const size_t bound = sched_getaffinity(0, sizeof set, &set) == 0
                           ? static_cast<size_t>(std::max(1, CPU_COUNT(&set)))
                           : all;
  return bound < all ? bound : std::max<size_t>(1, all / static_cast<size_t>(beside));
}

struct Worker {
  size_t threads = 0;  ///< 0: has not said that it is ready
  size_t load = 0;     ///< errands that it has
  bool said_bye = false;
};

/// Errands of one process, done by its threads.
class Bench {
 public:
  Bench(size_t threads, const DataPaths& data) : data_(data) {
    // Never joined: the process ends while they may still do what nobody waits for.
    for (size_t i = 0; i < threads; ++i) std::thread([this] { work(); }).detach();
  }
  void put(std::string letter) {
    const std::lock_guard lock(mutex_);
    todo_.push(std::move(letter));
    wake_.notify_one();
  }
  std::optional<std::string> answer() {
    const std::lock_guard lock(mutex_);
    if (done_.empty()) return {};
    std::string text = std::move(done_.front());
    done_.pop();
    return text;
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !todo_.empty(); });
      const std::string letter = std::move(todo_.front());
      todo_.pop();
      lock.unlock();
      std::string answer;
      try {
        answer = with_heading(heading_of(letter), answer_of(letter.substr(sizeof(Heading)), data_));
      } catch (const std::exception&) {
        continue;  // the leader does it itself, and says what is wrong
      }
      lock.lock();
      done_.push(std::move(answer));
    }
  }

  DataPaths data_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::queue<std::string> todo_, done_;
};

}  // namespace

struct Processes::Job {
  int rank = 0, size = 1;
  size_t cores = 1;
  Board board;
  std::vector<Worker> workers;  ///< by rank
  std::atomic<bool> leaving = false;
  std::atomic<size_t> limit = 0;  ///< errands at a time in a process; 0: as its cores allow
  std::thread letters;

  /// The leader's letters, until it leaves.
  void hand_out() {
    Mail mail;
    auto said_alive = LetterClock::now();
    const auto read_all = [&] {
      bool any = false;
      while (const std::optional<Letter> letter = mail.next()) {
        Worker& from = workers[static_cast<size_t>(letter->from)];
        any = true;
        if (letter->subject == Subject::hello && letter->text.ends_with(STEPSIM_VERSION))
          from.threads = static_cast<size_t>(std::max(1, std::atoi(letter->text.c_str())));
        if (letter->subject == Subject::bye) from.said_bye = true;
        if (letter->subject != Subject::answer) continue;
        --from.load;
        const Heading heading = heading_of(letter->text);
        board.answer(heading.filling, heading.number, letter->text.substr(sizeof heading));
      }
      return any;
    };
    const auto to_all = [&](Subject subject, const std::string& text = {}) {
      for (int w = 1; w < size; ++w) mail.send(w, subject, text);
    };
    while (!leaving) {
      bool busy = read_all();
      const size_t store = board.are_short() ? 8 : 1;
      for (int w = 1; w < size; ++w) {
        Worker& worker = workers[static_cast<size_t>(w)];
        const size_t most =
            limit > 0 ? std::min<size_t>(limit, worker.threads) : worker.threads * store;
        while (worker.load < most) {
          std::optional<Taken> taken = board.take();
          if (!taken) break;
          ++worker.load;
          busy = true;
          mail.send(w, Subject::errand,
                    with_heading({taken->filling, taken->number}, taken->errand));
        }
      }
      if (LetterClock::now() - said_alive > seconds(1)) {
        to_all(Subject::alive);
        said_alive = LetterClock::now();
      }
      mail.sent();
      if (!busy) std::this_thread::sleep_for(pause_of_letters);
    }
    to_all(Subject::stop);
    const auto until = LetterClock::now() + patience_at_the_end;
    while (lost() > 0 && LetterClock::now() < until) {
      if (!read_all()) std::this_thread::sleep_for(pause_of_letters);
      mail.sent();
    }
    to_all(Subject::end, lost() > 0 ? "some are lost" : "");
    const auto soon = LetterClock::now() + seconds(1);
    while (!mail.sent() && LetterClock::now() < soon) std::this_thread::sleep_for(pause_of_letters);
  }
  int lost() const {
    return static_cast<int>(std::count_if(workers.begin() + 1, workers.end(),
                                          [](const Worker& w) { return !w.said_bye; }));
  }
};

Processes::Processes(int& argc, char**& argv) : job_(std::make_unique<Job>()) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &job_->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job_->size);
  if (level < MPI_THREAD_SERIALIZED) {
    std::fputs("stepsim: this MPI knows no threads (MPI_THREAD_SERIALIZED)\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  job_->cores = usable_cores();
  job_->workers.resize(static_cast<size_t>(job_->size));
  if (leads() && job_->size > 1) job_->letters = std::thread([this] { job_->hand_out(); });
}
Processes::~Processes() = default;
bool Processes::leads() const { return job_->rank == 0; }

int Processes::serve() {
  Mail mail;
  Bench bench(job_->cores, find_data());
  mail.send(0, Subject::hello, fmt::format("{} {}", job_->cores, STEPSIM_VERSION));
  auto heard = LetterClock::now();
  for (;;) {
    bool busy = false;
    while (std::optional<Letter> letter = mail.next()) {
      busy = true;
      heard = LetterClock::now();
      if (letter->subject == Subject::errand) bench.put(std::move(letter->text));
      if (letter->subject == Subject::stop) mail.send(0, Subject::bye);
      if (letter->subject != Subject::end) continue;
      // With a dead process among them MPI would wait for it forever.
      if (letter->text.empty()) MPI_Finalize();
      std::_Exit(0);
    }
    while (std::optional<std::string> answer = bench.answer()) {
      busy = true;
      mail.send(0, Subject::answer, std::move(*answer));
    }
    mail.sent();
    if (LetterClock::now() - heard > silence_of_a_dead_leader) std::_Exit(1);
    if (!busy) std::this_thread::sleep_for(pause_of_letters);
  }
}

Crew Processes::crew(int threads, const DataPaths& data) {
  const size_t own = threads > 0 ? static_cast<size_t>(threads) : job_->cores;
  job_->limit = static_cast<size_t>(std::max(threads, 0));
  if (job_->size == 1) return crew_of_threads(own, data);
  return [this, own, data](const Errands& errands) {
    struct Filled {
      Board& board;
      ~Filled() { board.clear(); }
    };
    job_->board.fill(errands);
    const Filled filled{job_->board};
    for_each_piece(own, own, [&](size_t) {
      while (!job_->board.finished()) {
        if (const std::optional<Taken> taken = job_->board.take())
          job_->board.answer(taken->filling, taken->number, answer_of(taken->errand, data));
        else
          std::this_thread::sleep_for(pause_of_letters);
      }
    });
  };
}

int Processes::leave(int exit_code) {
  std::cout.flush();
  std::fflush(nullptr);
  if (job_->size > 1) {
    job_->leaving = true;
    job_->letters.join();
    if (const int lost = job_->lost(); lost > 0) {
      std::fputs(fmt::format("stepsim: {} of {} processes did not answer any more; the others did "
                             "their work ({} pieces were given out again), nothing is missing\n",
                             lost, job_->size, job_->board.given_again())
                     .c_str(),
                 stderr);
      std::_Exit(exit_code);
    }
  }
  MPI_Finalize();
  return exit_code;
}

}  // namespace stepsim::app
