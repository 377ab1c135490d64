// First of the benchmarks by file name: a child starts with the peak memory of its parent, which is
// small here. `stepsim run` from process start to exit, with the memory it took. Limits:
// llama3.1-405b on 1,024 H100s in 1 s and 600 MB; 98,304 GPUs with the same 192 microbatches at
// most 1.2 times as long (symmetry: one device a stage).
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <string>
#include <vector>

extern char** environ;

namespace {

/// Runs the program with these words, output thrown away; peak memory in MB, or -1 when it failed.
double peak_megabytes(std::vector<std::string> words) {
  words.insert(words.begin(), STEPSIM_PROGRAM);
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int spawned =
      posix_spawn(&child, STEPSIM_PROGRAM, &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (spawned != 0) return -1;
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? static_cast<double>(usage.ru_maxrss) / 1024
                                                       : -1;
}

void run_program(benchmark::State& state, const std::vector<std::string>& words) {
  double memory = 0;
  for (auto _ : state) {
    memory = peak_megabytes(words);
    if (memory < 0) {
      state.SkipWithError("the run failed");
      break;
    }
  }
  state.counters["peak_MB"] = memory;
}

constexpr const char* scenario = STEPSIM_SOURCE_DIR "/scenarios/llama3.1-405b-1024xh100-bf16.json";

void run_405b_1024_gpus(benchmark::State& state) { run_program(state, {"run", scenario}); }
void run_405b_98304_gpus(benchmark::State& state) {
  run_program(state, {"run", scenario, "cluster.nodes=12288", "train.global_batch_size=147456"});
}
BENCHMARK(run_405b_1024_gpus)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(8);
BENCHMARK(run_405b_98304_gpus)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(8);

}  // namespace
