// fuzz_inputs [N [SEED]]: N mutations of inputs of every kind through the readers.
// Law: each returns or throws stepsim::Error with one line, within one second of processor time.
// fuzz_inputs --show I [SEED] prints input I, which depends on I and SEED alone. Batches run in
// child processes, so that a crash or an endless loop is found, named and written to a file.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/config/cluster_read.h"
#include "sim/config/import.h"
#include "sim/config/model_read.h"
#include "sim/config/read.h"
#include "sim/report/check.h"
#include "tests/fuzz/mutation.h"

using namespace stepsim;

namespace {

namespace fs = std::filesystem;

/// As `check` reads it, to the last line of its report, and as `run` does.
void read_both_ways(const std::string& text, const std::string& file, const std::string& cluster,
                    const DataPaths& data) {
  const Scenario s = read_scenario_text(text, file, {}, cluster, data, Strictness::collect);
  const CheckReport report = make_check(s);
  check_text(s, report);
  check_json(s, report);
  read_scenario_text(text, file, {}, cluster, data);
}
void read_scenario_json(const std::string& text, const DataPaths& data) {
  read_both_ways(text, "scenarios/fuzz.json", "", data);
}
void read_model_json(const std::string& text, const DataPaths&) {
  const Document document = parse_document(text, "models/fuzz.json");
  read_architecture(Reader(document, ""), "fuzz");
}
void read_system_json(const std::string& text, const DataPaths& data) {
  const Document document = parse_document(text, "hardware/fuzz.json");
  bool stack_found = false;
  Cluster cluster =
      read_system(Reader(document, ""), "fuzz", "", data, data.root / "hardware", stack_found);
  scale(cluster, 4, 0);
}
void read_gpu_json(const std::string& text, const DataPaths&) {
  const Document document = parse_document(text, "hardware/gpus/fuzz.json");
  read_device(Reader(document, ""));
}
/// A foreign file becomes a document, and that goes where a scenario goes.
void read_foreign(const std::string& text, const std::string& file, const DataPaths& data) {
  const Document document = parse_any(text, file);
  const std::string again = document.root->dump();
  read_both_ways(again, file, document.root->contains("cluster") ? "" : "dgx-h100:16", data);
}
void read_yaml(const std::string& text, const DataPaths& data) {
  read_foreign(text, "tests/fuzz/seeds/fuzz.yaml", data);
}
void read_script(const std::string& text, const DataPaths& data) {
  read_foreign(text, "tests/fuzz/seeds/fuzz.sh", data);
}
void read_words(const std::string& text, const DataPaths& data) {
  read_foreign(text, "tests/fuzz/seeds/fuzz.args", data);
}
void read_unnamed(const std::string& text, const DataPaths& data) {
  read_foreign(text, "tests/fuzz/seeds/fuzz", data);
}

/// A kind of input: where its seeds are and what reads it.
struct KindRow {
  const char *name, *folder, *ending;
  void (*read)(const std::string& text, const DataPaths& data);
};
constexpr KindRow kinds[] = {
    {"scenario", "scenarios", ".json", read_scenario_json},
    {"model", "models", ".json", read_model_json},
    {"system", "hardware", ".json", read_system_json},
    {"gpu", "hardware/gpus", ".json", read_gpu_json},
    {"yaml", "tests/fuzz/seeds", ".yaml", read_yaml},
    {"script", "tests/fuzz/seeds", ".sh", read_script},
    {"words", "tests/fuzz/seeds", ".args", read_words},
    {"unnamed", "tests/fuzz/seeds", "", read_unnamed},
};
constexpr size_t kind_count = std::size(kinds);

struct Seeds {
  std::vector<std::string> texts[kind_count];
};

Seeds load_seeds() {
  Seeds seeds;
  for (size_t kind = 0; kind < kind_count; ++kind) {
    std::vector<fs::path> paths;
    for (const auto& entry :
         fs::directory_iterator(fs::path(STEPSIM_SOURCE_DIR) / kinds[kind].folder))
      if (entry.is_regular_file() &&
          (*kinds[kind].ending == 0 || entry.path().extension() == kinds[kind].ending))
        paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) seeds.texts[kind].push_back(read_text(path));
    if (paths.empty()) {
      std::fprintf(stderr, "no seeds of kind %s\n", kinds[kind].name);
      std::exit(2);
    }
  }
  return seeds;
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Runs inputs first .. last - 1; the exit code says whether all kept the law.
int run(const Seeds& seeds, const DataPaths& data, uint64_t seed, uint64_t first, uint64_t last) {
  int bad = 0;
  for (uint64_t i = first; i < last; ++i) {
    const size_t kind = i % kind_count;
    const std::string text = mutated(seeds.texts[kind], seed, i);
    const double start = processor_seconds();
    std::string problem;
    try {
      kinds[kind].read(text, data);
    } catch (const Error& error) {
      const std::string line = error.what();
      for (const char c : line)
        if (c < ' ' || c > '~') problem = "the message is not one printable line: " + line;
      if (line.size() > 1500) problem = "the message is " + std::to_string(line.size()) + " long";
    } catch (const std::exception& other) {
      problem = std::string("throws something else: ") + other.what();
    }
    if (const double seconds = processor_seconds() - start; seconds > 1)
      problem = "takes " + std::to_string(seconds) + " s";
    if (problem.empty()) continue;
    std::fprintf(stderr, "input %llu (%s): %s\n", static_cast<unsigned long long>(i),
                 kinds[kind].name, problem.c_str());
    ++bad;
  }
  return bad > 0 ? 1 : 0;
}

/// The same in a child process; true when it came back with 0.
bool run_apart(const Seeds& seeds, const DataPaths& data, uint64_t seed, uint64_t first,
               uint64_t last) {
  const pid_t child = fork();
  if (child == 0) {
    const rlim_t seconds = 5 + (last - first) / 50;
    const rlimit limit{seconds, seconds + 5};
    setrlimit(RLIMIT_CPU, &limit);
    _exit(run(seeds, data, seed, first, last));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void write_input(const Seeds& seeds, uint64_t seed, uint64_t i) {
  const fs::path path = fs::temp_directory_path() / ("fuzz_input_" + std::to_string(i));
  std::ofstream(path, std::ios::binary) << mutated(seeds.texts[i % kind_count], seed, i);
  std::fprintf(stderr, "input %llu breaks the law; written to %s\n",
               static_cast<unsigned long long>(i), path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool show = !words.empty() && words[0] == "--show";
  const auto number = [&](size_t at, uint64_t otherwise) {
    return at < words.size() ? std::strtoull(words[at].c_str(), nullptr, 10) : otherwise;
  };
  const uint64_t count = number(show ? 1 : 0, 10'000), seed = number(show ? 2 : 1, 1);
  const Seeds seeds = load_seeds();
  if (show) {
    const std::string text = mutated(seeds.texts[count % kind_count], seed, count);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  const DataPaths data{.root = STEPSIM_SOURCE_DIR, .more_models = {}, .more_systems = {}};
  constexpr uint64_t batch = 500;
  int bad = 0;
  for (uint64_t first = 0; first < count; first += batch) {
    const uint64_t last = std::min(first + batch, count);
    if (run_apart(seeds, data, seed, first, last)) continue;
    for (uint64_t i = first; i < last; ++i) {
      if (run_apart(seeds, data, seed, i, i + 1)) continue;
      write_input(seeds, seed, i);
      if (++bad >= 10) return 1;
    }
  }
  std::printf("%llu inputs, %d break the law\n", static_cast<unsigned long long>(count), bad);
  return bad > 0 ? 1 : 0;
}
