#include "sim/study/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace stepsim {
namespace {

using Ordered = nlohmann::ordered_json;

std::string step_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

double gibibytes(double bytes) { return bytes / (1024.0 * 1024 * 1024); }

std::string thousands(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string percent_more(double a, double b) { return fmt::format("{:+.1f} %", (a / b - 1) * 100); }

std::string clipped_to(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

std::string row_text(const LayoutPlan& plan, const PlanRow& row) {
  const Figures& f = row.figures;
  std::string layout = mesh_text(row.layout, plan.experts);
  const std::string settings = settings_text(plan.space, row.layout);
  if (!settings.empty()) layout += ", " + settings;
  return fmt::format("{:>10}  {:>10.1f}  {:>6.1f} %  {:>6.1f} GiB  {}", step_text(f.step_seconds),
                     f.tokens_per_second_per_gpu.value_or(0), f.mfu.value_or(0) * 100,
                     gibibytes(f.needed_bytes.value_or(0)), clipped_to(layout, 50));
}

/// Where the seconds between two steps are, by what the mean rank spends them on, largest first.
std::string difference_text(const Figures& a, const Figures& b) {
  std::map<std::string, double> grown;
  for (const auto& [cause, seconds] : b.ledger) grown[cause] += seconds;
  for (const auto& [cause, seconds] : a.ledger) grown[cause] -= seconds;
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [cause, seconds] : grown) parts.emplace_back(seconds, cause);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& x, const auto& y) {
    return std::abs(x.first) > std::abs(y.first);
  });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, parts.size()); ++i) {
    if (std::abs(parts[i].first) < 1e-4 * b.step_seconds) break;
    std::string cause = parts[i].second;
    std::replace(cause.begin(), cause.end(), '_', ' ');
    text += fmt::format("{}{} {:+.1f} ms", text.empty() ? "" : ", ", cause, parts[i].first * 1e3);
  }
  return text.empty() ? "no cause differs by more than 0.01 % of the step" : text;
}

std::string run_text(const LayoutPlan& plan, const RunQuestion& question) {
  const std::optional<PlannedRun> run = planned_run(plan, question);
  if (!run) return "";
  std::string out =
      fmt::format("\nRun of {:.3g} T tokens   {:.1f} days ({:.1f} to {:.1f}), {} GPU-hours",
                  *question.tokens / 1e12, run->cost.days, run->cost.days_low, run->cost.days_high,
                  thousands(run->cost.gpu_hours));
  if (run->cost.money) out += fmt::format(", {} in money", thousands(*run->cost.money));
  if (run->cost.megawatt_hours)
    out += fmt::format(", {} MWh", thousands(*run->cost.megawatt_hours));
  out += fmt::format(
      "\n  {:.1f} % of the time is training ({:.1f} to {:.1f} %): a failure every {:.1f} h, {:.0f} "
      "s a "
      "checkpoint,\n  one every {:.0f} s, {:.0f} s a restart\n",
      run->goodput.share * 100, run->goodput.low * 100, run->goodput.high * 100,
      run->goodput.mtbf_seconds / 3600, question.checkpoints.save_seconds,
      run->goodput.interval_seconds, question.checkpoints.restart_seconds);
  if (!run->in_time) out += fmt::format("  longer than {:.1f} days\n", *question.most_days);
  if (!run->in_budget)
    out += fmt::format("  more than the {} to spend\n", thousands(*question.budget));
  return out;
}

/// What the share of a sample says of the space: Wilson's interval of 95 % (JASA 22, 1927).
std::string sampled_text(const LayoutPlan& plan) {
  if (plan.drawn_of == 0) return "";
  constexpr double z = 1.96;
  const auto n = static_cast<double>(std::max<size_t>(1, plan.feasible()));
  const double share = static_cast<double>(plan.standing->maybe_faster) / n;
  const double middle = share + z * z / (2 * n);
  const double reach = z * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  const double whole = 1 + z * z / n;
  return fmt::format("; of the whole space {:.2f} to {:.2f} %",
                     100 * std::max(0.0, middle - reach) / whole, 100 * (middle + reach) / whole);
}

