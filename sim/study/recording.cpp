#include "sim/study/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/study/kernel_words.h"

namespace stepsim {
namespace {

using nlohmann::json;

/// A stretch of a stream. Kind: a kernel class, or a communication class behind them.
struct Span {
  double start = 0, finish = 0;
  uint8_t kind = 0;
};
constexpr uint8_t kind_code(RecordedKind k) {
  return static_cast<uint8_t>(k.comm == CommClass::none
                                  ? static_cast<int>(k.kernel)
                                  : kernel_class_count + static_cast<int>(k.comm));
}
constexpr CommClass comm_of(uint8_t kind) {
  return kind < kernel_class_count ? CommClass::none
                                   : static_cast<CommClass>(kind - kernel_class_count);
}

/// An annotated step.
struct Mark {
  std::string name;
  Interval when;
};

/// The fields of the event that is being read.
struct Event {
  std::string phase, category, name, collective, group, description;
  std::optional<double> start, duration, thread, stream, device;
};

/// Takes what matters out of a trace while it goes by (nlohmann's SAX interface).
class TraceReader {
 public:
  TraceReader(std::string file, const std::array<bool, comm_class_count>& present)
      : file_(std::move(file)), present_(present) {}

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(json::number_integer_t v) { return number(static_cast<double>(v)); }
  bool number_unsigned(json::number_unsigned_t v) { return number(static_cast<double>(v)); }
  bool number_float(json::number_float_t v, const std::string&) { return number(v); }
  bool binary(json::binary_t&) { return true; }
  bool string(std::string& v);
  bool start_object(size_t);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  bool key(std::string& v) {
    key_ = std::move(v);
    if (depth_ == 1) top_key_ = key_;
    if (inside_ && depth_ == event_depth_) event_key_ = key_;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const json::exception& e) {
    const std::string_view what = e.what();
    const size_t detail = what.find("parse error");
    throw Error(file_, fmt::format("byte {}", at),
                fmt::format("is not JSON: {}",
                            what.substr(detail == what.npos ? 0 : detail).substr(0, 200)));
  }

  std::map<int64_t, std::vector<Span>> streams;
  std::map<int64_t, uint64_t> stream_events;
  std::vector<Mark> marks, gpu_marks;
  std::optional<int> rank;
  uint64_t events = 0, guessed = 0;

 private:
  bool number(double v);
  void finish_event();
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(file_, fmt::format("/traceEvents/{}", count_), what);
  }

