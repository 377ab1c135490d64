// The names of pipeline schedules and where each places the stages of a model on its ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepsim {

enum class ScheduleKind {
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  zb_h2,
  zb_1p,
  zb_2p,
  zb_v,
  dualpipe,
  dualpipe_v,
  order  ///< spelled out by pipeline.order
};

/// Which virtual stages (in the order in which a microbatch visits them) a rank holds.
enum class Placement : uint8_t {
  ring,    ///< chunk c of rank p holds c*P + p: the last rank sends to the first
  vee,     ///< chunk 0 holds p, chunk 1 holds 2P-1-p: down the ranks and up again
  two_way  ///< chunk 0 holds p, chunk 1 holds P-1-p: every stage twice, a pipeline from each end
};

/// What reading a scenario needs to know of a schedule.
struct ScheduleName {
  ScheduleKind kind;
  std::string_view name;
  Placement placement = Placement::ring;
  bool splits = false;  ///< runs the two halves of a backward apart
};
inline constexpr std::array<ScheduleName, 11> schedule_names{{
    {ScheduleKind::gpipe, "gpipe"},
    {ScheduleKind::one_f_one_b, "1f1b"},
    {ScheduleKind::interleaved, "interleaved"},
    {ScheduleKind::zb_h1, "zb_h1", Placement::ring, true},
    {ScheduleKind::zb_h2, "zb_h2", Placement::ring, true},
    {ScheduleKind::zb_1p, "zb_1p", Placement::ring, true},
    {ScheduleKind::zb_2p, "zb_2p", Placement::ring, true},
    {ScheduleKind::zb_v, "zb_v", Placement::vee, true},
    {ScheduleKind::dualpipe, "dualpipe", Placement::two_way, true},
    {ScheduleKind::dualpipe_v, "dualpipe_v", Placement::vee, true},
    {ScheduleKind::order, "order"},
}};
constexpr const ScheduleName& schedule_name(ScheduleKind kind) {
  return schedule_names[static_cast<size_t>(kind)];
}
constexpr std::string_view name(ScheduleKind kind) { return schedule_name(kind).name; }

/// One computation of an order that is spelled out: F, B (a whole backward), I or W (its halves).
struct OrderEntry {
  enum class Kind : uint8_t { forward, backward, backward_input, backward_weight };
  Kind kind{};
  int chunk = 0, microbatch = 0;
  bool operator==(const OrderEntry&) const = default;
};

/// A model chunk of a pipeline rank.
struct Place {
  int rank = 0, chunk = 0;
  bool operator==(const Place&) const = default;
};

/// Consecutive microbatches.
struct MicrobatchRange {
  int first = 0, count = 0;
  bool contains(int m) const { return first <= m && m < first + count; }
  int last() const { return first + count - 1; }
};

/// Who holds which virtual stage, and who its neighbours are.
struct PipelineShape {
  Placement placement = Placement::ring;
  int ranks = 1, chunks = 1;

  int virtual_stages() const { return placement == Placement::two_way ? ranks : ranks * chunks; }
  int virtual_stage(Place at) const;
  /// Who holds the following virtual stage, of the same direction; none at the end.
  std::optional<Place> next(Place at) const;
  std::optional<Place> previous(Place at) const;
  /// A message of that chunk goes to the next rank (in ring order), not to the previous one.
  bool to_next_rank(int chunk, bool forward) const {
    return placement == Placement::ring ? forward : forward == (chunk == 0);
  }
  /// Of `total`, those that a chunk runs: all, or those of its direction.
  MicrobatchRange microbatches(int chunk, int total) const;
};

}  // namespace stepsim
