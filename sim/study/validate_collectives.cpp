#include "sim/study/validate_collectives.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>

#include "sim/base/error.h"
#include "sim/config/cluster_read.h"
#include "sim/config/reader.h"
#include "sim/network/operation.h"
#include "sim/study/csv.h"
#include "sim/study/dispatch_rows.h"

namespace stepsim {
namespace {

using nlohmann::json;

constexpr double large_message = 1 << 20;

/// One rule of the places file: it holds for rows whose fields contain its words.
struct Rule {
  std::map<std::string, std::string> contains;  ///< column to words
  std::string system, reason, runs, runs_small;
  std::vector<std::string> overrides;
  double factor = 1, small_bytes = 0;
  DispatchBenchmark benchmark;

  bool holds(const CsvRow& row) const {
    return std::all_of(contains.begin(), contains.end(), [&](const auto& rule) {
      return row.at(rule.first).find(rule.second) != std::string::npos;
    });
  }
};

/// hardware/measurements/collectives.json: what the words of a measured row mean here.
struct Places {
  std::vector<Rule> systems, left_out, timing, algorithms, dispatch;
};

/// What `runs` and how much; experts in all, or of one rank.
void read_benchmark(const Reader& from, DispatchBenchmark& benchmark) {
  std::vector<std::string> names;
  for (const DispatcherRow& row : dispatcher_rows)
    if (has_own_kernel(row.dispatcher)) names.emplace_back(row.name);
  constexpr Range sizes{1, 1 << 20};
  benchmark.dispatcher = from.choice("runs", "", names);
  benchmark.tokens = static_cast<double>(from.required_int("tokens", sizes));
  benchmark.hidden = static_cast<double>(from.required_int("hidden", sizes));
  benchmark.top_k = from.integer("top_k", 1, sizes);
  benchmark.experts = from.integer("experts", benchmark.top_k, sizes);
  benchmark.experts_per_rank = from.integer("experts_per_rank", 0, any_count);
  benchmark.groups_top_k = from.integer("groups_top_k", 0, any_count);
}

std::vector<Rule> read_rules(const Reader& top, const std::string& key) {
  static const std::vector<std::string> columns{"system", "gpu",   "fabric",
                                                "algo",   "notes", "nccl_version"};
  std::vector<Rule> rules;
  for (const Reader& from : top.children(key)) {
    Rule& rule = rules.emplace_back();
    const Reader where = from.child("where");
    for (const std::string& column : columns)
      if (where.has(column)) rule.contains[column] = where.required_string(column);
    where.refuse_unused(columns);
    rule.system = from.string("use", "");
    rule.reason = from.string("reason", "");
    rule.overrides = from.strings("set");
    rule.runs = from.string("runs", "");
    rule.runs_small = from.string("runs_small", rule.runs);
    rule.small_bytes = from.quantity("small", Dimension::bytes, 0);
    rule.factor = from.number("factor", 1, 0.1, 10);
    if (key == "dispatch") read_benchmark(from, rule.benchmark);
    for (const char* note : {"source", "notes"}) from.use(note);
    from.refuse_unused();
  }
  return rules;
}

Places read_places(const DataPaths& data) {
  const Document document = load_document(data.root / "hardware/measurements/collectives.json");
  const Reader top(document, "");
  Places places{read_rules(top, "systems"), read_rules(top, "left_out"), read_rules(top, "timing"),
                read_rules(top, "algorithms"), read_rules(top, "dispatch")};
  for (const char* key : {"description", "source", "notes"}) top.use(key);
  top.refuse_unused();
  return places;
}

const Rule* first_that_holds(const std::vector<Rule>& rules, const CsvRow& row) {
  const auto found =
      std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) { return rule.holds(row); });
  return found == rules.end() ? nullptr : &*found;
}

/// A group on its system, remembered: many rows share one.
struct Site {
  Cluster cluster;
  GroupPlacement group;
};

class Sites {
 public:
  explicit Sites(const DataPaths& data) : data_(data) {}