  std::string file_, key_, top_key_, event_key_;
  const std::array<bool, comm_class_count>& present_;
  Event event_;
  int depth_ = 0, list_depth_ = 0, event_depth_ = 0;  ///< of brackets; 0: not inside
  bool inside_ = false;                               ///< an event
  uint64_t count_ = 0;
  std::optional<int64_t> device_;
};

bool TraceReader::start_object(size_t) {
  ++depth_;
  if (list_depth_ > 0 && depth_ == list_depth_ + 1) {
    inside_ = true;
    event_depth_ = depth_;
    event_ = {};
  }
  return true;
}
bool TraceReader::end_object() {
  if (inside_ && depth_ == event_depth_) {
    finish_event();
    inside_ = false;
    ++count_;
  }
  --depth_;
  return true;
}
bool TraceReader::start_array(size_t) {
  ++depth_;
  if (list_depth_ == 0 && (depth_ == 1 || (depth_ == 2 && top_key_ == "traceEvents")))
    list_depth_ = depth_;
  return true;
}
bool TraceReader::end_array() {
  if (depth_ == list_depth_) list_depth_ = 0;
  --depth_;
  return true;
}

bool TraceReader::string(std::string& v) {
  if (!inside_) return true;
  if (depth_ == event_depth_) {
    if (key_ == "ph") event_.phase = v;
    if (key_ == "cat") event_.category = v;
    if (key_ == "name") event_.name = v;
  } else if (depth_ == event_depth_ + 1 && event_key_ == "args") {
    if (key_ == "Collective name") event_.collective = v;
    if (key_ == "Process Group Name") event_.group = v;
    if (key_ == "Process Group Description") event_.description = v;
  }
  return true;
}

bool TraceReader::number(double v) {
  if (!inside_) {
    if (depth_ == 2 && top_key_ == "distributedInfo" && key_ == "rank" && v >= 0 && v < 1e9)
      rank = static_cast<int>(v);
    return true;
  }
  if (depth_ == event_depth_) {
    if (key_ == "ts") event_.start = v;
    if (key_ == "dur") event_.duration = v;
    if (key_ == "tid") event_.thread = v;
  } else if (depth_ == event_depth_ + 1 && event_key_ == "args") {
    if (key_ == "stream") event_.stream = v;
    if (key_ == "device") event_.device = v;
  }
  return true;
}

void TraceReader::finish_event() {
  const Event& e = event_;
  if (e.phase != "X") return;
  const bool gpu =
      e.category == "kernel" || e.category == "gpu_memcpy" || e.category == "gpu_memset";
  const bool mark = e.name.starts_with("ProfilerStep") &&
                    (e.category == "user_annotation" || e.category == "gpu_user_annotation");
  if (!gpu && !mark) return;
  if (!e.start || !e.duration) fail(fmt::format("has no {}", e.start ? "dur" : "ts"));
  constexpr double most_microseconds = 1e18;
  if (!(*e.duration >= 0) || !(std::abs(*e.start) + *e.duration < most_microseconds))
    fail(fmt::format("ts {:g}, dur {:g}: must be microseconds, and dur not negative", *e.start,
                     *e.duration));
  const Interval when{*e.start * 1e-6, (*e.start + *e.duration) * 1e-6};
  if (mark) {
    (e.category == "user_annotation" ? marks : gpu_marks).push_back({e.name, when});
    return;
  }
  const auto id = [&](std::optional<double> v) {
    return static_cast<int64_t>(std::clamp(v.value_or(0), -9e15, 9e15));
  };
  if (e.device) {
    if (device_ && *device_ != id(e.device))
      fail(fmt::format("kernels of GPUs {} and {}: expected the trace of one rank", *device_,
                       id(e.device)));
    device_ = id(e.device);
  }
  const RecordedKind kind =
      recorded_kind({e.category, e.name, e.collective, e.group, e.description}, present_);
  const int64_t stream = id(e.stream ? e.stream : e.thread);
  ++events;
  ++stream_events[stream];
  if (kind.guessed) ++guessed;
  std::vector<Span>& spans = streams[stream];
  const Span span{when.start, when.finish, kind_code(kind)};
  if (!spans.empty() && spans.back().kind == span.kind && span.start <= spans.back().finish &&
      span.start >= spans.back().start)
    spans.back().finish = std::max(spans.back().finish, span.finish);
  else if (span.finish > span.start)
    spans.push_back(span);
}

/// The annotations that hold kernels, or the whole trace.
std::vector<Mark> steps_of(const TraceReader& reader, const std::string& file) {
  double first = 1e300, last = -1e300;
  for (const auto& [id, spans] : reader.streams)
    for (const Span& s : spans) {
      first = std::min(first, s.start);
      last = std::max(last, s.finish);
    }
  if (last <= first)
    throw Error(file, "/traceEvents",
                "holds no GPU kernels (ph X, cat kernel, with ts and dur): expected a PyTorch "
                "profiler trace with CUDA activities");
  std::vector<Mark> steps;
  for (const Mark& mark : reader.gpu_marks.empty() ? reader.marks : reader.gpu_marks) {
    const auto overlaps = [&](const Span& s) {
      return s.start < mark.when.finish && s.finish > mark.when.start;
    };
    if (std::any_of(reader.streams.begin(), reader.streams.end(), [&](const auto& stream) {
          return std::any_of(stream.second.begin(), stream.second.end(), overlaps);
        }))
      steps.push_back(mark);
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Mark& a, const Mark& b) { return a.when.start < b.when.start; });
  if (steps.empty()) steps.push_back({"", {first, last}});
  return steps;
}

