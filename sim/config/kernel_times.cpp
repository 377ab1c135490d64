#include "sim/config/kernel_times.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using nlohmann::json;

constexpr bool is_gemm(OpKind op) {
  using enum OpKind;
  constexpr std::array gemms{qkv_gemm,    proj_gemm,    fc1_gemm,     fc2_gemm,
                             q_down_gemm, kv_down_gemm, q_up_gemm,    kv_up_gemm,
                             shared_fc1,  shared_fc2,   latent_gemm,  mtp_projection,
                             mamba_in,    mamba_out,    adapter_gemm, output_gemm};
  return std::find(gemms.begin(), gemms.end(), op) != gemms.end();
}
constexpr bool is_grouped_gemm(OpKind op) {
  return op == OpKind::expert_fc1 || op == OpKind::expert_fc2;
}
constexpr bool is_optimizer(OpKind op) { return row(op).task_class == TaskClass::optimizer; }
constexpr bool is_elementwise(OpKind op) {
  return is_kernel(op) && !is_gemm(op) && !is_grouped_gemm(op) && !is_optimizer(op) &&
         op != OpKind::attention && op != OpKind::mamba_scan;
}
constexpr std::array kinds{
    KernelKindRow{"gemm", "matrix products of dense layers, shared experts and the head", is_gemm},
    KernelKindRow{"grouped gemm", "matrix products of routed experts", is_grouped_gemm},
    KernelKindRow{"elementwise", "norms, activations, permutations, casts: they only move bytes",
                  is_elementwise},
    KernelKindRow{"optimizer", "the optimizer's kernels", is_optimizer},
};

constexpr size_t passes = pass_names.size();
constexpr size_t slot(OpKind op, Pass pass) {
  return static_cast<size_t>(op) * passes + static_cast<size_t>(pass);
}

/// One entry, and how closely it names its kernels.
struct NamedTime {
  enum Closeness { kind, operation, its_forward, its_pass } closeness;
  bool (*holds)(OpKind) = nullptr;
  OpKind op{};
  Pass pass{};
  KernelTime time;
};

constexpr std::string_view separators = "_-";
/// On a command line words are easier joined: fc1_gemm.
std::string spaced(std::string name) {
  for (char& c : name)
    if (separators.find(c) != std::string_view::npos) c = ' ';
  return name;
}

class KernelNames {
 public:
  explicit KernelNames(const Reader& section) : section_(section) {
    for (const KernelKindRow& k : kinds) valid_.emplace_back(k.name);
    for (const OpRow& o : op_rows)
      if (is_kernel(o.op)) valid_.emplace_back(o.name);
  }

  NamedTime read(const std::string& key) const {
    const std::string name = spaced(key);
    NamedTime entry{NamedTime::kind, nullptr, {}, {}, time(key)};
    for (const KernelKindRow& k : kinds)
      if (name == k.name) return entry.holds = k.holds, entry;
    for (const OpRow& o : op_rows) {
      const std::string own = spaced(std::string(o.name));
      if (!is_kernel(o.op)) {
        if (name == own)
          section_.fail(key, "is no kernel: its time follows from the network or the host");
        continue;
      }
      entry.op = o.op;
      entry.closeness = NamedTime::operation;
      if (name == own) return entry;
      for (size_t p = 0; p < passes; ++p) {
        if (name != own + " " + std::string(pass_names[p])) continue;
        entry.pass = static_cast<Pass>(p);
        entry.closeness =
            entry.pass == Pass::forward ? NamedTime::its_forward : NamedTime::its_pass;
        return entry;
      }
    }
    section_.fail(key, "is no kernel" + suggestion(name, valid_) +
                           " (stepsim list kernels; a pass may follow: forward, backward data, "
                           "backward weight, backward, recompute)");
  }

 private:
  KernelTime time(const std::string& key) const {
    constexpr double most_factor = 1e6, longest = 1e6;
    const json* value = section_.find(key);
    if (value != nullptr && value->is_number())
      return {.factor = section_.required_number(key, 1e-6, most_factor), .seconds = 0};
    if (value == nullptr || !value->is_string())
      section_.fail(key, "must be a factor, or a time with its unit such as \"1.2 ms\"; got " +
                             section_.text_of(key));
    const double seconds = section_.required_quantity(key, Dimension::time);
    if (seconds > longest) section_.fail(key, "must be at most 1e6 s");
    return {.factor = 1, .seconds = seconds};
  }

  const Reader& section_;
  std::vector<std::string> valid_;
};

}  // namespace

std::span<const KernelKindRow> kernel_kinds() { return kinds; }

const KernelTime& KernelTimes::of(OpKind op, Pass pass) const {
  static constexpr KernelTime as_modelled{};
  return times_.empty() ? as_modelled : times_[slot(op, pass)];
}

void KernelTimes::set(OpKind op, Pass pass, KernelTime time) {
  if (times_.empty()) times_.resize(op_rows.size() * passes);
  times_[slot(op, pass)] = time;
}

void resolve_kernel_times(const ScenarioSections& sections, Scenario& scenario) {
  const std::string key = "kernels";
  if (!sections.costs.has(key)) return;
  if (scenario.costs)
    sections.costs.fail(key, "changes nothing where times are given in place of kernels");
  const Reader section = sections.costs.child(key);
  const KernelNames names(section);
  std::vector<NamedTime> entries;
  for (const std::string& name : section.keys()) {
    if (name.starts_with('_') || !section.has(name)) continue;
    entries.push_back(names.read(name));
    const KernelTime& t = entries.back().time;
    if (!t.changes()) continue;
    add_finding(scenario, section, name, "kernel-time-given", Finding::Kind::advice,
                section.text_of(name), section.text_of(name),
                t.seconds > 0 ? "the scenario gives this kernel's time in place of the modelled one"
                              : "the scenario multiplies the modelled time of this kernel");
  }
  // What is named most closely comes last and stays.
  std::stable_sort(entries.begin(), entries.end(), [](const NamedTime& a, const NamedTime& b) {
    return a.closeness < b.closeness;
  });
  for (const NamedTime& e : entries)
    for (const OpRow& o : op_rows) {
      if (!is_kernel(o.op) || (e.holds != nullptr ? !e.holds(o.op) : o.op != e.op)) continue;
      for (size_t p = 0; p < passes; ++p) {
        const auto pass = static_cast<Pass>(p);
        const bool named = e.closeness < NamedTime::its_forward || pass == e.pass ||
                           (e.closeness == NamedTime::its_forward && pass == Pass::recompute);
        if (named) scenario.kernel_times.set(o.op, pass, e.time);
      }
    }
}

}  // namespace stepsim