  const Site& at(const std::string& system, const std::vector<std::string>& overrides, int gpus,
                 int nodes) {
    std::string key = system + ":" + std::to_string(nodes) + ":" + std::to_string(gpus);
    for (const std::string& word : overrides) key += " " + word;
    const auto known = sites_.find(key);
    if (known != sites_.end()) return known->second;
    Site site;
    site.cluster = read_cluster_words(system + ":" + std::to_string(nodes), overrides, data_);
    std::vector<int> ranks;
    for (int node = 0; node < nodes; ++node)
      for (int i = 0; i < std::min(gpus / nodes, site.cluster.gpus_per_node); ++i)
        ranks.push_back(node * site.cluster.gpus_per_node + i);
    site.group = place(ranks, Fabric(site.cluster));
    return sites_.emplace(key, std::move(site)).first->second;
  }

 private:
  const DataPaths& data_;
  std::map<std::string, Site> sites_;
};

void predict_dispatch(MeasuredCollective& row, const CsvRow& fields, const Rule* rule,
                      const Site& site) {
  if (rule == nullptr) {
    row.failure = "nothing says what dispatch '" + row.algorithm_named + "' runs";
    return;
  }
  const DispatchRow shape =
      dispatch_row(rule->benchmark, row.op, fields.at("algo"), fields.at("dtype"), site.group);
  row.bytes = shape.counted.value;
  if (row.measured_seconds <= 0 && row.algorithm_rate > 0)
    row.measured_seconds = row.bytes / row.algorithm_rate;
  if (row.measured_seconds <= 0 || row.gpus < 2) {
    row.failure = "no time or fewer than two GPUs";
    return;
  }
  const CollectiveCost cost =
      dispatch_cost(shape.dispatcher, shape.pass, shape.shape, site.group, site.cluster, shape.sms);
  row.predicted_seconds = cost.duration.value;
  row.algorithm = cost.algorithm;
}

/// Fills the prediction, or `failure`.
void predict(MeasuredCollective& row, const CsvRow& fields, const Places& places, Sites& sites,
             CollectiveValidation& result) {
  if (const Rule* rule = first_that_holds(places.left_out, fields)) {
    row.failure = "left out: " + rule->reason;
    return;
  }
  const std::optional<Collective> op = operation_named(row.op);
  const bool dispatch = is_dispatch(row.op);
  if (!op && !dispatch) {
    row.failure = "operation '" + row.op + "' is not simulated";
    return;
  }
  // Where only a bandwidth is printed, the time follows by the definitions of nccl-tests.
  if (row.measured_seconds <= 0 && row.algorithm_rate > 0)
    row.measured_seconds = row.bytes / row.algorithm_rate;
  if (row.measured_seconds <= 0 && row.bus_rate > 0)
    row.measured_seconds = row.bytes / row.bus_rate * (op ? bus_factor(*op, row.gpus) : 1);
  if (!dispatch && (row.bytes <= 0 || row.measured_seconds <= 0 || row.gpus < 2)) {
    row.failure = "no size, no time or fewer than two GPUs";
    return;
  }
  const Rule* system = first_that_holds(places.systems, fields);
  if (system == nullptr) {
    row.failure = "no system is known for GPU '" + fields.at("gpu") + "'";
    return;
  }
  std::vector<std::string> overrides = system->overrides;
  if (!fields.at("nccl_version").empty())
    overrides.push_back("software.nccl=\"" + fields.at("nccl_version") + "\"");
  const Rule* algorithm = first_that_holds(places.algorithms, fields);
  if (algorithm != nullptr)
    overrides.insert(overrides.end(), algorithm->overrides.begin(), algorithm->overrides.end());
  // Racks count as one node to some: then a node is what ours is.
  const int most = sites.at(system->system, system->overrides, 2, 1).cluster.gpus_per_node;
  if (row.nodes < 1 || row.gpus > row.nodes * most) row.nodes = (row.gpus + most - 1) / most;
  if (row.gpus % row.nodes != 0) {
    row.failure = "GPUs are no multiple of the nodes";
    return;
  }
  const Site& site = sites.at(system->system, overrides, row.gpus, row.nodes);
  if (!op) {
    predict_dispatch(row, fields, first_that_holds(places.dispatch, fields), site);
    return;
  }
  const CollectiveCost cost = collective_cost(*op, {row.bytes}, site.group, site.cluster);
  const Rule* timing = first_that_holds(places.timing, fields);
  const double factor = timing == nullptr ? 1 : timing->factor;
  row.predicted_seconds = cost.duration.value * factor;
  row.algorithm = cost.algorithm;
  row.protocol = cost.protocol;
  result.timing_factor = std::max(result.timing_factor, factor);
  if (algorithm == nullptr || algorithm->runs.empty()) return;
  ++result.named;
  const bool small = row.bytes <= algorithm->small_bytes;
  result.agreed += row.algorithm == (small ? algorithm->runs_small : algorithm->runs) ? 1 : 0;
}

}  // namespace

