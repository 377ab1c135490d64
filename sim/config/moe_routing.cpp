#include "sim/config/moe_routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "sim/base/exponential.h"
#include "sim/base/table.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int most_samples = 1000;

RoutingLoad load_of(std::vector<double> tokens_by_rank) {
  double sum = 0;
  for (const double tokens : tokens_by_rank) sum += tokens;
  RoutingLoad load{std::move(tokens_by_rank), 0};
  for (double& tokens : load.by_rank) {
    tokens *= static_cast<double>(load.by_rank.size()) / sum;
    load.max = std::max(load.max, tokens);
  }
  return load;
}

/// Probability of each expert, most popular first, to be among the k of a token.
std::vector<double> zipf_inclusion(double exponent, int experts, int k) {
  std::vector<double> popularity, inclusion(static_cast<size_t>(experts), 1);
  for (int i = 1; i <= experts; ++i) popularity.push_back(exact_pow(i, -exponent));
  if (k >= experts) return inclusion;
  const auto spread = [&](double lambda) {
    double sum = 0;
    for (size_t i = 0; i < popularity.size(); ++i)
      sum += inclusion[i] = -exact_expm1(-lambda * popularity[i]);
    return sum;
  };
  double low = 0, high = 1;
  while (spread(high) < k) high *= 2;
  for (int halving = 0; halving < 100; ++halving) {
    const double middle = (low + high) / 2;
    (spread(middle) < k ? low : high) = middle;
  }
  spread(high);
  return inclusion;
}

/// Megatron-Core gives each EP rank consecutive experts.
std::vector<double> by_rank(const std::vector<double>& by_expert, int ep) {
  std::vector<double> ranks(static_cast<size_t>(ep), 0);
  for (size_t e = 0; e < by_expert.size(); ++e)
    ranks[e * static_cast<size_t>(ep) / by_expert.size()] += by_expert[e];
  return ranks;
}

std::vector<double> hot_ranks(const MoeRouting& routing, int ep) {
  std::vector<double> ranks(
      static_cast<size_t>(ep),
      ep > routing.hot_ranks ? (1 - routing.hot_share) / (ep - routing.hot_ranks) : 0);
  std::fill_n(ranks.begin(), routing.hot_ranks, routing.hot_share / routing.hot_ranks);
  return ranks;
}

/// A uniformly drawn order (Fisher and Yates); std::shuffle differs between libraries.
void permute(std::vector<double>& values, std::mt19937_64& engine) {
  constexpr double unit = 0x1p-53;
  for (size_t left = values.size(); left > 1; --left) {
    const double draw = static_cast<double>(engine() >> 11) * unit;
    std::swap(values[left - 1], values[static_cast<size_t>(draw * static_cast<double>(left))]);
  }
}

/// Rows of a file of numbers: JSON (a list, or a list of lists) or CSV without a header.
class HistogramFile {
 public:
  HistogramFile(const fs::path& path, int experts) : path_(path), experts_(experts) {}

  std::vector<std::vector<double>> rows() const {
    std::vector<std::vector<double>> rows;
    if (path_.extension() == ".json") {
      const Document document = load_document(path_);
      const json& root = *document.root;
      if (!root.is_array() || root.empty()) fail("", "must be a list of numbers, or of such lists");
      if (!root[0].is_array()) return {json_row(root, "")};
      for (size_t i = 0; i < root.size(); ++i)
        rows.push_back(json_row(root[i], "/" + std::to_string(i)));
      return limited(std::move(rows));
    }
    const std::string all = read_text(path_);
    int line = 1;
    for (size_t begin = 0; begin < all.size(); ++line) {
      size_t end = std::min(all.find('\n', begin), all.size());
      std::string_view row(all.data() + begin, end - begin);
      if (row.ends_with('\r')) row.remove_suffix(1);
      if (!row.empty()) rows.push_back(csv_row(row, std::to_string(line) + ":1"));
      begin = end + 1;
    }
    if (rows.empty()) fail("", "holds no numbers; expected one line of them a sample");
    return limited(std::move(rows));
  }

