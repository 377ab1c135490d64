#include "sim/study/nccl_log.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/document.h"
#include "sim/network/operation.h"
#include "sim/study/csv.h"

namespace stepsim {
namespace {

[[noreturn]] void refuse_line(const std::string& file, int line, const std::string& message) {
  throw Error(file, std::to_string(line) + ":1", message);
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// An operation in "all_reduce_perf", "./build/all_reduce_perf_mpi" or "my-all_reduce.log".
std::optional<Collective> operation_in(std::string word) {
  word = word.substr(word.rfind('/') + 1);
  for (const std::string_view ending : {"_mpi", "_perf"})
    if (word.ends_with(ending)) word.resize(word.size() - ending.size());
  return operation_named(word);
}

std::optional<Collective> operation_of_file(const std::string& file) {
  const std::string stem = std::filesystem::path(file).stem().string();
  for (const std::string& name : operation_names())
    if (stem.find(name) != std::string::npos) return operation_named(name);
  for (const char* name : {"alltoall", "sendrecv"})
    if (stem.find(name) != std::string::npos) return operation_named(name);
  return std::nullopt;
}

double number(const std::string& word, const char* what, const std::string& file, int line) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value) ||
      value < 0)
    refuse_line(file, line,
                "column '" + std::string(what) + "' must be a number from 0; got '" +
                    printable(word) + "'");
  return value;
}

/// What the comment lines above a table say.
struct LogRun {
  std::optional<Collective> op;
  int ranks = 0;
  std::set<std::string> hosts;
  size_t columns = 0, size = 0, time = 0;  ///< of the table; no columns: it has not begun
};

/// "# Rank  3 Group  0 Pid 1890 on worker-1 device  3 [0x99] NVIDIA H100".
void read_rank(const std::vector<std::string>& words, LogRun& run) {
  ++run.ranks;
  const auto on = std::find(words.begin(), words.end(), "on");
  if (on != words.end() && on + 1 != words.end()) run.hosts.insert(*(on + 1));
}

void read_comment(const std::string& line, LogRun& run) {
  const std::vector<std::string> words = words_of(line);
  const auto begins = [&](const char* word) { return words.size() > 1 && words[1] == word; };
  if (begins("Collective") || (begins("nThread") && run.columns > 0)) {
    run = {};
    if (begins("Collective")) run.op = operation_in(words.back());
  } else if (begins("Rank")) {
    read_rank(words, run);
  } else if (begins("size")) {
    run.columns = words.size() - 1;
    run.size = 0;
    const auto time = std::find(words.begin(), words.end(), "time");
    run.time = static_cast<size_t>(time - words.begin()) - 1;
    if (time == words.end()) run.columns = 0;
  }
}

CollectiveSample sample_of(const std::vector<std::string>& words, const LogRun& run,
                           const std::string& file, int line) {
  if (words.size() != run.columns)
    refuse_line(file, line,
                "expected " + std::to_string(run.columns) +
                    " columns, as the line '# size count type ...' above names; got " +
                    std::to_string(words.size()));
  if (run.ranks < 2)
    refuse_line(file, line,
                "no two '# Rank' lines above this table: they say how many GPUs and nodes ran");
  const std::optional<Collective> op = run.op ? run.op : operation_of_file(file);
  if (!op)
    refuse_line(file, line,
                "nothing says which operation ran: keep the line '# Collective test starting', or "
                "call the file after it, as all_reduce.log");
  const int nodes = std::max(1, static_cast<int>(run.hosts.size()));
  if (run.ranks % nodes != 0)
    refuse_line(file, line,
                std::to_string(run.ranks) + " ranks are no multiple of " + std::to_string(nodes) +
                    " hosts");
  return {*op, run.ranks, nodes, number(words[run.size], "size", file, line),
          number(words[run.time], "time", file, line) * 1e-6};
}

/// mpirun --tag-output: "[1,0]<stdout>:".
std::string untagged(const std::string& line) {
  const size_t tag = line.find(">:");
  return line.starts_with('[') && tag != std::string::npos && tag < 40 ? line.substr(tag + 2)
                                                                       : line;
}

}  // namespace

std::vector<CollectiveSample> read_nccl_log(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  std::vector<CollectiveSample> samples;
  LogRun run;
  int number = 0;
  for (std::string raw; std::getline(lines, raw);) {
    ++number;
    const std::string line = untagged(raw);
    const size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos) continue;
    if (line[start] == '#') {
      // "#Rank" and "# Rank" alike.
      read_comment("# " + line.substr(start + 1), run);
      continue;
    }
    const std::vector<std::string> words = words_of(line);
    const bool figures = line[start] >= '0' && line[start] <= '9';
    if (figures && run.columns > 0) {
      const CollectiveSample sample = sample_of(words, run, file, number);
      if (sample.bytes > 0 && sample.seconds > 0) samples.push_back(sample);
    } else if (run.columns == 0) {
      for (const std::string& word : words)
        if (word.find("_perf") != std::string::npos && operation_in(word))
          run.op = operation_in(word);
    }
  }
  if (samples.empty())
    throw Error(file, "",
                "holds no table of nccl-tests: expected a line '# size count type redop root time "
                "algbw busbw' and figures below it");
  return samples;
}

std::vector<CollectiveSample> read_collective_table(const std::string& text,
                                                    const std::string& file) {
  std::vector<CollectiveSample> samples;
  for (const CsvRow& row :
       parse_csv(text, file, {"op", "n_gpus", "n_nodes", "msg_bytes", "time_us"})) {
    const std::optional<Collective> op = operation_named(row.at("op"));
    if (!op)
      refuse_line(file, row.line,
                  "unknown operation '" + printable(row.at("op")) + "'" +
                      suggestion(row.at("op"), operation_names()));
    const double gpus = number_in(row, "n_gpus", file), nodes = number_in(row, "n_nodes", file);
    const CollectiveSample sample{
        *op, static_cast<int>(std::min(gpus, 1e6)), static_cast<int>(std::min(nodes, 1e6)),
        number_in(row, "msg_bytes", file), number_in(row, "time_us", file) * 1e-6};
    if (sample.gpus < 2 || sample.nodes < 1 || sample.gpus % sample.nodes != 0 ||
        sample.bytes <= 0 || sample.seconds <= 0)
      refuse_line(file, row.line,
                  "needs two GPUs or more in whole nodes, a size and a time above 0");
    samples.push_back(sample);
  }
  if (samples.empty()) throw Error(file, "", "has no rows");
  return samples;
}

std::vector<CollectiveSample> read_collective_samples(const std::string& file) {
  std::error_code unreadable;
  if (std::filesystem::is_directory(file, unreadable))
    throw Error(file, "", "is a directory; expected the output of nccl-tests or a CSV file");
  const bool table = std::filesystem::path(file).extension() == ".csv";
  return (table ? read_collective_table : read_nccl_log)(read_text(file), file);
}

}  // namespace stepsim