/// Adds one step of the trace to the sums.
void add_step(Recording& sum, const TraceReader& reader, Interval step) {
  std::vector<Interval> compute;
  std::array<std::vector<Interval>, comm_class_count> transfers;
  size_t place = 0;
  for (const auto& [id, spans] : reader.streams) {
    std::vector<Interval> busy;
    for (const Span& s : spans) {
      const Interval i{std::max(s.start, step.start), std::min(s.finish, step.finish)};
      if (i.finish <= i.start) continue;
      busy.push_back(i);
      const CommClass c = comm_of(s.kind);
      if (c == CommClass::none) {
        compute.push_back(i);
        sum.kernel_seconds[s.kind] += i.finish - i.start;
      } else {
        transfers[static_cast<size_t>(c)].push_back(i);
      }
    }
    sum.streams[place++].busy_seconds += length(interval_union(std::move(busy)));
  }
  compute = interval_union(std::move(compute));
  sum.compute_seconds += length(compute);
  std::vector<Interval> all;
  const auto add = [&](std::optional<Communication>& row, const std::vector<Interval>& when) {
    if (!row) row.emplace();
    row->total_seconds += length(when);
    row->hidden_seconds += common_length(when, compute);
  };
  for (size_t c = 1; c < comm_class_count; ++c) {
    if (transfers[c].empty()) continue;
    const std::vector<Interval> when = interval_union(std::move(transfers[c]));
    add(sum.communication.by_class[c], when);
    all.insert(all.end(), when.begin(), when.end());
  }
  if (!all.empty()) add(sum.communication.overall, interval_union(std::move(all)));
  sum.step_seconds += step.finish - step.start;
}

std::string mostly(const std::vector<Span>& spans) {
  std::array<double, kernel_class_count + comm_class_count> by_kind{};
  for (const Span& s : spans)
    by_kind[s.kind < kernel_class_count ? 0 : s.kind] += s.finish - s.start;
  const auto most =
      static_cast<uint8_t>(std::max_element(by_kind.begin(), by_kind.end()) - by_kind.begin());
  const CommClass c = comm_of(most);
  return c == CommClass::none ? "compute" : std::string(name(c));
}

}  // namespace

Recording read_recording(std::istream& in, const std::string& file,
                         const std::array<bool, comm_class_count>& present) {
  if (in.peek() == 0x1f)
    throw Error(file, "",
                "is compressed: zcat " + file + " | stepsim explain-measured ... --kineto -");
  TraceReader reader(file, present);
  json::sax_parse(in, &reader);
  const std::vector<Mark> steps = steps_of(reader, file);
  Recording result;
  for (const auto& [id, spans] : reader.streams)
    result.streams.push_back(
        {.id = id, .mostly = mostly(spans), .events = reader.stream_events[id]});
  for (const Mark& step : steps) add_step(result, reader, step.when);
  const double count = static_cast<double>(steps.size());
  const auto average = [&](std::optional<Communication>& row) {
    if (!row) return;
    row->total_seconds /= count;
    row->hidden_seconds /= count;
  };
  average(result.communication.overall);
  for (auto& row : result.communication.by_class) average(row);
  for (double& s : result.kernel_seconds) s /= count;
  for (RecordedStream& s : result.streams) s.busy_seconds /= count;
  result.compute_seconds /= count;
  result.step_seconds /= count;
  if (!steps[0].name.empty()) {
    result.steps = static_cast<int>(steps.size());
    result.first = steps.front().name;
    result.last = steps.back().name;
  }
  result.rank = reader.rank;
  result.events = reader.events;
  result.guessed = reader.guessed;
  return result;
}

}  // namespace stepsim
