#include "sim/study/plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/config/starting_point.h"

namespace stepsim {
namespace {

using nlohmann::json;

/// A layout, and whether it was simulated.
struct Candidate {
  Layout layout;
  Sized sized;
  bool tried = false;
};

class Search {
 public:
  Search(const PlanRequest& request, int gpus, const PlanRun& run)
      : request_(request),
        run_(run),
        crew_(run.crew ? run.crew : crew_of_threads(run.threads, request.data)),
        base_(json::parse(request.base)) {
    base_["cluster"].erase("nodes");
    base_["cluster"]["gpus"] = gpus;
    const Scenario resolved =
        read_scenario_text(base_.dump(), request.file, {}, "", request.data, Strictness::collect);
    model_ = resolved.model;
    sequence_ = resolved.batch.sequence;
    plan_.gpus = gpus;
    plan_.experts = model_.moe.present();
    plan_.space = standard_space(resolved, base_, request.own_settings, request.words);
    plan_.space.tp_across_domains = request.tp_across_domains;
    for (const Axis& axis : request.axes) apply_axis(plan_.space, axis);
    if (request.own_settings) drop_alike_options(resolved);
    for (Layout& layout : layouts(plan_.space, resolved, gpus))
      candidates_.push_back({.layout = std::move(layout), .sized = {}});
    if (request.sample > 0 && request.sample < candidates_.size()) draw();
  }

  LayoutPlan run() && {
    size_up();
    simulate_best_first();
    stand();
    guide();
    order();
    plan_.complete &= !stopped();
    return std::move(plan_);
  }

 private:
  bool stopped() const { return run_.stop && run_.stop(); }
  std::string text_of(const Layout& layout) const {
    return laid_out(base_, plan_.space, layout, model_).dump();
  }

  /// Memory and bound of every layout.
  void size_up() {
    size_t done = 0;
    crew_({.count = candidates_.size(),
           .errand =
               [&](size_t i) { return size_errand(text_of(candidates_[i].layout), request_.file); },
           .answered =
               [&](size_t i, const std::string& answer) {
                 candidates_[i].sized = sized_by(answer);
                 if (run_.progress) run_.progress("layouts", ++done, candidates_.size());
               },
           .stop = run_.stop});
    for (const Candidate& c : candidates_)
      if (c.sized.valid) capacity_ = c.sized.capacity_bytes;
    plan_.refused = candidates_.size();
    std::erase_if(candidates_, [](const Candidate& c) { return !c.sized.valid; });
    plan_.refused -= candidates_.size();
    drop_alike();
    plan_.layouts = candidates_.size();
    std::erase_if(candidates_, [](const Candidate& c) { return !c.sized.fits; });
    plan_.infeasible = plan_.layouts - candidates_.size();
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.sized.bound_seconds < b.sized.bound_seconds;
                     });
  }

  /// Those with the least marks, which are as good as random (splitmix64, Steele et al. 2014).
  void draw() {
    plan_.drawn_of = candidates_.size();
    std::vector<std::pair<uint64_t, size_t>> marks;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      marks.emplace_back(z ^ (z >> 31), i);
    }
    std::nth_element(marks.begin(), marks.begin() + static_cast<std::ptrdiff_t>(request_.sample),
                     marks.end());
    marks.resize(request_.sample);
    std::sort(marks.begin(), marks.end(),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    std::vector<Candidate> drawn;
    for (const auto& [mark, i] : marks) drawn.push_back(std::move(candidates_[i]));
    candidates_ = std::move(drawn);
  }

  /// Options that are an earlier one in effect on two meshes of every kind: what the scenario says
  /// by leaving it out. A kind: which sizes are above 1, for by that gates decide.
  void drop_alike_options(const Scenario& resolved) {
    LayoutSpace plain = plan_.space;
    for (Choice& choice : plain.choices) choice.options.resize(1);
    std::map<std::array<bool, 7>, std::vector<Layout>> kinds;
    for (const Layout& l : layouts(plain, resolved, plan_.gpus)) {
      std::vector<Layout>& some =
          kinds[{l.tp > 1, l.pp > 1, l.vp > 1, l.cp > 1, l.ep > 1, l.etp > 1, l.dp() > 1}];
      if (some.size() < 2) some.push_back(l);
    }
    for (size_t c = 0; c < plan_.space.choices.size(); ++c) {
      std::vector<Option>& options = plan_.space.choices[c].options;
      for (size_t o = options.size(); o-- > 1;)
        for (size_t before = 0; before < o; ++before)
          if (alike(kinds, c, before, o)) {
            options.erase(options.begin() + static_cast<std::ptrdiff_t>(o));
            break;
          }
    }
  }
  bool alike(const std::map<std::array<bool, 7>, std::vector<Layout>>& kinds, size_t choice,
             size_t a, size_t b) const {
    bool ever_valid = false;
    for (const auto& [kind, some] : kinds)
      for (Layout layout : some) {
        const auto sized = [&](size_t option) {
          layout.settings[choice] = static_cast<int>(option);
          return sized_by(answer_of(size_errand(text_of(layout), request_.file), request_.data));
        };
        const Sized one = sized(a);
        if (!(one == sized(b))) return false;
        ever_valid |= one.valid;
      }
    return ever_valid;
  }

