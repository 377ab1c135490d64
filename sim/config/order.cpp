#include "sim/config/order.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <tuple>

namespace stepsim {
namespace {

constexpr std::string_view order_letters = "FBIW";  // as OrderEntry::Kind

std::string spelled(const OrderEntry& e, const PipelineShape& shape) {
  std::string word = order_letters[static_cast<size_t>(e.kind)] + std::to_string(e.microbatch);
  if (shape.chunks > 1 || e.chunk > 0) word += "." + std::to_string(e.chunk);
  return word;
}

/// A number at the start of `text`, which it leaves behind.
bool take_number(std::string_view& text, int& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || value < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

/// Where the computations of one rank stand in its line; -1: nowhere.
struct Standing {
  int forward = -1, input = -1, weight = -1;
};
using Standings = std::map<std::pair<int, int>, Standing>;  // by chunk and microbatch

using OrderKind = OrderEntry::Kind;

class OrderCheck {
 public:
  OrderCheck(const std::vector<std::vector<OrderEntry>>& order, const PipelineShape& shape,
             int microbatches)
      : order_(order), shape_(shape), microbatches_(microbatches), standings_(order.size()) {}

  std::string problem() {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      std::string found = line_problem(rank);
      if (found.empty()) found = missing(rank);
      if (!found.empty()) return "rank " + std::to_string(rank) + ": " + found;
    }
    return deadlock();
  }

 private:
  const std::vector<OrderEntry>& line(int rank) const { return order_[static_cast<size_t>(rank)]; }
  Standings& standings(int rank) { return standings_[static_cast<size_t>(rank)]; }

  std::string line_problem(int rank) {
    for (size_t i = 0; i < line(rank).size(); ++i) {
      const OrderEntry& e = line(rank)[i];
      const std::string word = spelled(e, shape_);
      if (e.chunk >= shape_.chunks)
        return word + " names chunk " + std::to_string(e.chunk) + "; a rank has " +
               std::to_string(shape_.chunks);
      const MicrobatchRange range = shape_.microbatches(e.chunk, microbatches_);
      if (!range.contains(e.microbatch))
        return word + " names no microbatch of its chunk; expected " + std::to_string(range.first) +
               " to " + std::to_string(range.last());
      Standing& s = standings(rank)[{e.chunk, e.microbatch}];
      const auto at = static_cast<int>(i);
      const auto before = [&](OrderKind kind) {
        return word + " stands before " + spelled({kind, e.chunk, e.microbatch}, shape_);
      };
      switch (e.kind) {
        case OrderKind::forward:
          if (s.forward >= 0) return word + " runs twice";
          s.forward = at;
          break;
        case OrderKind::backward:
        case OrderKind::backward_input:
          if (s.forward < 0) return before(OrderKind::forward);
          if (s.input >= 0) return word + " runs a backward that has run";
          s.input = at;
          if (e.kind == OrderKind::backward) s.weight = at;
          break;
        case OrderKind::backward_weight:
          if (s.input < 0) return before(OrderKind::backward_input);
          if (s.weight >= 0) return word + " runs a weight gradient that has run";
          s.weight = at;
          break;
      }
    }
    return "";
  }

  std::string missing(int rank) {
    for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
      const MicrobatchRange range = shape_.microbatches(chunk, microbatches_);
      for (int m = range.first; m <= range.last(); ++m) {
        const auto found = standings(rank).find({chunk, m});
        const Standing s = found == standings(rank).end() ? Standing{} : found->second;
        if (s.weight >= 0) continue;
        const OrderKind kind = s.forward < 0 ? OrderKind::forward
                               : s.input < 0 ? OrderKind::backward
                                             : OrderKind::backward_weight;
        return spelled({kind, chunk, m}, shape_) + " is missing";
      }
    }
    return "";
  }

  /// What the computation waits for on another chunk: its rank and position there.
  std::optional<std::pair<int, int>> need(int rank, const OrderEntry& e) {
    if (e.kind == OrderKind::backward_weight) return {};
    const bool forward = e.kind == OrderKind::forward;
    const Place here{rank, e.chunk};
    const std::optional<Place> from = forward ? shape_.previous(here) : shape_.next(here);
    if (!from) return {};
    const Standing s = standings(from->rank).at({from->chunk, e.microbatch});
    return std::pair{from->rank, forward ? s.forward : s.input};
  }

