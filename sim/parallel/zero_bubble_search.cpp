// The heuristic of Qi et al. 2023 (arXiv 2401.10241, section 3.1; the authors' own form of it is in
// sail-sg/zero-bubble-pipeline-parallelism) for given times and a limit of memory. Warm-up: as many
// forwards as fit before the first gradient returns. Then forwards and input halves take turns;
// weight halves fill gaps, and make room where the limit is reached. A rank stays at least one
// forward ahead of the next. Three choices are tried both ways; the order of the least cost is
// kept, where cost is the longest time that any rank takes from its first to its last computation.
#include <algorithm>
#include <array>
#include <limits>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

namespace {

/// What is tried both ways.
struct SearchChoices {
  bool eager = false;  ///< warm-up goes on while it delays the first backward by part of a forward
  bool may_skip =
      false;  ///< a rank more than one forward ahead passes over a turn that costs nothing
  bool patient = false;  ///< a gap shorter than a weight half stays, if some rank idles longer
};

enum : uint8_t { forward_pass, input_pass, weight_pass };

/// A pipeline that is being filled, one computation at a time.
class Search {
 public:
  Search(const ScheduleShape& shape, double limit, SearchChoices choices)
      : p_(shape.ranks),
        m_(shape.microbatches),
        limit_(limit),
        choices_(choices),
        rank_(static_cast<size_t>(p_)) {
    const auto count = static_cast<size_t>(p_);
    const StageTimes& t = shape.times;
    const auto given = [&](const std::vector<double>& list, double otherwise) {
      return list.size() == count ? list : std::vector<double>(count, otherwise);
    };
    times_ = {given(t.forward, 1), given(t.input, 1), given(t.weight, 1)};
    message_ = given(t.message, 0);
    freed_ = {-1, 1 - t.weight_memory, t.weight_memory};
    for (Rank& r : rank_)
      r.ends[0].resize(static_cast<size_t>(m_)), r.ends[1].resize(static_cast<size_t>(m_));
  }

  void run() {
    warm_up();
    for (int i = 1; i < m_; ++i) forwards(), inputs();
    for (int j = 0; j < p_; ++j)
      while (at(j).done[weight_pass] < m_) put(j, weight_pass);
  }
  double cost() const {
    double most = 0;
    for (int j = 0; j < p_; ++j) most = std::max(most, at(j).now - at(j).begin);
    return most;
  }
  const Program& program(int j) const { return at(j).list; }

 private:
  struct Rank {
    int done[3] = {};
    double now = 0, begin = 0, idle = 0, held = 0;
    std::vector<double> ends[2];  ///< of forwards and input halves
    Program list;
  };
  Rank& at(int j) { return rank_[static_cast<size_t>(j)]; }
  const Rank& at(int j) const { return rank_[static_cast<size_t>(j)]; }
  double seconds(int j, int pass) const {
    return times_[static_cast<size_t>(pass)][static_cast<size_t>(j)];
  }
  double message(int j) const { return message_[static_cast<size_t>(j)]; }  ///< between j and j+1

  /// When what the pass needs of a neighbour is there.
  double ready(int j, int pass) const {
    const auto i = static_cast<size_t>(at(j).done[pass]);
    if (pass == forward_pass && j > 0) return at(j - 1).ends[forward_pass][i] + message(j - 1);
    if (pass == input_pass && j + 1 < p_) return at(j + 1).ends[input_pass][i] + message(j);
    return 0;
  }
  void put(int j, int pass) {
    constexpr std::array kinds{ActionKind::forward, ActionKind::backward_input,
                               ActionKind::backward_weight};
    Rank& r = at(j);
    const double start = std::max(r.now, ready(j, pass));
    if (r.list.empty())
      r.begin = start;
    else
      r.idle += start - r.now;
    most_idle_ = std::max(most_idle_, r.idle);
    r.now = start + seconds(j, pass);
    r.held -= freed_[static_cast<size_t>(pass)];
    if (pass != weight_pass) r.ends[pass][static_cast<size_t>(r.done[pass])] = r.now;
    r.list.push_back({kinds[static_cast<size_t>(pass)], 0, r.done[pass]++});
  }
  bool owes(int j) const { return at(j).done[weight_pass] < at(j).done[input_pass]; }
  bool fits(double held) const { return held <= limit_ + 1e-9; }
  /// Weight halves in the gap before `pass`.
  void fill(int j, int pass) {
    const double until = ready(j, pass);
    while (owes(j) && at(j).now + seconds(j, weight_pass) <= until) put(j, weight_pass);
    if (!owes(j) || at(j).now >= until) return;
    if (!choices_.patient || until - at(j).now > most_idle_ - at(j).idle) put(j, weight_pass);
  }