  /// Of those that are the same in effect the first stays: it says least.
  void drop_alike() {
    std::set<std::array<uint64_t, 3>> seen;
    plan_.alike = std::erase_if(candidates_, [&](const Candidate& c) {
      return !seen.insert({c.sized.in_effect, std::bit_cast<uint64_t>(c.sized.needed_bytes),
                           std::bit_cast<uint64_t>(c.sized.bound_seconds)})
                  .second;
    });
  }

  /// The slowest of the steps that are asked for; infinite while there are fewer.
  double last_wanted() const {
    std::vector<double> steps;
    for (const PlanRow& row : plan_.rows) steps.push_back(row.figures.step_seconds);
    const auto top = static_cast<size_t>(std::max(1, request_.top));
    if (steps.size() < top) return INFINITY;
    std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(top - 1),
                     steps.end());
    return steps[top - 1];
  }
  /// Something simulated is as fast at the least and needs less memory, to a 20th of what there is.
  bool dominated(const Candidate& c) const {
    return std::any_of(plan_.rows.begin(), plan_.rows.end(), [&](const PlanRow& row) {
      return row.figures.step_seconds <= c.sized.bound_seconds &&
             row.figures.needed_bytes.value_or(0) <= c.sized.needed_bytes + capacity_ / 20;
    });
  }

  /// In batches of a fixed size, so that what is simulated does not depend on the threads.
  void simulate_best_first() {
    constexpr size_t batch = 16;
    for (;;) {
      const double last = last_wanted();
      std::vector<size_t> next;
      for (size_t i = 0; i < candidates_.size() && next.size() < batch; ++i) {
        const Candidate& c = candidates_[i];
        if (c.tried) continue;
        const bool wanted = request_.brute_force || c.sized.bound_seconds < last;
        // Of those that only the frontier asks for, one of a kind in a batch: it may speak for the
        // others.
        const auto like = [&](size_t other) {
          return candidates_[other].sized.needed_bytes <= c.sized.needed_bytes + capacity_ / 20;
        };
        if (wanted ||
            (request_.frontier && !dominated(c) && std::none_of(next.begin(), next.end(), like)))
          next.push_back(i);
      }
      if (next.empty() || stopped()) return;
      simulate_all(next);
    }
  }

  void simulate_all(const std::vector<size_t>& chosen) {
    std::vector<PlanRow> rows(chosen.size());
    std::vector<char> done(chosen.size(), 0);
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Candidate& c = candidates_[chosen[i]];
      rows[i].layout = c.layout;
      rows[i].scenario = text_of(c.layout);
      rows[i].bound_seconds = c.sized.bound_seconds;
    }
    crew_({.count = chosen.size(),
           .errand = [&](size_t i) { return step_errand(rows[i].scenario, request_.file); },
           .answered =
               [&](size_t i, const std::string& answer) {
                 PlanRow& row = rows[i];
                 row.outcome = outcome_by(answer);
                 if (!row.outcome.failed()) row.figures = figures_of(row.outcome.report);
                 done[i] = 1;
               },
           .stop = run_.stop});
    for (size_t i = 0; i < rows.size(); ++i) {
      if (done[i] == 0) continue;
      candidates_[chosen[i]].tried = true;
      ++plan_.simulated;
      if (rows[i].outcome.failed())
        ++plan_.failed;
      else
        plan_.rows.push_back(std::move(rows[i]));
    }
    if (run_.progress) {
      const double last = last_wanted();
      const auto left = std::count_if(candidates_.begin(), candidates_.end(), [&](const auto& c) {
        return !c.tried && c.sized.bound_seconds < last;
      });
      run_.progress("simulations", plan_.simulated, plan_.simulated + static_cast<size_t>(left));
    }
  }

  void stand() {
    if (request_.against.empty() || stopped()) return;
    Standing standing;
    standing.outcome = simulated_text(request_.against, request_.file, request_.data);
    if (!standing.outcome.failed()) {
      standing.figures = figures_of(standing.outcome.report);
      const double step = standing.figures.step_seconds;
      for (const PlanRow& row : plan_.rows) standing.faster += row.figures.step_seconds < step;
      standing.maybe_faster = standing.faster;
      for (const Candidate& c : candidates_)
        standing.maybe_faster += !c.tried && c.sized.bound_seconds < step;
    }
    plan_.standing = std::move(standing);
  }

  /// The fastest of the layouts that the guide means: as they are if one fits, else with whatever
  /// makes them fit.
  void guide() {
    const std::optional<StartingPoint> start = starting_point(model_, sequence_);
    if (!start || stopped()) return;
    plan_.guide = start->text;
    for (bool plain : {true, false}) {
      std::vector<size_t> meant;
      for (size_t i = 0; i < candidates_.size(); ++i) {
        const Layout& l = candidates_[i].layout;
        const bool mesh = l.tp >= start->tp_low && l.tp <= start->tp_high &&
                          l.pp >= start->pp_low && l.pp <= start->pp_high && l.cp == start->cp &&
                          l.etp == 1 && (start->ep == 0 || l.ep == start->ep);
        const bool as_is = l.vp == 1 && l.mbs == 1 &&
                           std::all_of(l.settings.begin(), l.settings.end(),
                                       [](int option) { return option == 0; });
        if (mesh && (!plain || as_is)) meant.push_back(i);
      }
      constexpr size_t most = 8;  // by ascending bound
      if (meant.size() > most) meant.resize(most);
      std::vector<size_t> untried;
      for (size_t i : meant)
        if (!candidates_[i].tried) untried.push_back(i);
      simulate_all(untried);
      for (size_t i : meant)
        for (const PlanRow& row : plan_.rows)
          if (row.layout == candidates_[i].layout &&
              (!plan_.guide_row ||
               row.figures.step_seconds < plan_.guide_row->figures.step_seconds))
            plan_.guide_row = row;
      if (plan_.guide_row) return;
    }
  }

  void order() {
    const double last = last_wanted();
    std::stable_sort(plan_.rows.begin(), plan_.rows.end(), [](const PlanRow& a, const PlanRow& b) {
      return a.figures.step_seconds < b.figures.step_seconds;
    });
    for (const PlanRow& row : plan_.rows) plan_.ranked += row.figures.step_seconds <= last;
    plan_.ranked = std::min(plan_.ranked, static_cast<size_t>(std::max(1, request_.top)));
    double least = INFINITY;
    for (size_t i = 0; i < plan_.rows.size() && (request_.frontier || i == 0); ++i) {
      const double needed = plan_.rows[i].figures.needed_bytes.value_or(0);
      if (needed >= least - (i > 0 ? capacity_ / 20 : 0)) continue;
      least = needed;
      plan_.frontier.push_back(i);
    }
  }

  const PlanRequest& request_;
  const PlanRun& run_;
  Crew crew_;
  json base_;
  Model model_;
  int64_t sequence_ = 0;
  double capacity_ = 0;
  std::vector<Candidate> candidates_;
  LayoutPlan plan_;
};

}  // namespace

