// `stepsim plan`: the fastest layout of a model on a number of GPUs, and what a run on it costs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/app/output.h"
#include "sim/app/progress.h"
#include "sim/app/search_flags.h"
#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/files.h"
#include "sim/config/import.h"
#include "sim/config/scenario_load.h"
#include "sim/config/starting_point.h"
#include "sim/study/plan_html.h"
#include "sim/study/plan_report.h"

namespace stepsim::app {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_plan(const std::string& flag, const std::string& message) {
  throw Error(std::string(command_line_name), "/" + flag, message);
}

/// 15T, 300B, 1e12; 30d, 720h.
double scaled(const std::string& text, const std::string& flag,
              std::initializer_list<std::pair<char, double>> suffixes,
              const std::string& expected) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  double factor = 0;
  if (code == std::errc{} && rest == end) factor = 1;
  for (const auto& [suffix, scale] : suffixes)
    if (code == std::errc{} && rest + 1 == end && *rest == suffix) factor = scale;
  if (factor == 0 || !(value > 0) || value * factor > 1e30)
    refuse_plan(flag, "expected " + expected + "; got '" + printable(text) + "'");
  return value * factor;
}

double days_of(const std::string& text, const std::string& flag) {
  return scaled(text, flag, {{'d', 1}, {'h', 1.0 / 24}}, "days such as 30d or 720h");
}

std::optional<double> given(double value) {
  return value > 0 ? std::optional<double>(value) : std::nullopt;
}

bool is_file(const std::string& name) {
  std::error_code code;
  const std::string ending = fs::path(name).extension().string();
  return name.find('/') != std::string::npos || ending == ".json" || ending == ".yaml" ||
         ending == ".yml" || ending == ".sh" || ending == ".args" ||
         fs::is_regular_file(name, code);
}

std::vector<int> gpu_counts(const std::string& text) {
  std::vector<int> counts;
  for (const Point& p : parse_axis("--gpus=" + text, "plan").points) {
    const std::string& word = p.front().value;
    int value = 0;
    const auto [rest, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc{} || rest != word.data() + word.size() || value < 1 || value > (1 << 20))
      refuse_plan("--gpus", "expected numbers of GPUs such as 64,128 or 64..1024*2; got '" +
                                printable(word) + "'");
    counts.push_back(value);
  }
  return counts;
}

/// A scenario file as one document: bases, cluster and overrides laid on.
std::string merged(const std::string& file, const std::vector<std::string>& words,
                   const std::string& cluster) {
  Document document = with_bases(load_any(file));
  apply_cluster(document, cluster);
  apply_overrides(document, words);
  apply_launch(document);
  return document.root->dump();
}

std::vector<std::string> all_words(const PlanOptions& options) {
  std::vector<std::string> words = options.input.overrides;
  if (!options.input.recipe.empty() && !options.input.scenario.empty())
    words.insert(words.begin(), options.input.scenario);
  if (options.sequence > 0) words.push_back(fmt::format("dataset.seq_length={}", options.sequence));
  if (options.global_batch > 0)
    words.push_back(fmt::format("train.global_batch_size={}", options.global_batch));
  return words;
}

