// The clock of flows: what happens next, in a total order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace stepsim {

/// A flow's arrival at its resources, or its finish.
struct Event {
  double time_seconds;
  uint32_t task;
  uint32_t slot;  ///< of the flow, while it is ready or runs
};

/// Events, earliest first and at one time the smallest task first.
class EventHeap {
 public:
  size_t size() const { return events_.size(); }
  /// Infinity when empty.
  double next_seconds() const {
    return events_.empty() ? std::numeric_limits<double>::infinity() : events_.front().time_seconds;
  }
  uint32_t next_task() const { return events_.front().task; }  ///< not when empty
  void push(Event event) {
    events_.push_back(event);
    std::push_heap(events_.begin(), events_.end(), later);
  }
  Event pop() {
    std::pop_heap(events_.begin(), events_.end(), later);
    const Event event = events_.back();
    events_.pop_back();
    return event;
  }
  template <class Condition>
  void erase_if(Condition condition) {
    std::erase_if(events_, condition);
    std::make_heap(events_.begin(), events_.end(), later);
  }

 private:
  // An object, not a function: the heap's loops take it in.
  static constexpr auto later = [](const Event& a, const Event& b) {
    return a.time_seconds > b.time_seconds || (a.time_seconds == b.time_seconds && a.task > b.task);
  };

  std::vector<Event> events_;
};

}  // namespace stepsim
