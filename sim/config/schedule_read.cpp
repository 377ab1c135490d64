// The pipeline section: which schedule, and what each needs of the mesh (Megatron-Core
// pipeline_parallel/schedules.py for interleaving).
#include <algorithm>

#include "sim/config/order.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

constexpr Range group_range{1, 1 << 20};

std::vector<std::string> schedule_choices() {
  std::vector<std::string> names;
  for (const ScheduleName& s : schedule_names)
    if (s.kind != ScheduleKind::order) names.emplace_back(s.name);
  return names;
}

/// Megatron-Core picks the interleaved function whenever VP is set, VP = 1 included
/// (get_forward_backward_func).
const ScheduleName& chosen(const std::string& asked, bool chunks) {
  if (chunks && (asked.empty() || asked == "interleaved"))
    return schedule_name(ScheduleKind::interleaved);
  for (const ScheduleName& s : schedule_names)
    if (s.name == asked) return s;
  return schedule_name(ScheduleKind::one_f_one_b);
}

void check_groups(const ScenarioSections& sections, Scenario& scenario) {
  const Parallelism& p = scenario.parallel;
  const int64_t n = p.microbatch_group > 0 ? p.microbatch_group : p.pp,
                m = scenario.batch.microbatches;
  const std::string key = p.microbatch_group > 0 ? "microbatch_group_size_per_vp_stage"
                                                 : "virtual_pipeline_model_parallel_size";
  if (n < p.pp || n > m)
    return refuse(sections, scenario, sections.model, key, "microbatch-group-out-of-range",
                  "the interleaved schedule needs PP <= microbatch group <= microbatches; got PP " +
                      text(p.pp) + ", group " + text(n) + ", microbatches " + text(m) +
                      " (global batch / (micro batch x DP))");
  if (m % n != 0 && m % n < p.pp)
    refuse(sections, scenario, sections.model, key, "last-microbatch-group-too-small",
           "the last microbatch group (" + text(m) + " microbatches in groups of " + text(n) +
               ") must hold 0 or at least PP " + text(p.pp) + "; it holds " + text(m % n));
}

/// The two chunks of a V are its own, and so are the two pipelines of DualPipe.
void check_chunks(const Reader& pipeline, const ScheduleName& schedule, const Parallelism& p) {
  if (!p.vp || schedule.kind == ScheduleKind::interleaved) return;
  if (schedule.placement == Placement::vee && *p.vp == 2) return;
  const std::string name(schedule.name);
  pipeline.fail(
      "schedule",
      "'" + name +
          (schedule.placement == Placement::vee
               ? "' has two chunks per rank; leave virtual_pipeline_model_parallel_size unset or 2"
           : schedule.placement == Placement::two_way
               ? "' has two chunks per rank of its own; leave "
                 "virtual_pipeline_model_parallel_size unset"
               : "' has one chunk per rank; leave virtual_pipeline_model_parallel_size unset") +
          ", got " + text(*p.vp));
}

/// dualpipe.py, dualpipev.py (step).
void check_dualpipe(const Reader& pipeline, const ScheduleName& schedule, const Scenario& s) {
  const int64_t p = s.parallel.pp, m = s.batch.microbatches;
  const std::string name = "'" + std::string(schedule.name) + "' needs ";
  if (schedule.placement == Placement::two_way && (p % 2 != 0 || m % 2 != 0))
    pipeline.fail("schedule", name + "an even PP and an even number of microbatches; got PP " +
                                  text(p) + ", microbatches " + text(m));
  if (schedule.kind != ScheduleKind::dualpipe && schedule.kind != ScheduleKind::dualpipe_v) return;
  if (m < 2 * p)
    pipeline.fail("schedule", name + "at least 2 x PP = " + text(2 * p) +
                                  " microbatches (global batch / (micro batch x DP)); got " +
                                  text(m));
}

}  // namespace

void resolve_schedule(const ScenarioSections& sections, Scenario& scenario) {
  Parallelism& p = scenario.parallel;
  const Reader& pipeline = sections.pipeline;
  const std::string asked = pipeline.choice("schedule", "", schedule_choices());
  if (asked == "interleaved" && !p.vp)
    pipeline.fail("schedule", "'interleaved' needs model.virtual_pipeline_model_parallel_size");
  const ScheduleName& schedule = chosen(asked, p.vp.has_value());
  check_chunks(pipeline, schedule, p);
  if (!pipeline.has("order")) check_dualpipe(pipeline, schedule, scenario);
  scenario.schedule = schedule.kind;
  scenario.post_validation = pipeline.boolean("optimizer_post_validation", false);
  p.placement = schedule.placement;
  if (p.vp == 1)
    add_finding(scenario, sections.model, "virtual_pipeline_model_parallel_size",
                "vp-one-is-interleaved", Finding::Kind::advice, "1", "1",
                "VP = 1 selects the interleaved schedule with one chunk, not plain 1F1B; leave it "
                "unset for 1F1B");
  p.microbatch_group = sections.model.integer("microbatch_group_size_per_vp_stage", 0, group_range);
  if (pipeline.has("order"))
    resolve_order(sections, scenario);
  else if (scenario.schedule == ScheduleKind::interleaved)
    check_groups(sections, scenario);
}

}  // namespace stepsim