PlanRequest request_of(const PlanOptions& options, std::vector<int>& gpus) {
  const RunOptions& input = options.input;
  PlanRequest request;
  request.data = find_data();
  request.top = options.top;
  request.sample = static_cast<size_t>(options.sample);
  request.frontier = !options.no_frontier;
  request.brute_force = options.brute_force;
  request.tp_across_domains = options.tp_across_domains;
  request.words = all_words(options);
  for (const std::string& text : options.vary) request.axes.push_back(parse_axis(text, "--vary"));
  if (input.recipe.empty() && input.scenario.empty())
    refuse_plan("model", "is required: a name from `stepsim list models`, a scenario, or --recipe");
  const bool own = !input.recipe.empty() || is_file(input.scenario);
  if (own) {
    request.file =
        input.recipe.empty() ? input.scenario : find_recipe(input.recipe, request.data).string();
    request.base = merged(request.file, request.words, input.cluster);
    request.own_settings = true;
    const Scenario resolved =
        read_scenario_text(request.base, request.file, {}, "", request.data, Strictness::collect);
    if (gpus.empty()) gpus.push_back(resolved.cluster.gpus);
    // Its own layout is ranked where it is one.
    if (gpus == std::vector{resolved.cluster.gpus}) request.against = request.base;
  } else {
    if (input.cluster.empty())
      refuse_plan("--cluster", "is required with a model's name (stepsim list clusters)");
    if (gpus.empty()) refuse_plan("--gpus", "is required with a model's name: 64 or 64,128,256");
    const Located found = locate_model(input.scenario, request.data);
    if (!found.problem.empty())
      throw Error(std::string(command_line_name), "/model", found.problem);
    const int most = *std::max_element(gpus.begin(), gpus.end());
    request.file = std::string(command_line_name);
    const std::string system = input.cluster.substr(0, input.cluster.find(':'));
    Document document = parse_document(
        base_of_model(input.scenario, system, most, 8192, std::max(128, most), request.data),
        request.file);
    apply_overrides(document, request.words);
    request.base = document.root->dump();
  }
  if (!options.against.empty()) request.against = merged(options.against, {}, "");
  return request;
}

RunQuestion question_of(const PlanOptions& options, const PlanRequest& request) {
  const Scenario resolved =
      read_scenario_text(request.base, request.file, {}, "", request.data, Strictness::collect);
  const Operation usual = read_operation(request.data, resolved.cluster.device.name);
  RunQuestion q{.tokens = {},
                .price_per_gpu_hour = given(options.price),
                .budget = given(options.budget),
                .most_days = {},
                .failures = usual.failures,
                .checkpoints = usual.checkpoints,
                .watts_per_gpu = options.watts > 0 ? given(options.watts) : usual.watts_per_gpu,
                .gpus_per_host = resolved.cluster.gpus_per_node};
  if (!options.tokens.empty())
    q.tokens = scaled(options.tokens, "--tokens", {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}},
                      "tokens such as 15T or 300B");
  if (!options.max_days.empty()) q.most_days = days_of(options.max_days, "--max-days");
  if (!options.target.empty()) q.most_days = days_of(options.target, "--target");
  if ((q.most_days || q.budget) && !q.tokens)
    refuse_plan("--tokens", "is required to say how long a run takes or what it costs");
  if (q.budget && !q.price_per_gpu_hour)
    refuse_plan("--price", "is required with --budget: money per GPU-hour");
  const auto set = [](double value, double& target) {
    if (value >= 0) target = value;
  };
  set(options.gpu_mtbf, q.failures.gpu_mtbf_hours);
  set(options.link_mtbf, q.failures.link_mtbf_hours);
  set(options.host_mtbf, q.failures.host_mtbf_hours);
  // Somebody's own rates have no spread that was seen elsewhere.
  if (options.gpu_mtbf >= 0 && options.link_mtbf >= 0 && options.host_mtbf >= 0)
    q.failures.low = q.failures.high = 1;
  set(options.checkpoint, q.checkpoints.save_seconds);
  set(options.restart, q.checkpoints.restart_seconds);
  if (options.interval > 0) q.checkpoints.interval_seconds = options.interval;
  return q;
}

class Planner {
 public:
  Planner(const PlanOptions& options, Processes& processes)
      : options_(options), progress_("layouts", 0), start_(std::chrono::steady_clock::now()) {
    run_.crew = processes.crew(options.threads, find_data());
    run_.stop = [] { return Interrupt::asked(); };
    run_.progress = [this](const char* what, size_t done, size_t of) {
      progress_.show(what, done, of);
    };
  }
  LayoutPlan operator()(const PlanRequest& request, int gpus) {
    LayoutPlan result = plan(request, gpus, run_);
    progress_.clear();
    judged_ += result.layouts;
    return result;
  }
  std::string rate() const {
    if (!options_.input.timing) return "";
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    return fmt::format(
        "timing: {} layouts simulated or soundly ruled out in {:.1f} s, {:.0f} a second\n", judged_,
        seconds, static_cast<double>(judged_) / seconds);
  }

