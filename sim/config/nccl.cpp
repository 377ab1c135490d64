#include "sim/config/nccl.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/environment.h"
#include "sim/config/reader.h"

namespace stepsim {
namespace {

using nlohmann::json;
using Masks = std::array<unsigned, nccl_functions.size()>;

std::string small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

/// What a variable may name, and which of it NCCL considers when nobody says.
struct Choices {
  std::span<const std::string_view> names;
  unsigned considered;
  unsigned unless_ring;  ///< gathering and reducing not considered beside a ring
};

constexpr unsigned algorithm_bit(std::string_view name) { return name_bit(nccl_algorithms, name); }

/// As the cost of a collective has it (sim/network/collective.cpp): NVLS and SHARP where they are
/// enabled, no extension of ours.
unsigned considered_algorithms(const NcclSettings& nccl) {
  unsigned mask = algorithm_bit("ring") | algorithm_bit("tree") | algorithm_bit("pat");
  if (nccl.nvls) mask |= algorithm_bit("nvls") | algorithm_bit("nvlstree");
  if (nccl.collnet) mask |= algorithm_bit("collnetdirect") | algorithm_bit("collnetchain");
  return mask;
}

/// Mask of one function of a list that holds for all or for it alone.
unsigned mask_for(size_t function, unsigned mask, const std::string& list, const Choices& choices) {
  constexpr unsigned ring = algorithm_bit("ring");
  const bool one_pass =
      nccl_functions[function] == "allgather" || nccl_functions[function] == "reducescatter";
  const bool beside_ring = list.starts_with('^') && (mask & ring) != 0;
  return one_pass && beside_ring ? mask & ~choices.unless_ring : mask;
}

/// A list of names; behind "^" what is considered otherwise, less the names. NCCL takes "collnet"
/// for CollnetDirect.
unsigned mask_of(const Reader& env_vars, const std::string& key, std::string list,
                 const Choices& choices) {
  const std::span<const std::string_view> names = choices.names;
  const bool inverted = list.starts_with('^');
  if (inverted) list.erase(0, 1);
  unsigned mask = 0;
  for (const std::string& name : parts_of(list, ',')) {
    const std::string meant = name == "collnet" ? "collnetdirect" : name;
    const auto found = std::find(names.begin(), names.end(), meant);
    if (found == names.end())
      env_vars.fail(key,
                    "unknown name '" + printable(name) + "'" +
                        suggestion(name, std::vector<std::string>(names.begin(), names.end())));
    mask |= 1U << (found - names.begin());
  }
  if (inverted) mask = choices.considered & ~mask;
  if (mask == 0) env_vars.fail(key, "leaves nothing to choose from");
  return mask;
}

/// "ring", "ring,tree", "^tree", "allreduce:tree;allgather:ring".
Masks read_names(const Reader& env_vars, const std::string& key, const Choices& choices) {
  Masks masks{};
  const json* value = env_vars.find(key);
  if (value == nullptr) return masks;
  if (!value->is_string()) env_vars.fail(key, "must be names as text, such as \"ring,tree\"");
  const std::string text = small_letters(value->get<std::string>());
  if (text.empty()) return masks;
  for (const std::string& part : parts_of(text, ';')) {
    const size_t colon = part.find(':');
    if (colon == std::string::npos) {
      const unsigned mask = mask_of(env_vars, key, part, choices);
      for (size_t f = 0; f < masks.size(); ++f) masks[f] = mask_for(f, mask, part, choices);
      continue;
    }
    const std::string function = part.substr(0, colon);
    const auto* found = std::find(nccl_functions.begin(), nccl_functions.end(), function);
    if (found == nccl_functions.end())
      env_vars.fail(key, "unknown function '" + printable(function) + "'" +
                             suggestion(function, std::vector<std::string>(nccl_functions.begin(),
                                                                           nccl_functions.end())));
    const auto f = static_cast<size_t>(found - nccl_functions.begin());
    const std::string list = part.substr(colon + 1);
    masks[f] = mask_for(f, mask_of(env_vars, key, list, choices), list, choices);
  }
  return masks;
}

/// "2.29.7" -> 22907, as NCCL counts; 0 when it is no such text. Packages add "-1+cuda12.9".
int version_number(std::string version) {
  version = version.substr(0, version.find_first_of("-+"));
  const std::vector<std::string> parts = parts_of(version, '.');
  if (parts.size() < 2 || parts.size() > 3) return 0;
  int number = 0;
  for (const std::string& part : parts) {
    int value = 0;
    const char* last = part.data() + part.size();
    const auto [end, error] = std::from_chars(part.data(), last, value);
    if (error != std::errc{} || end != last || value < 0 || value > 99) return 0;
    number = number * 100 + value;
  }
  return parts.size() == 2 ? number * 100 : number;
}

}  // namespace

NcclSettings read_nccl(const Reader& env_vars, const std::string& version) {
  constexpr int most_channels = 64;
  NcclSettings nccl;
  nccl.version = version_number(version);
  if (!version.empty() && nccl.version == 0)
    throw Error(env_vars.file(""), "/software/nccl",
                "must be a version such as 2.27.5; got '" + printable(version) + "'");
  // 2, the default, asks the driver; the device's file says whether there is NVLink SHARP.
  nccl.nvls = environment_count(env_vars, "NCCL_NVLS_ENABLE", 0, 2).value_or(2) > 0;
  nccl.collnet = environment_count(env_vars, "NCCL_COLLNET_ENABLE", 0, 1).value_or(0) > 0;
  nccl.algorithms = read_names(
      env_vars, "NCCL_ALGO", {nccl_algorithms, considered_algorithms(nccl), algorithm_bit("nvls")});
  nccl.protocols =
      read_names(env_vars, "NCCL_PROTO", {nccl_protocols, (1U << nccl_protocols.size()) - 1, 0});
  nccl.min_ctas = environment_count(env_vars, "NCCL_MIN_CTAS", 1, most_channels).value_or(0);
  nccl.max_ctas = environment_count(env_vars, "NCCL_MAX_CTAS", 1, most_channels).value_or(0);
  const auto channels = environment_count(env_vars, "NCCL_MAX_NCHANNELS", 1, most_channels);
  if (channels) nccl.max_ctas = nccl.max_ctas > 0 ? std::min(nccl.max_ctas, *channels) : *channels;
  if (nccl.max_ctas > 0 && nccl.min_ctas > nccl.max_ctas)
    env_vars.fail("NCCL_MIN_CTAS", "must be at most the largest number of channels, " +
                                       std::to_string(nccl.max_ctas) + "; got " +
                                       std::to_string(nccl.min_ctas));
  nccl.channels_per_net_peer =
      environment_count(env_vars, "NCCL_NCHANNELS_PER_NET_PEER", 1, most_channels).value_or(0);
  nccl.zero_ctas = environment_count(env_vars, "NCCL_CTA_POLICY", 0, 2).value_or(0) == 2;
  return nccl;
}

}  // namespace stepsim