  /// Runs all lines as far as they go.
  std::string deadlock() {
    std::vector<int> done(order_.size(), 0);
    const auto stuck = [&](int rank) -> std::optional<std::pair<int, int>> {
      const auto i = static_cast<size_t>(done[static_cast<size_t>(rank)]);
      if (i == line(rank).size()) return {};
      const auto on = need(rank, line(rank)[i]);
      if (!on || on->second < done[static_cast<size_t>(on->first)]) return {};
      return on;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < shape_.ranks; ++rank) {
        int& i = done[static_cast<size_t>(rank)];
        while (i < static_cast<int>(line(rank).size()) && !stuck(rank)) ++i, moved = true;
      }
    }
    // Whoever waits longest leads into the circle; its first pair is as good as any.
    int rank = 0;
    while (rank < shape_.ranks && !stuck(rank)) ++rank;
    if (rank == shape_.ranks) return "";
    for (int step = 0; step < shape_.ranks; ++step) rank = stuck(rank)->first;
    const auto [other, at] = *stuck(rank);
    const auto head = [&](int r) {
      return spelled(line(r)[static_cast<size_t>(done[static_cast<size_t>(r)])], shape_);
    };
    return "deadlocks: " + head(rank) + " of rank " + std::to_string(rank) + " waits for " +
           spelled(line(other)[static_cast<size_t>(at)], shape_) + " of rank " +
           std::to_string(other) + ", which stands behind " + head(other) +
           (other == rank ? "" : ", which waits too");
  }

  const std::vector<std::vector<OrderEntry>>& order_;
  const PipelineShape& shape_;
  int microbatches_;
  std::vector<Standings> standings_;
};

}  // namespace

OrderLine parse_order_line(std::string_view line) {
  OrderLine parsed;
  constexpr std::string_view blanks = " \t\r,";
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    if (line.empty()) return parsed;
    const std::string_view word = line.substr(0, line.find_first_of(blanks));
    line.remove_prefix(word.size());
    std::string_view rest = word;
    const size_t letter = order_letters.find(rest.front());
    OrderEntry e;
    rest.remove_prefix(1);
    bool good = letter != std::string_view::npos && take_number(rest, e.microbatch);
    if (good && rest.starts_with('.')) {
      rest.remove_prefix(1);
      good = take_number(rest, e.chunk);
    }
    if (!good || !rest.empty()) {
      parsed.problem = "'" + printable(std::string(word), 40) +
                       "' is no computation; expected F, B, I or W, a microbatch, and behind a dot "
                       "a chunk: F0, B3.1";
      return parsed;
    }
    e.kind = static_cast<OrderEntry::Kind>(letter);
    parsed.entries.push_back(e);
  }
}

std::string order_problem(const std::vector<std::vector<OrderEntry>>& order,
                          const PipelineShape& shape, int microbatches) {
  return OrderCheck(order, shape, microbatches).problem();
}

void resolve_order(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& pipeline = sections.pipeline;
  for (const std::string& text : pipeline.strings("order")) {
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      OrderLine line = parse_order_line(std::string_view(text).substr(start, end - start));
      start = end + 1;
      if (!line.problem.empty()) pipeline.fail("order", line.problem);
      if (line.entries.empty()) continue;
      scenario.order.push_back(std::move(line.entries));
    }
  }
  const auto lines = static_cast<int64_t>(scenario.order.size());
  if (lines != scenario.parallel.pp)
    pipeline.fail("order", "must have a line for each of PP " + text(scenario.parallel.pp) +
                               " ranks; it has " + text(lines));
  const std::string problem =
      order_problem(scenario.order, scenario.parallel.pipeline(),
                    static_cast<int>(std::min<int64_t>(scenario.batch.microbatches, INT32_MAX)));
  if (!problem.empty()) pipeline.fail("order", problem);
  scenario.schedule = ScheduleKind::order;
}

}  // namespace stepsim