 private:
  const PlanOptions& options_;
  Interrupt interrupt_;
  ProgressLine progress_;
  PlanRun run_;
  size_t judged_ = 0;
  std::chrono::steady_clock::time_point start_;
};

/// Doubles the GPUs from the fewest that could be in time at the peak of their GEMMs.
std::vector<LayoutPlan> plans_in_time(const PlanRequest& request, const RunQuestion& question,
                                      Planner& planner) {
  constexpr int most = 1 << 17;
  std::vector<LayoutPlan> plans;
  for (int gpus = question.gpus_per_host; gpus <= most && !Interrupt::asked(); gpus *= 2) {
    // Twice the GPUs are at most twice as fast: a size that misses by more is not searched for.
    if (!plans.empty() && !plans.back().rows.empty()) {
      const auto last = planned_run(plans.back(), question);
      const double speedup = static_cast<double>(gpus) / plans.back().gpus;
      if (last->cost.days / speedup > *question.most_days * 1.5) continue;
    }
    plans.push_back(planner(request, gpus));
    const auto run = planned_run(plans.back(), question);
    if (run && run->in_time) break;
  }
  return plans;
}

void save_winner(const std::string& file, const LayoutPlan& plan) {
  if (file.empty()) return;
  nlohmann::ordered_json scenario = nlohmann::ordered_json::parse(plan.rows[0].scenario);
  scenario.erase("measured");
  scenario["name"] = fs::path(file).stem().string();
  scenario["description"] =
      fmt::format("{}: the fastest of {} layouts on {} GPUs by stepsim plan",
                  mesh_text(plan.rows[0].layout, plan.experts), plan.layouts, plan.gpus);
  write_all(file, scenario.dump(2) + "\n");
}

/// With experts a full space has a million layouts: the guide's report searches TP, PP, VP, EP,
/// micro batches up to 4, recompute, dispatchers and their overlap, at the guide's CP.
constexpr std::array<const char*, 3> guide_holds_of_experts{"model.expert_tensor_parallel_size=1",
                                                            "comm_overlap.tp_comm_overlap=true",
                                                            "ddp.use_distributed_optimizer=true"};

/// The guides' tables row by row: of each size of dense models the largest that is shipped, and
/// every mixture of experts that they name, on the fewest GPUs of its start.
int guide_report(const PlanOptions& options, Planner& planner) {
  const DataPaths data = find_data();
  const std::string cluster = options.input.cluster.empty() ? "dgx-h100" : options.input.cluster;
  const int node = read_cluster(cluster, 1, "", data).gpus_per_node;
  struct Case {
    std::string model;
    int gpus = 0;
    double parameters = 0;
    int cp = 1;
    bool experts = false;
  };
  std::map<std::string, Case> dense;
  std::vector<Case> cases, experts;
  for (const CatalogueRow& row : list_models(data)) {
    const Model model = read_model(row.name, data);
    const auto start = starting_point(model, 4096);
    if (!start) continue;
    const auto parameters = static_cast<double>(parameter_count(model, 1));
    if (start->gpus.empty()) {
      const int least = start->pp_low * std::max(start->tp_low * start->cp, start->ep);
      experts.push_back({row.name, std::max(node, least), parameters, start->cp, true});
    } else if (Case& best = dense[start->text]; parameters > best.parameters) {
      const int high = std::atoi(start->gpus.substr(start->gpus.find('-') + 1).c_str());
      best = {row.name, std::min(high, 256), parameters, start->cp, false};
    }
  }
  for (const auto& [text, one] : dense) cases.push_back(one);
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.parameters < b.parameters; });
  cases.insert(cases.end(), experts.begin(), experts.end());
  if (!options.only.empty())
    std::erase_if(cases, [&](const Case& c) {
      return std::find(options.only.begin(), options.only.end(), c.model) == options.only.end();
    });
  std::vector<std::pair<std::string, LayoutPlan>> plans;
  for (const Case& c : cases) {
    if (Interrupt::asked()) break;
    PlanOptions one = options;
    one.input.scenario = c.model;
    one.input.cluster = cluster;
    one.top = 1;
    one.no_frontier = true;
    if (one.sequence == 0) {
      const int64_t positions = read_model(c.model, data).max_positions;
      one.sequence = positions > 0 ? std::min<int64_t>(4096, positions) : 4096;
    }
    if (c.experts) {
      for (const char* held : guide_holds_of_experts) one.input.overrides.emplace_back(held);
      one.vary.push_back(fmt::format("model.context_parallel_size={}", c.cp));
      one.vary.emplace_back("train.micro_batch_size=1,2,4");
    }
    std::vector<int> gpus{c.gpus};
    try {
      plans.emplace_back(c.model, planner(request_of(one, gpus), c.gpus));
    } catch (const Error& error) {
      LayoutPlan none;
      none.gpus = c.gpus;
      none.guide = error.message();
      plans.emplace_back(c.model, std::move(none));
    }
  }
  write_all("-", guide_text(plans) + planner.rate());
  return Interrupt::asked() ? interrupted : 0;
}

