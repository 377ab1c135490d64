// Task graphs from lines of text, for tests.
//
//   link nic 10                               a resource of capacity 10
//   a 3 @compute                              a task of 3 seconds on a stream (in line order on
//   each stream) b 2 @tp after a c                         b starts when a and c have finished c 1
//   start+0.5 a                           c starts no earlier than 0.5 after a starts f 4 latency 1
//   uses nic 5 x2 uses wan 5    a flow: 1 s of latency, then 5 units/s and multiplicity 2 on nic
//   pool sm 8                                 eight processors
//   g 4 @compute runs sm 8 in 16              full speed on 8, work in 16 equal blocks (0: small
//   ones) n 4 @tp holds sm 2 / takes sm 2 / gives sm 2, then perhaps "yields"
// Names may be used before their line. ';' ends a line too; '#' starts a comment.
#pragma once

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/task_graph_builder.h"

namespace stepsim::test {

/// A graph and what its tasks are called.
struct NamedGraph {
  TaskGraph graph;
  std::map<std::string, TaskId> ids;
  std::vector<std::string> names;  ///< by task

  uint32_t operator[](const std::string& name) const { return index(ids.at(name)); }
  /// "a b c".
  std::string spell(const std::vector<TaskId>& tasks) const {
    std::string text;
    for (TaskId t : tasks) text += (text.empty() ? "" : " ") + names.at(index(t));
    return text;
  }
};

/// Lines of words, comments and empty lines dropped.
inline std::vector<std::vector<std::string>> words_of(std::string text) {
  std::replace(text.begin(), text.end(), ';', '\n');
  std::vector<std::vector<std::string>> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::vector<std::string> row;
    for (std::string word; words >> word;) row.push_back(word);
    if (!row.empty()) lines.push_back(row);
  }
  return lines;
}

/// The graph that `text` spells; `reverse_edges` adds the written edges last to first, which must
/// change nothing.
inline NamedGraph graph_of(const std::string& text, bool reverse_edges = false) {
  const auto lines = words_of(text);
  std::map<std::string, StreamId> streams;
  for (const auto& line : lines) {
    for (const std::string& word : line) {
      if (word[0] == '@') streams.emplace(word, StreamId{static_cast<uint32_t>(streams.size())});
    }
  }
  TaskGraphBuilder builder(static_cast<uint32_t>(streams.size()));
  std::map<std::string, ResourceId> resources;
  std::map<std::string, PoolId> pools;
  std::map<std::string, TaskId> ids;
  std::vector<std::string> names;
  for (const auto& line : lines) {
    if (line[0] == "link") {
      resources[line.at(1)] = builder.add_resource(std::stod(line.at(2)));
      continue;
    }
    if (line[0] == "pool") {
      pools[line.at(1)] = builder.add_pool(static_cast<uint32_t>(std::stoul(line.at(2))));
      continue;
    }
    const auto at =
        std::find_if(line.begin(), line.end(), [](const auto& w) { return w[0] == '@'; });
    const StreamId stream = at == line.end() ? no_stream : streams.at(*at);
    ids[line[0]] = builder.add_task(std::stod(line.at(1)), stream, names.size());
    names.push_back(line[0]);
  }

  using Role = ProcessorClaim::Role;
  const std::map<std::string, Role> roles{
      {"runs", Role::run}, {"holds", Role::hold}, {"takes", Role::take}, {"gives", Role::give}};
  /// An edge as written.
  struct Edge {
    TaskId from, to;
    bool start = false;
    double lag = 0;
  };
  std::vector<Edge> edges;
  for (const auto& line : lines) {
    if (line[0] == "link" || line[0] == "pool") continue;
    const TaskId task = ids.at(line[0]);
    double latency = 0;
    std::vector<Claim> claims;
    std::vector<ProcessorClaim> processors;
    for (size_t w = 2; w < line.size();) {
      const std::string& word = line[w++];
      if (word[0] == '@') continue;
      if (word == "after" || word.starts_with("start+")) {
        const bool start = word != "after";
        const double lag = start ? std::stod(word.substr(6)) : 0;
        for (; w < line.size() && ids.contains(line[w]); ++w)
          edges.push_back({ids.at(line[w]), task, start, lag});
      } else if (word == "latency") {
        latency = std::stod(line.at(w++));
      } else if (word == "uses") {
        Claim claim{.resource = resources.at(line.at(w)), .rate = std::stof(line.at(w + 1))};
        w += 2;
        if (w < line.size() && line[w][0] == 'x') {
          claim.multiplicity = static_cast<uint32_t>(std::stoul(line[w++].substr(1)));
        }
        claims.push_back(claim);
      } else if (roles.contains(word)) {
        ProcessorClaim claim{.pool = pools.at(line.at(w)), .role = roles.at(word)};
        claim.count = static_cast<uint32_t>(std::stoul(line.at(w + 1)));
        w += 2;
        if (w < line.size() && line[w] == "in") {
          claim.blocks = static_cast<uint32_t>(std::stoul(line.at(w + 1)));
          w += 2;
        }
        if (w < line.size() && line[w] == "saturating") {
          claim.saturating = static_cast<uint32_t>(std::stoul(line.at(w + 1)));
          w += 2;
        }
        for (; w < line.size() && (line[w] == "yields" || line[w] == "persistent"); ++w)
          (line[w] == "yields" ? claim.yields : claim.persistent) = true;
        processors.push_back(claim);
      } else {
        throw std::invalid_argument("graph text: '" + word + "'");
      }
    }
    if (latency > 0 || !claims.empty() || !processors.empty())
      builder.set_claims(task, latency, builder.add_claims(claims, processors));
  }
  if (reverse_edges) std::reverse(edges.begin(), edges.end());
  for (const Edge& e : edges) {
    e.start ? builder.add_start_edge(e.from, e.to, e.lag) : builder.add_edge(e.from, e.to);
  }
  return {std::move(builder).build(), std::move(ids), std::move(names)};
}

}  // namespace stepsim::test
