#include "sim/report/trace.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>

#include "sim/report/step_end.h"

namespace stepsim {
namespace {

/// Whole nanoseconds, so that slices of one stream never overlap by rounding.
int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// Writes events one a line through a buffer.
class Writer {
 public:
  explicit Writer(std::ostream& out) : out_(out) {
    append("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  }

  /// The fields of one event, without braces. `fields` is a compiled format: there are millions of
  /// events.
  template <class Format, class... T>
  void event(const Format& fields, const T&... args) {
    append(first_ ? "\n{" : ",\n{");
    first_ = false;
    fmt::format_to(std::back_inserter(buffer_), fields, args...);
    buffer_.push_back('}');
    if (buffer_.size() > (size_t{1} << 20)) flush();
  }
  void finish() {
    append("\n]}\n");
    flush();
  }

  /// Viewers want ids from 1 up, and threads that no two processes share.
  uint32_t process_id(uint32_t device) const { return first_process + device + 1; }
  uint32_t process_id(StreamId s) const { return process_id(device_of(s)); }
  uint32_t thread_id(StreamId s) const {
    return 100 * process_id(s) + static_cast<uint32_t>(stream_of(s));
  }

  uint32_t first_process = 0;  ///< of the step that is written
  std::string_view prefix;     ///< of its processes' names
  uint64_t arrows = 0;         ///< written so far

 private:
  void append(std::string_view text) { buffer_.append(text.data(), text.data() + text.size()); }
  void flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }

  std::ostream& out_;
  fmt::memory_buffer buffer_;
  bool first_ = true;
};

/// A time in microseconds, "12.345".
struct Microseconds {
  int64_t nanoseconds = 0;
};

std::string_view category(TaskClass c) {
  constexpr std::string_view names[] = {"compute", "optimizer", "communication", "host", "marker"};
  return names[static_cast<size_t>(c)];
}

bool sends(Stream s) { return s == Stream::pp_send_next || s == Stream::pp_send_prev; }

}  // namespace
}  // namespace stepsim

template <>
struct fmt::formatter<stepsim::Microseconds> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const stepsim::Microseconds& t, Context& context) const {
    return format_to(context.out(), FMT_COMPILE("{}.{:03}"), t.nanoseconds / 1000,
                     t.nanoseconds % 1000);
  }
};

namespace stepsim {
namespace {

/// Names of processes and threads; only streams in use get a thread.
void write_names(Writer& writer, const LoweredStep& step) {
  std::vector<bool> used(step.devices.size() * stream_count, false);
  for (const StreamId s : step.graph.streams)
    if (s != no_stream) used[index(s)] = true;
  for (const RendezvousMember& m : step.members) used[index(m.stream)] = true;
  for (uint32_t d = 0; d < step.devices.size(); ++d) {
    const SimulatedDevice& device = step.devices[d];
    writer.event(FMT_COMPILE(R"~("ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":)~"
                             R"~("{}rank {}, stage {} (x{} ranks)"}})~"),
                 writer.process_id(d), writer.prefix, device.rank, device.stage, device.represents);
    writer.event(
        FMT_COMPILE(
            R"("ph":"M","pid":{},"tid":0,"name":"process_sort_index","args":{{"sort_index":{}}})"),
        writer.process_id(d), writer.process_id(d) - 1);
    for (uint32_t k = 0; k < stream_count; ++k) {
      const StreamId s = stream_id(d, static_cast<Stream>(k));
      if (!used[index(s)]) continue;
      writer.event(
          FMT_COMPILE(R"("ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}})"),
          writer.process_id(s), writer.thread_id(s), name(stream_of(s)));
      writer.event(
          FMT_COMPILE(
              R"("ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}})"),
          writer.process_id(s), writer.thread_id(s), k);
    }
  }
}

void write_slice(Writer& writer, StreamId stream, const Timeline& timeline, uint32_t task,
                 std::string_view what, TaskClass task_class) {
  const int64_t start = nanoseconds(timeline.start_seconds[task]);
  const int64_t finish = nanoseconds(timeline.finish_seconds[task]);
  writer.event(FMT_COMPILE(R"("ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}")"),
               writer.process_id(stream), writer.thread_id(stream), Microseconds{start},
               Microseconds{finish - start}, what, category(task_class));
}