std::string standing_text(const LayoutPlan& plan) {
  const Standing& s = *plan.standing;
  if (s.outcome.failed())
    return fmt::format("\nGiven layout   cannot run: {} {}\n", s.outcome.failure_pointer,
                       s.outcome.failure);
  const auto share = [&](size_t ahead) {
    return 100.0 * static_cast<double>(ahead) /
           static_cast<double>(std::max<size_t>(1, plan.feasible()));
  };
  const Ordered mesh = Ordered::parse(s.outcome.report).at("mesh");
  std::string sizes;
  for (const char* size : {"tp", "pp", "vp", "cp", "ep", "etp", "dp"})
    if (mesh.contains(size) && mesh[size].is_number() && mesh[size] != 1) {
      std::string name = size;
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      sizes += fmt::format("{}{} ", name, mesh[size].get<int>());
    }
  std::string out = fmt::format(
      "\nGiven layout   {}\n  {}, {:.1f} GiB{}: at least {} and at most {} of {} layouts are "
      "faster\n"
      "  (it is in the first {:.2f} %{})\n",
      sizes, step_text(s.figures.step_seconds), gibibytes(s.figures.needed_bytes.value_or(0)),
      s.figures.fits ? "" : " (does not fit)", s.faster, s.maybe_faster, plan.feasible(),
      std::max(0.01, share(s.maybe_faster)), sampled_text(plan));
  if (!plan.rows.empty()) {
    const Figures& best = plan.rows[0].figures;
    out += fmt::format("  against the winner {}:\n    {}\n",
                       percent_more(s.figures.step_seconds, best.step_seconds),
                       difference_text(best, s.figures));
  }
  return out;
}

Ordered row_json(const LayoutPlan& plan, const PlanRow& row) {
  return {{"gpus", plan.gpus},
          {"layout", mesh_text(row.layout, plan.experts)},
          {"settings", settings_text(plan.space, row.layout)},
          {"bound_seconds", row.bound_seconds},
          {"scenario", Ordered::parse(row.scenario)},
          {"report", Ordered::parse(row.outcome.report)}};
}

Ordered or_nothing(const std::optional<double>& x) { return x ? Ordered(*x) : Ordered(); }

Ordered run_json(const std::optional<PlannedRun>& run) {
  if (!run) return nullptr;
  return {
      {"days", run->cost.days},
      {"days_low", run->cost.days_low},
      {"days_high", run->cost.days_high},
      {"gpu_hours", run->cost.gpu_hours},
      {"money", or_nothing(run->cost.money)},
      {"megawatt_hours", or_nothing(run->cost.megawatt_hours)},
      {"effective_share", run->goodput.share},
      {"effective_share_low", run->goodput.low},
      {"effective_share_high", run->goodput.high},
      {"mtbf_seconds",
       std::isfinite(run->goodput.mtbf_seconds) ? Ordered(run->goodput.mtbf_seconds) : Ordered()},
      {"checkpoint_interval_seconds", std::isfinite(run->goodput.interval_seconds)
                                          ? Ordered(run->goodput.interval_seconds)
                                          : Ordered()},
      {"in_time", run->in_time},
      {"in_budget", run->in_budget}};
}

}  // namespace

std::optional<PlannedRun> planned_run(const LayoutPlan& plan, const RunQuestion& q) {
  if (!q.tokens || plan.rows.empty()) return std::nullopt;
  PlannedRun run;
  const Parts parts{.gpus = plan.gpus,
                    .hosts = (plan.gpus + q.gpus_per_host - 1) / q.gpus_per_host};
  run.goodput = goodput(q.failures, q.checkpoints, parts);
  run.cost = run_cost(*q.tokens, plan.rows[0].figures.tokens_per_second(), plan.gpus, run.goodput,
                      q.price_per_gpu_hour, q.watts_per_gpu);
  run.in_time = !q.most_days || run.cost.days <= *q.most_days;
  run.in_budget = !q.budget || !run.cost.money || *run.cost.money <= *q.budget;
  return run;
}