 private:
  std::vector<std::vector<double>> limited(std::vector<std::vector<double>> rows) const {
    if (rows.size() > static_cast<size_t>(most_samples))
      fail("", "must hold at most " + std::to_string(most_samples) +
                   " samples: each is a simulated step; got " + std::to_string(rows.size()));
    return rows;
  }

  [[noreturn]] void fail(const std::string& place, const std::string& message) const {
    throw Error(path_.string(), place, message);
  }

  std::vector<double> json_row(const json& row, const std::string& place) const {
    std::vector<double> tokens;
    if (!row.is_array()) fail(place, "must be a list of numbers, one an expert");
    for (const json& item : row) {
      if (!item.is_number()) fail(place, "must hold numbers only");
      tokens.push_back(item.get<double>());
    }
    return checked(std::move(tokens), place);
  }

  std::vector<double> csv_row(std::string_view row, const std::string& place) const {
    std::vector<double> tokens;
    while (true) {
      const size_t comma = std::min(row.find(','), row.size());
      std::string_view field = row.substr(0, comma);
      while (field.starts_with(' ')) field.remove_prefix(1);
      while (field.ends_with(' ')) field.remove_suffix(1);
      double value = 0;
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
      if (error != std::errc{} || end != field.data() + field.size())
        fail(place, "must hold numbers only, without a header; got '" + printable(field, 40) + "'");
      tokens.push_back(value);
      if (comma == row.size()) break;
      row.remove_prefix(comma + 1);
    }
    return checked(std::move(tokens), place);
  }

  std::vector<double> checked(std::vector<double> tokens, const std::string& place) const {
    if (tokens.size() != static_cast<size_t>(experts_))
      fail(place, "must hold one number for each of " + std::to_string(experts_) +
                      " experts; got " + std::to_string(tokens.size()));
    constexpr double most = 1e15;
    double sum = 0;
    for (const double value : tokens) {
      if (!(value >= 0) || value > most) fail(place, "must hold numbers of tokens from 0 to 1e15");
      sum += value;
    }
    if (sum <= 0) fail(place, "must give a token to some expert");
    return tokens;
  }

  const fs::path& path_;
  int experts_;
};

fs::path histogram_path(const Reader& from) {
  const std::string name = from.required_string("histogram");
  const fs::path beside = fs::path(from.file("histogram")).parent_path() / name;
  std::error_code unreadable;
  return !fs::exists(name, unreadable) && fs::exists(beside, unreadable) ? beside : fs::path(name);
}

void read_hot_ranks(const Reader& hot, const Scenario& scenario, MoeRouting& routing) {
  const int ep = scenario.parallel.ep;
  const Moe& moe = scenario.model.moe;
  routing.hot_ranks = static_cast<int>(hot.required_int("count", {1, ep}));
  const double count = routing.hot_ranks;
  // A token visits an expert at most once.
  const double even = count / ep;
  const double most = std::min(1.0, count * (static_cast<double>(moe.experts) / ep) / moe.top_k);
  routing.hot_share = hot.required_number("share", 0, 1);
  if (routing.hot_share < even || routing.hot_share > most)
    hot.fail("share",
             fmt::format("must be from {:.4g}, the even share of {} of {} ranks, to {:.4g}, "
                         "where a token can visit no more experts there; got {}",
                         even, routing.hot_ranks, ep, most, hot.text_of("share")));
  hot.refuse_unused();
}

}  // namespace