void check_plan_page(const PlanOptions& options) {
  const std::string& page = options.input.html_file;
  for (const std::string* file :
       {&options.input.scenario, &options.input.json_file, &options.against, &options.save_file})
    if (!page.empty() && !file->empty() && same_file(page, *file))
      refuse_plan("--html", "names a file that is used otherwise: '" + printable(page) + "'");
}

}  // namespace

int plan(const PlanOptions& options, Processes& processes) {
  check_plan_page(options);
  Planner planner(options, processes);
  if (options.guide) return guide_report(options, planner);
  std::vector<int> gpus;
  if (!options.gpus.empty()) gpus = gpu_counts(options.gpus);
  const bool solve = !options.target.empty() && gpus.empty();
  if (solve) gpus = {1024};
  const PlanRequest request = request_of(options, gpus);
  const RunQuestion question = question_of(options, request);
  std::vector<LayoutPlan> plans;
  if (solve)
    plans = plans_in_time(request, question, planner);
  else
    for (int count : gpus)
      if (!Interrupt::asked()) plans.push_back(planner(request, count));
  // The fewest GPUs that are in time and in budget; without such a question the fastest.
  const LayoutPlan* winner = nullptr;
  for (const LayoutPlan& one : plans) {
    if (one.rows.empty()) continue;
    const auto run = planned_run(one, question);
    if (run && (!run->in_time || !run->in_budget)) continue;
    if (winner == nullptr ||
        (!question.most_days &&
         one.rows[0].figures.tokens_per_second() > winner->rows[0].figures.tokens_per_second()))
      winner = &one;
  }
  if (winner != nullptr) save_winner(options.save_file, *winner);
  Output json(options.input.json_file);
  if (json.asked()) {
    json.stream() << plans_json(plans, question);
    json.close();
  }
  if (!options.input.html_file.empty())
    write_all(
        options.input.html_file,
        plan_html(plans, question,
                  options.input.recipe.empty() ? options.input.scenario : options.input.recipe,
                  winner));
  if (!json.standard() && options.input.html_file != "-") {
    std::string text;
    if (options.as_overrides) {
      text = winner != nullptr ? as_overrides(winner->rows[0].scenario)
                               : "# nothing fits, or not in the time or for the money\n";
    } else {
      for (const LayoutPlan& one : plans) text += plan_text(one, question) + "\n";
      if (plans.size() > 1) text += plans_text(plans, question);
      if (solve && winner != nullptr)
        text += fmt::format("{} GPUs do it in {}\n", winner->gpus, options.target);
    }
    write_all("-", text + planner.rate());
  }
  if (Interrupt::asked()) return interrupted;
  return winner == nullptr ? 1 : 0;
}

}  // namespace stepsim::app
