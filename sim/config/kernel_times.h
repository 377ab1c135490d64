// costs.kernels: what is known better of single kernels than their model knows it. A key is a kind
// of kernels, one kernel, or one kernel of one pass ("fc1 gemm backward weight"); what is named
// more closely wins, and a recompute takes what its forward takes. A value is a factor of the
// modelled time, or the time of one kernel in its place ("1.2 ms"). Laws: a factor of 1 changes no
// bit; a factor adds its share of what those kernels take, where nothing else is in their way.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/op_kind.h"
#include "sim/config/pass.h"

namespace stepsim {

struct ScenarioSections;
struct Scenario;

/// Kernels that are named together.
struct KernelKindRow {
  std::string_view name, description;
  bool (*holds)(OpKind);
};
std::span<const KernelKindRow> kernel_kinds();

/// A kernel's row of op_rows: whatever runs on the compute stream by itself.
constexpr bool is_kernel(OpKind op) {
  const TaskClass c = row(op).task_class;
  return (c == TaskClass::compute || c == TaskClass::optimizer) && op != OpKind::given &&
         op != OpKind::delay;
}

/// What becomes of one kernel's modelled time.
struct KernelTime {
  double factor = 1;
  double seconds = 0;  ///< in place of it; 0: not given
  bool changes() const { return seconds > 0 || factor != 1; }
  double of(double modelled_seconds) const {
    return seconds > 0 ? seconds : modelled_seconds * factor;
  }
};

/// The times of costs.kernels by operation and pass.
class KernelTimes {
 public:
  bool empty() const { return times_.empty(); }
  const KernelTime& of(OpKind op, Pass pass) const;
  void set(OpKind op, Pass pass, KernelTime time);

 private:
  std::vector<KernelTime> times_;  ///< empty, or one for each operation and pass
};

void resolve_kernel_times(const ScenarioSections& sections, Scenario& scenario);

}  // namespace stepsim
