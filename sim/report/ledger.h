// Where the step of each device goes. Law: the causes of one device add up to the step.
//
// Busy time of the compute stream is classed by its kernels. Every idle stretch is explained by
// walking the binding chain back from the task that ends it: the dependency that arrived last, then
// the one that it waited for.
//   bytes moving for this device's stage            -> exposed_<class>
//   the host had not launched                       -> host
//   producer or member of another stage             -> bubble, for all that remains
//   another device of the same stage computing      -> skew, for all that remains
//
// With injected faults, each device is compared with itself in the step without them: idle that
// disappears with the faults is skew wherever it lands (DESIGN: not bubble). With I_f and I_s the
// idle of the two steps (all causes but compute, contention and optimizer) and S the skew that the
// walk has found beyond the sound step's, max(0, I_f - I_s - S) more is taken from the idle causes
// that grew, in proportion to their growth. So the causes still add up, a cause never falls below
// what it is without faults, and the extra kernel time of a slow device stays its compute.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "sim/report/step_end.h"

namespace stepsim {

/// What an instant of a device's compute stream is spent on.
enum class Cause : uint8_t {
  compute,
  contention,
  optimizer,
  host,
  bubble,
  skew,
  exposed_tp,
  exposed_cp,
  exposed_pp,
  exposed_dp,
  exposed_embedding,
  exposed_ep,
  exposed_edp,
  exposed_offload
};
inline constexpr int cause_count = 14;
std::string_view name(Cause cause);

/// Seconds by cause of one device, or a weighted mean over devices.
struct Ledger {
  std::array<double, cause_count> seconds{};

  double operator[](Cause c) const { return seconds[static_cast<size_t>(c)]; }
  double sum() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }
  /// Kernels run.
  double busy() const {
    return (*this)[Cause::compute] + (*this)[Cause::contention] + (*this)[Cause::optimizer];
  }
  double exposed() const {
    return std::accumulate(seconds.begin() + static_cast<int>(Cause::exposed_tp), seconds.end(),
                           0.0);
  }
};

/// A part of what a device's compute stream does not compute, with its one cause.
struct IdlePart {
  uint32_t device = 0;
  Cause cause{};
  double start_seconds = 0, finish_seconds = 0;
};

/// One ledger a simulated device. Linear in tasks for chains as short as a gap. `idle`, when given,
/// takes all idle parts, the latest of a stretch first: by device they add up to what is not busy.
std::vector<Ledger> ledgers(const LoweredStep& step, const Timeline& timeline, StepEnd end,
                            std::vector<IdlePart>* idle = nullptr);

/// A step without its faults, as seen by each device of the step with them.
struct SoundStep {
  double step_seconds = 0;
  std::vector<Ledger> ledgers;  ///< by device of the faulty step
};
/// `faulty` with the idle that its faults cause moved to skew.
Ledger with_skew(Ledger faulty, const Ledger& sound);

/// Mean over all ranks: each device weighs the ranks that it represents.
Ledger mean_ledger(const std::vector<Ledger>& ledgers, const std::vector<SimulatedDevice>& devices);

}  // namespace stepsim
