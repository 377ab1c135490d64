// How much of a long run is training: failures, what they undo, and the checkpoints against them.
//
// With M the mean time between failures of the whole machine, C what a checkpoint stops training
// for and R from a failure to training again, work is done in pieces of length t with a checkpoint
// behind each. Memoryless failures: a piece takes M exp(R/M) (exp((t + C)/M) - 1) on average (Daly
// 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps", eq. 20), so
// the effective share of time is t over that. Near the best t = sqrt(2 C M) (Young 1974) it is
// about 1 - C/t - t/(2M) - R/M.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/config/read.h"

namespace stepsim {

/// Hours of one part between its failures, and how much more often or seldom others saw them.
struct FailureRates {
  double gpu_mtbf_hours = 0, link_mtbf_hours = 0, host_mtbf_hours = 0;
  double low = 1, high = 1;  ///< factors of the rate
};
/// Seconds.
struct Checkpoints {
  double save_seconds = 0, restart_seconds = 0;
  std::optional<double> interval_seconds{};  ///< of training between two; unset: Young's
};
/// hardware/operation/defaults.json, what the user does not say.
struct Operation {
  FailureRates failures;
  Checkpoints checkpoints;
  std::optional<double> watts_per_gpu;  ///< nothing for a GPU that the file does not know
};
Operation read_operation(const DataPaths& data, const std::string& gpu);

/// How many parts there are that can fail; a link a GPU.
struct Parts {
  int64_t gpus = 0, hosts = 0;
};
/// Of the whole machine; `factor` times as many failures. Infinite where nothing fails.
double mtbf_seconds(const FailureRates& rates, Parts parts, double factor = 1);
/// Young 1974.
double young_interval_seconds(double save_seconds, double mtbf_seconds);
/// The effective share of time.
double effective_share(const Checkpoints& checkpoints, double mtbf_seconds);

/// The share, and what it is with the failure rates of others.
struct Goodput {
  double mtbf_seconds = 0, interval_seconds = 0;
  double share = 1, low = 1, high = 1;
};
Goodput goodput(const FailureRates& rates, const Checkpoints& checkpoints, Parts parts);

/// Tokens to days, money and energy. Rates that nobody gave cost nothing and are absent.
struct RunCost {
  double days = 0, days_low = 0, days_high = 0;  ///< by the goodput's interval
  double gpu_hours = 0;
  std::optional<double> money{}, megawatt_hours{};
};
RunCost run_cost(double tokens, double tokens_per_second, int64_t gpus, const Goodput& goodput,
                 std::optional<double> price_per_gpu_hour, std::optional<double> watts_per_gpu);

}  // namespace stepsim