LayoutPlan plan(const PlanRequest& request, int gpus, const PlanRun& run) {
  return Search(request, gpus, run).run();
}

std::string base_of_model(const std::string& model, const std::string& cluster, int gpus,
                          int64_t sequence, int64_t global_batch, const DataPaths& data) {
  const Cluster system = read_cluster(cluster, 1, "", data);
  const bool experts = read_model(model, data).moe.present();
  const bool blackwell = system.device.architecture == "blackwell";
  json base{{"cluster", {{"system", cluster}, {"gpus", gpus}}},
            {"model", {{"hf_config", model}, {"cross_entropy_fusion_impl", "te"}}},
            {"ddp", {{"use_distributed_optimizer", true}, {"average_in_collective", true}}},
            {"comm_overlap", {{"tp_comm_overlap", true}}},
            {"mixed_precision", {{"recipe", "bf16_mixed"}, {"grad_reduce_in_fp32", false}}},
            {"dataset", {{"seq_length", sequence}}},
            {"train", {{"global_batch_size", global_batch}, {"micro_batch_size", 1}}},
            {"env_vars", {{"CUDA_DEVICE_MAX_CONNECTIONS", blackwell ? 32 : 1}}},
            {"software", {{"release", "Megatron-Bridge"}}}};
  if (experts)
    base["model"].update(json{{"moe_permute_fusion", true},
                              {"moe_grouped_gemm", true},
                              {"moe_router_fusion", true},
                              {"moe_shared_expert_overlap", false}});
  return base.dump();
}

}  // namespace stepsim