  void warm_up() {
    for (int j = 0; j < p_; ++j) put(j, forward_pass);
    std::vector<int> more(static_cast<size_t>(p_), 0);
    double first = at(p_ - 1).now + seconds(p_ - 1, input_pass);  // end of the first input half
    for (int j = p_ - 2; j >= 0; --j) {
      const double back = first + message(j);
      double now = at(j).now;
      int& count = more[static_cast<size_t>(j)];
      while (count + 1 < m_ && fits(count + 2) &&
             (choices_.eager ? now < back : now + seconds(j, forward_pass) <= back)) {
        now += seconds(j, forward_pass);
        ++count;
      }
      first = std::max(now, back) + seconds(j, input_pass);
    }
    for (size_t j = 1; j < more.size(); ++j)
      more[j] = std::max(0, std::min(more[j], more[j - 1] - 1));
    for (int j = 0; j < p_; ++j)
      for (int i = 0; i < more[static_cast<size_t>(j)]; ++i) put(j, forward_pass);
    for (int j = p_; j-- > 0;) put(j, input_pass);
  }

  /// Rank j lets the next one catch up: it would only idle less later.
  bool skips(int j) const {
    if (j + 1 == p_ || at(j).done[forward_pass] < at(j + 1).done[forward_pass] + 2) return false;
    const double gradient =
        at(j + 1).now + seconds(j + 1, forward_pass) + seconds(j + 1, input_pass) + message(j);
    if (at(j).now >= gradient) return true;
    double held = at(j).held + 1, room = 0;
    for (int owed = at(j).done[input_pass] - at(j).done[weight_pass]; owed > 0 && !fits(held);
         --owed) {
      held -= freed_[weight_pass];
      room += seconds(j, weight_pass);
    }
    if (at(j).now + seconds(j, forward_pass) + room <= gradient) return false;
    return gradient - at(j).now <= most_idle_ - at(j).idle;
  }
  void make_room(int j, double more) {
    while (!fits(at(j).held + more) && owes(j)) put(j, weight_pass);
  }
  void forwards() {
    std::vector<bool> turn(static_cast<size_t>(p_));
    for (int j = p_; j-- > 0;) {
      // Nobody gets ahead of the next rank's turn.
      const bool next = j + 1 == p_ || turn[static_cast<size_t>(j) + 1];
      turn[static_cast<size_t>(j)] =
          next && at(j).done[forward_pass] < m_ && !(choices_.may_skip && skips(j));
    }
    for (int j = 0; j < p_; ++j) {
      if (!turn[static_cast<size_t>(j)]) continue;
      make_room(j, 1);
      if (j > 0) fill(j, forward_pass);
      put(j, forward_pass);
    }
  }
  void inputs() {
    for (int j = p_; j-- > 0;) {
      if (j + 1 < p_) fill(j, input_pass);
      if (j == 0 && at(j).done[forward_pass] == m_)
        while (owes(j)) put(j, weight_pass);
      put(j, input_pass);
    }
  }

  int p_, m_;
  double limit_;
  SearchChoices choices_;
  std::array<std::vector<double>, 3> times_;
  std::vector<double> message_;
  double most_idle_ = 0;           ///< of any rank so far
  std::array<double, 3> freed_{};  ///< microbatches' worth of activations, by pass
  std::vector<Rank> rank_;
};

}  // namespace

std::vector<Program> searched_programs(const ScheduleShape& shape, int microbatches_held) {
  std::vector<Program> best;
  double least = std::numeric_limits<double>::infinity();
  for (int bits = 0; bits < 8; ++bits) {
    Search search(shape, microbatches_held, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
    search.run();
    if (!(search.cost() < least)) continue;
    least = search.cost();
    best.clear();
    for (int j = 0; j < shape.ranks; ++j) best.push_back(search.program(j));
  }
  std::vector<Program> programs;
  for (int j = 0; j < shape.ranks; ++j)
    programs.push_back(with_messages(shape, j, best[static_cast<size_t>(j)]));
  return programs;
}

}  // namespace stepsim