std::string plan_text(const LayoutPlan& plan, const RunQuestion& question) {
  std::string out;
  if (plan.drawn_of > 0)
    out = fmt::format(
        "A sample: {} combinations drawn evenly of {}; the best of them need not be the best\n",
        thousands(static_cast<double>(plan.layouts + plan.alike + plan.refused)),
        thousands(static_cast<double>(plan.drawn_of)));
  out += fmt::format(
      "{} GPUs: {} layouts, of which {} do not fit, {} simulated, {} provably slower\n", plan.gpus,
      thousands(static_cast<double>(plan.layouts)), thousands(static_cast<double>(plan.infeasible)),
      plan.simulated, thousands(static_cast<double>(plan.pruned())));
  if (plan.alike > 0)
    out += fmt::format("{} more combinations are one of these in effect\n",
                       thousands(static_cast<double>(plan.alike)));
  if (plan.failed > 0) out += fmt::format("{} of those simulated cannot finish\n", plan.failed);
  if (!plan.complete) out += "interrupted: the ranking is of what was simulated until then\n";
  if (plan.rows.empty())
    return out + "no layout fits" + (plan.standing ? standing_text(plan) : "\n");
  out += "\n          step  tok/s/GPU       MFU      memory  layout\n";
  for (size_t i = 0; i < plan.ranked; ++i)
    out += fmt::format("{:>2}  {}\n", i + 1, row_text(plan, plan.rows[i]));
  if (plan.frontier.size() > 1) {
    out += "\nLess memory for a longer step\n";
    for (size_t i : plan.frontier)
      if (i > 0) out += fmt::format("    {}\n", row_text(plan, plan.rows[i]));
  }
  if (plan.rows.size() > 1)
    out += fmt::format("\nWhy 1 before 2   {}\n",
                       difference_text(plan.rows[0].figures, plan.rows[1].figures));
  if (!plan.guide.empty()) {
    out += fmt::format("\nThe guide starts with {}", plan.guide);
    if (plan.guide_row)
      out += fmt::format(
          ": {} of the winner's step\n    {}\n",
          percent_more(plan.guide_row->figures.step_seconds, plan.rows[0].figures.step_seconds),
          row_text(plan, *plan.guide_row));
    else
      out += ": none of it fits or divides here\n";
  }
  if (plan.standing) out += standing_text(plan);
  return out + run_text(plan, question);
}

std::string plans_text(const std::vector<LayoutPlan>& plans, const RunQuestion& question) {
  std::string out = "  GPUs        step  tok/s/GPU     MFU";
  out +=
      question.tokens ? "     days   GPU-hours       money   layout\n" : "      memory  layout\n";
  for (const LayoutPlan& plan : plans) {
    if (plan.rows.empty()) {
      out += fmt::format("{:>6}  no layout fits\n", plan.gpus);
      continue;
    }
    const PlanRow& best = plan.rows[0];
    const Figures& f = best.figures;
    out += fmt::format("{:>6}  {:>10}  {:>9.1f}  {:>4.1f} %", plan.gpus, step_text(f.step_seconds),
                       f.tokens_per_second_per_gpu.value_or(0), f.mfu.value_or(0) * 100);
    if (const auto run = planned_run(plan, question))
      out += fmt::format("  {:>7.1f}  {:>10}  {:>10}{}", run->cost.days,
                         thousands(run->cost.gpu_hours),
                         run->cost.money ? thousands(*run->cost.money) : "-",
                         run->in_time && run->in_budget ? " " : "!");
    else
      out += fmt::format("  {:>6.1f} GiB", gibibytes(f.needed_bytes.value_or(0)));
    out += "  " + clipped_to(mesh_text(best.layout, plan.experts), 30) + "\n";
  }
  if (question.most_days || question.budget) out += "  !: too late, or too dear\n";
  return out;
}