RelativeErrors statistics_of(const std::vector<double>& errors) {
  RelativeErrors s;
  s.count = static_cast<int>(errors.size());
  if (errors.empty()) return s;
  std::vector<double> sizes;
  for (const double error : errors) {
    s.bias += error / s.count;
    sizes.push_back(std::abs(error));
    s.mean_abs += sizes.back() / s.count;
  }
  std::sort(sizes.begin(), sizes.end());
  const size_t half = sizes.size() / 2;
  s.median_abs = sizes.size() % 2 == 1 ? sizes[half] : (sizes[half - 1] + sizes[half]) / 2;
  s.p90_abs = sizes[static_cast<size_t>(std::ceil(0.9 * static_cast<double>(sizes.size()))) - 1];
  s.max_abs = sizes.back();
  return s;
}

CollectiveValidation validate_collectives(const std::string& file, const DataPaths& data) {
  std::error_code unreadable;
  if (std::filesystem::is_directory(file, unreadable))
    throw Error(file, "", "is a directory; expected a CSV file");
  const std::vector<CsvRow> rows = parse_csv(
      read_text(file), file,
      {"system", "gpu", "n_gpus", "n_nodes", "fabric", "op", "algo", "msg_bytes", "time_us"});
  const Places places = read_places(data);
  Sites sites(data);
  CollectiveValidation result;
  struct Errors {
    std::vector<double> large, small;
  };
  std::map<std::pair<std::string, std::string>, Errors> cells;
  Errors all;
  for (const CsvRow& fields : rows) {
    MeasuredCollective row;
    row.line = fields.line;
    row.system = printable(fields.at("system"));
    row.op = printable(fields.at("op"));
    row.algorithm_named = printable(fields.at("algo"));
    const double gpus = number_in(fields, "n_gpus", file);
    const double nodes = number_in(fields, "n_nodes", file);
    constexpr double most_gpus = 1 << 20;
    if (gpus > most_gpus || nodes > gpus || gpus != std::floor(gpus) || nodes != std::floor(nodes))
      throw Error(file, std::to_string(fields.line) + ":1",
                  "n_gpus must be a whole number up to 1048576, and n_nodes one up to n_gpus");
    row.gpus = static_cast<int>(gpus);
    row.nodes = static_cast<int>(nodes);
    row.bytes = number_in(fields, "msg_bytes", file);
    row.measured_seconds = number_in(fields, "time_us", file) * 1e-6;
    row.algorithm_rate = number_in(fields, "algbw_GBps", file) * 1e9;
    row.bus_rate = number_in(fields, "busbw_GBps", file) * 1e9;
    predict(row, fields, places, sites, result);
    if (row.failure.empty()) {
      Errors& cell = cells[{row.system, row.op}];
      for (Errors* errors : {&cell, &all})
        (row.bytes >= large_message ? errors->large : errors->small).push_back(row.error());
    }
    result.rows.push_back(std::move(row));
  }
  const auto cell_of = [](const std::string& system, const std::string& op, const Errors& errors) {
    CollectiveCell cell{system, op, statistics_of(errors.large), statistics_of(errors.small), 0};
    for (const double error : errors.small) cell.beyond_double += error > 1 || error < -0.5 ? 1 : 0;
    return cell;
  };
  for (const auto& [key, errors] : cells)
    result.cells.push_back(cell_of(key.first, key.second, errors));
  std::stable_sort(result.cells.begin(), result.cells.end(),
                   [](const CollectiveCell& a, const CollectiveCell& b) {
                     return a.large.median_abs > b.large.median_abs;
                   });
  result.overall = cell_of("overall", "", all);
  return result;
}

}  // namespace stepsim