RoutingLoad routing_load(const MoeRouting& routing, int experts, int ep, int top_k) {
  std::vector<double> ranks(static_cast<size_t>(ep), 1);
  switch (routing.kind) {
    case MoeRouting::Kind::balanced:
      break;
    case MoeRouting::Kind::zipf: {
      std::fill(ranks.begin(), ranks.end(), 0);
      const std::vector<double> dealt = zipf_inclusion(routing.exponent, experts, top_k);
      for (size_t i = 0; i < dealt.size(); ++i) ranks[i % ranks.size()] += dealt[i];
      break;
    }
    case MoeRouting::Kind::hot_ranks:
      ranks = hot_ranks(routing, ep);
      break;
    case MoeRouting::Kind::histogram: {
      std::vector<double> all(static_cast<size_t>(experts), 0);
      for (const std::vector<double>& row : routing.histogram)
        for (size_t e = 0; e < row.size(); ++e) all[e] += row[e];
      return load_of(by_rank(all, ep));
    }
    case MoeRouting::Kind::rank_loads:
      return {routing.rank_loads,
              *std::max_element(routing.rank_loads.begin(), routing.rank_loads.end())};
  }
  return load_of(std::move(ranks));
}

std::vector<RoutingLoad> routing_loads(const MoeRouting& routing, int experts, int ep, int top_k) {
  std::vector<RoutingLoad> loads;
  if (routing.kind == MoeRouting::Kind::histogram) {
    for (const std::vector<double>& row : routing.histogram)
      loads.push_back(load_of(by_rank(row, ep)));
    return loads;
  }
  if (routing.draws == 1) return {routing_load(routing, experts, ep, top_k)};
  const bool zipf = routing.kind == MoeRouting::Kind::zipf;
  std::vector<double> shares =
      zipf ? zipf_inclusion(routing.exponent, experts, top_k) : hot_ranks(routing, ep);
  std::mt19937_64 engine(routing.seed);
  for (int draw = 0; draw < routing.draws; ++draw) {
    permute(shares, engine);
    loads.push_back(load_of(zipf ? by_rank(shares, ep) : shares));
  }
  return loads;
}

void resolve_moe_routing(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& costs = sections.costs;
  const std::string key = "moe_routing";
  const json* value = costs.find(key);
  if (value == nullptr) return;
  if (scenario.costs) costs.fail(key, "changes nothing where times are given in place of kernels");
  const Moe& moe = scenario.model.moe;
  if (!moe.present()) costs.fail(key, "needs a model with experts");
  MoeRouting& routing = scenario.moe_routing;
  static const std::vector<std::string> words{"balanced"};
  if (!value->is_object()) {
    costs.choice(key, words[0], words);
    return;
  }
  const Reader from = costs.child(key);
  static const std::vector<std::string> forms{"zipf", "hot_ranks", "histogram"};
  int64_t ways = 0;
  for (const std::string& form : from.keys()) {
    if (form == "samples" || form == "seed") continue;
    if (std::find(forms.begin(), forms.end(), form) == forms.end())
      from.fail(form, "is no way to spread tokens" + suggestion(form, forms));
    ++ways;
  }
  if (ways != 1)
    costs.fail(key, "must hold one of zipf, hot_ranks and histogram; got " + text(ways));
  routing.draws = from.integer("samples", 1, {1, most_samples});
  routing.seed = static_cast<uint64_t>(from.integer("seed", 0, any_count));
  for (const char* word : {"samples", "seed"})
    if (from.has("histogram") && from.has(word))
      from.fail(word, "cannot be combined with histogram, whose rows are the samples");
  if (from.has("zipf")) {
    routing.kind = MoeRouting::Kind::zipf;
    constexpr double steepest = 10;
    routing.exponent = from.required_number("zipf", 0, steepest);
  } else if (from.has("hot_ranks")) {
    routing.kind = MoeRouting::Kind::hot_ranks;
    read_hot_ranks(from.child("hot_ranks"), scenario, routing);
  } else {
    routing.kind = MoeRouting::Kind::histogram;
    const fs::path path = histogram_path(from);
    routing.histogram = HistogramFile(path, moe.experts).rows();
  }
}

}  // namespace stepsim