/// Slices on the other members' streams and the arrows between both ends of a pipeline transfer.
void write_transfers(Writer& writer, const LoweredStep& step, const Timeline& timeline) {
  for (size_t first = 0, last = 0; first < step.members.size(); first = last) {
    const TaskId transfer = step.members[first].transfer;
    const uint32_t t = index(transfer);
    std::vector<StreamId> ends;
    if (step.graph.streams[t] != no_stream) ends.push_back(step.graph.streams[t]);
    for (; last < step.members.size() && step.members[last].transfer == transfer; ++last) {
      const StreamId s = step.members[last].stream;
      if (std::find(ends.begin(), ends.end(), s) == ends.end()) ends.push_back(s);
    }
    const Label label = label_of(step.graph, transfer);
    const int64_t start = nanoseconds(timeline.start_seconds[t]);
    const int64_t finish = nanoseconds(timeline.finish_seconds[t]);
    if (finish <= start) continue;
    const std::string what = describe(label);
    for (const StreamId s : ends)
      if (s != step.graph.streams[t])
        write_slice(writer, s, timeline, t, what, TaskClass::communication);
    if (row(label.op).comm != CommClass::pp) continue;

    const auto sender =
        std::find_if(ends.begin(), ends.end(), [](StreamId s) { return sends(stream_of(s)); });
    if (sender == ends.end()) continue;
    // The start of an arrow binds to the slice that holds its time, the end to the slice around it
    // ("bp":"e").
    for (const StreamId receiver : ends) {
      if (receiver == *sender) continue;
      ++writer.arrows;
      const auto arrow = [&](const char* phase, StreamId s, int64_t at) {
        writer.event(
            FMT_COMPILE(R"("ph":"{}","bp":"e","id":{},"pid":{},"tid":{},"ts":{},"name":"transfer",)"
                        R"("cat":"transfer")"),
            phase, writer.arrows, writer.process_id(s), writer.thread_id(s), Microseconds{at});
      };
      arrow("s", *sender, start);
      arrow("f", receiver, finish - 1);
    }
  }
}

/// Live activation bytes of each device over time.
void write_memory(Writer& writer, const LoweredStep& step, const Timeline& timeline) {
  for (uint32_t d = 0; d < step.memory_events.size(); ++d) {
    std::vector<std::pair<int64_t, double>> changes;
    changes.reserve(step.memory_events[d].size());
    for (const MemoryEvent& e : step.memory_events[d]) {
      const auto& when = e.bytes >= 0 ? timeline.start_seconds : timeline.finish_seconds;
      changes.emplace_back(nanoseconds(when[index(e.task)]), e.bytes);
    }
    std::stable_sort(changes.begin(), changes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    double live = 0;
    for (size_t i = 0; i < changes.size(); ++i) {
      live += changes[i].second;
      if (i + 1 < changes.size() && changes[i + 1].first == changes[i].first) continue;
      writer.event(
          FMT_COMPILE(
              R"("ph":"C","pid":{},"ts":{},"name":"activation memory","args":{{"bytes":{:.0f}}})"),
          writer.process_id(d), Microseconds{changes[i].first}, live);
    }
  }
}

/// All events of one step.
void write_step(Writer& writer, const LoweredStep& step, const Timeline& timeline) {
  write_names(writer, step);
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const StreamId stream = step.graph.streams[t];
    if (stream == no_stream ||
        nanoseconds(timeline.finish_seconds[t]) <= nanoseconds(timeline.start_seconds[t]))
      continue;
    const Label label = Label::unpack(step.graph.labels[t]);
    write_slice(writer, stream, timeline, t, describe(label), row(label.op).task_class);
  }
  write_transfers(writer, step, timeline);
  write_memory(writer, step, timeline);
}

}  // namespace

void write_trace(std::ostream& out, const LoweredStep& step, const Timeline& timeline) {
  const TracedStep one{"", step, timeline};
  write_traces(out, {&one, 1});
}

void write_traces(std::ostream& out, std::span<const TracedStep> steps) {
  Writer writer(out);
  for (const TracedStep& one : steps) {
    writer.prefix = one.prefix;
    write_step(writer, one.step, one.timeline);
    writer.first_process += static_cast<uint32_t>(one.step.devices.size());
  }
  writer.finish();
}

}  // namespace stepsim