std::string plans_json(const std::vector<LayoutPlan>& plans, const RunQuestion& question) {
  Ordered out;
  out["schema"] = "stepsim.plan/1";
  out["version"] = STEPSIM_VERSION;
  size_t layouts = 0, simulated = 0, pruned = 0, infeasible = 0, alike = 0;
  for (const LayoutPlan& plan : plans) {
    layouts += plan.layouts;
    simulated += plan.simulated;
    pruned += plan.pruned();
    infeasible += plan.infeasible;
    alike += plan.alike;
  }
  out["space"] = layouts;
  out["simulated"] = simulated;
  out["pruned"] = pruned;
  out["infeasible"] = infeasible;
  out["alike"] = alike;
  out["complete"] =
      std::all_of(plans.begin(), plans.end(), [](const LayoutPlan& plan) { return plan.complete; });
  out["rows"] = Ordered::array();
  out["frontier"] = Ordered::array();
  out["by_gpus"] = Ordered::array();
  for (const LayoutPlan& plan : plans) {
    for (size_t i = 0; i < plan.ranked; ++i) out["rows"].push_back(row_json(plan, plan.rows[i]));
    for (size_t i : plan.frontier) out["frontier"].push_back(row_json(plan, plan.rows[i]));
    Ordered one{{"gpus", plan.gpus},
                {"space", plan.layouts},
                {"simulated", plan.simulated},
                {"pruned", plan.pruned()},
                {"infeasible", plan.infeasible},
                {"drawn_of", plan.drawn_of > 0 ? Ordered(plan.drawn_of) : Ordered()},
                {"guide", plan.guide.empty() ? Ordered() : Ordered(plan.guide)},
                {"guide_row", plan.guide_row ? row_json(plan, *plan.guide_row) : Ordered()},
                {"run", run_json(planned_run(plan, question))}};
    if (plan.standing)
      one["against"] = {{"faster", plan.standing->faster},
                        {"maybe_faster", plan.standing->maybe_faster},
                        {"feasible", plan.feasible()},
                        {"report", plan.standing->outcome.failed()
                                       ? Ordered()
                                       : Ordered::parse(plan.standing->outcome.report)}};
    out["by_gpus"].push_back(std::move(one));
  }
  return out.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

std::string as_overrides(const std::string& scenario) {
  std::string out;
  const Ordered document = Ordered::parse(scenario);
  for (const char* section :
       {"model", "ddp", "comm_overlap", "mixed_precision", "dataset", "train", "optimizer"}) {
    const auto found = document.find(section);
    if (found == document.end() || !found->is_object()) continue;
    for (const auto& [key, value] : found->items()) {
      if (key == "hf_config") continue;
      out += fmt::format("{}.{}={}\n", section, key,
                         value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return out;
}

std::string guide_text(const std::vector<std::pair<std::string, LayoutPlan>>& plans) {
  std::string out =
      "model                 GPUs  the guide starts with         its best      the plan's choice  "
      "faster by\n";
  for (const auto& [model, plan] : plans) {
    out += fmt::format("{:<20} {:>5}  {:<28}  {:>8}", clipped_to(model, 20), plan.gpus,
                       clipped_to(plan.guide, 28),
                       plan.guide_row ? step_text(plan.guide_row->figures.step_seconds) : "no fit");
    if (plan.rows.empty()) {
      out += "  no layout fits\n";
      continue;
    }
    const PlanRow& best = plan.rows[0];
    out += fmt::format(
        "  {:>8}  {}\n", step_text(best.figures.step_seconds),
        plan.guide_row
            ? fmt::format(
                  "{:.1f} %",
                  (plan.guide_row->figures.step_seconds / best.figures.step_seconds - 1) * 100)
            : "-");
    const std::string settings = settings_text(plan.space, best.layout);
    const std::string line =
        fmt::format("{:>28}{} {}{}", "",
                    plan.guide_row ? mesh_text(plan.guide_row->layout, plan.experts) + " ->" : "->",
                    mesh_text(best.layout, plan.experts), settings.empty() ? "" : ", " + settings);
    out += clipped_to(line, 100) + "\n";
  }
  out +=
      "Its best: of its meshes, with VP 1, MBS 1 and usual settings where such a layout fits, "
      "else\n"
      "with any. Faster by: simulated. With experts CP is the guide's, ETP 1, MBS up to 4, TP "
      "overlap\n"
      "on and the optimizer sharded.\n";
  return out;
}

}  // namespace stepsim
