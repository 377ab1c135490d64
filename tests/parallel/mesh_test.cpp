#include "sim/parallel/mesh.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "sim/parallel/bucket.h"
#include "sim/parallel/folding.h"
#include "sim/parallel/stages.h"

using namespace stepsim;

namespace {
Parallelism layout(int tp, int cp, int dp, int pp) {
  return {.tp = tp, .pp = pp, .cp = cp, .dp = dp};
}
/// Domains of `domain` ranks; a group's cost depends on how many of its members share each.
Surroundings inside(int domain) {
  return {.units = {domain}, .key = [domain](std::span<const int> ranks) {
            std::map<int, double> members;
            for (int r : ranks) ++members[r / domain];
            std::vector<double> counts;
            for (const auto& [d, n] : members) counts.push_back(n);
            std::sort(counts.begin(), counts.end());
            return counts;
          }};
}
}  // namespace

TEST_CASE("rank order tp-cp-dp-pp: groups of TP2 CP2 DP2 PP2") {
  const Mesh mesh(layout(2, 2, 2, 2));
  CHECK(mesh.group(GroupKind::tp, 5) == std::vector{4, 5});
  CHECK(mesh.group(GroupKind::cp, 5) == std::vector{5, 7});
  CHECK(mesh.group(GroupKind::dp, 5) == std::vector{1, 5});
  CHECK(mesh.group(GroupKind::dp_cp, 5) == std::vector{1, 3, 5, 7});
  CHECK(mesh.group(GroupKind::pp, 5) == std::vector{5, 13});
  CHECK(mesh.group(GroupKind::embedding, 13) == std::vector{5, 13});
}

// parallel_state.py: an optimizer instance is a run of consecutive members of DP x CP.
TEST_CASE("slices of a data-parallel group and the ranks of one place in all of them") {
  Parallelism p{.tp = 2, .pp = 1, .cp = 2, .dp = 4, .ep = 2, .etp = 1, .experts = true};
  const Mesh whole(p);
  CHECK(whole.group_size(GroupKind::dp_inner) == 1);
  p.optimizer_instances = 2;
  const Mesh mesh(p);
  CHECK(mesh.group(GroupKind::dp_cp, 9) == std::vector{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(mesh.group(GroupKind::dp_inner, 9) == std::vector{9, 11, 13, 15});
  CHECK(mesh.group(GroupKind::dp_outer, 11) == std::vector{3, 11});
  // Expert data parallelism 8: every second rank.
  CHECK(mesh.group(GroupKind::edp_inner, 4) == std::vector{0, 2, 4, 6});
  CHECK(mesh.group(GroupKind::edp_outer, 4) == std::vector{4, 12});
  // The pipeline between CP and DP: ranks tp + 2 (cp + 2 (pp + 2 dp)).
  const Mesh before(
      {.tp = 2, .pp = 2, .cp = 2, .dp = 2, .pp_before_dp = true, .optimizer_instances = 2});
  CHECK(before.group(GroupKind::dp_cp, 0) == std::vector{0, 2, 8, 10});
  CHECK(before.group(GroupKind::dp_inner, 10) == std::vector{8, 10});
  CHECK(before.group(GroupKind::dp_outer, 10) == std::vector{2, 10});
}

TEST_CASE("coordinates and rank are inverse; every group holds its own rank") {
  for (const Parallelism& p : {layout(4, 2, 3, 5), layout(1, 1, 7, 1), layout(8, 1, 1, 2)}) {
    const Mesh mesh(p);
    for (int r = 0; r < mesh.world(); ++r) {
      CHECK(mesh.rank(mesh.coordinates(r)) == r);
      for (GroupKind k :
           {GroupKind::tp, GroupKind::cp, GroupKind::dp, GroupKind::dp_cp, GroupKind::pp}) {
        const std::vector<int> g = mesh.group(k, r);
        CHECK(static_cast<int>(g.size()) == mesh.group_size(k));
        CHECK(std::count(g.begin(), g.end(), r) == 1);
      }
    }
  }
}

TEST_CASE("straddling: TP8 stays in a node of 8, TP16 does not") {
  CHECK(straddling(Mesh(layout(8, 1, 1, 1)), 8).empty());
  const std::vector<Straddling> rows = straddling(Mesh(layout(16, 1, 2, 1)), 8);
  REQUIRE(!rows.empty());
  CHECK(rows[0].kind == GroupKind::tp);
  CHECK(rows[0].groups == 2);
  CHECK(rows[0].domains == 2);
}

TEST_CASE("even split: chunk c of rank p starts at c*(L/VP) + p*(L/(P*VP))") {
  const Parallelism p{.tp = 1, .pp = 4, .vp = 5};
  const std::vector<StageChunk> split = split_layers(p, 80);
  for (int c = 0; c < 5; ++c)
    for (int r = 0; r < 4; ++r) {
      CHECK(split[static_cast<size_t>(c * 4 + r)].first_layer == c * 16 + r * 4);
      CHECK(split[static_cast<size_t>(c * 4 + r)].layer_count == 4);
    }
  CHECK(split.front().embedding);
  CHECK(split.back().head);
}

TEST_CASE("embedding and loss counted as layers: 126 layers over P8 VP8 give the ends one layer") {
  const Parallelism p{
      .tp = 8, .pp = 8, .vp = 8, .account_for_embedding = true, .account_for_loss = true};
  const std::vector<StageChunk> split = split_layers(p, 126);
  CHECK(split[0].layer_count == 1);
  CHECK(split[63].layer_count == 1);
  for (size_t v = 1; v < 63; ++v) CHECK(split[v].layer_count == 2);
  CHECK(split[63].first_layer == 125);
}

TEST_CASE("uneven first and last stages: 6 + 8 + 8 + 4 layers") {
  const Parallelism p{.pp = 4, .first_stage_layers = 6, .last_stage_layers = 4};
  const std::vector<StageChunk> split = split_layers(p, 26);
  CHECK(split[0].layer_count == 6);
  CHECK(split[1].layer_count == 8);
  CHECK(split[2].first_layer == 14);
  CHECK(split[3].layer_count == 4);
}

TEST_CASE("buckets: from the end, closed at bucket_size elements, padded to lcm(dp, 128)") {
  // Registration order a(100) b(60) c(200); reverse: c, b, a. c + b reach 256 + 60 = 316 >= 300 and
  // close.
  const std::vector<Parameter> parameters{{100, 0}, {60, 1}, {200, 2}};
  const std::vector<Bucket> buckets = form_buckets(parameters, 300, 2);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].elements == 384);  // 200 -> aligned start 256, + 60 = 316 -> 3 * 128
  CHECK(buckets[0].first_owner == 1);
  CHECK(buckets[0].last_owner == 2);
  CHECK(buckets[1].elements == 128);
  CHECK(form_buckets(parameters, std::nullopt, 3).size() == 1);
  // 64-aligned starts: 256 + 64 + 100 = 420 -> lcm(3, 128) = 384 -> 768.
  CHECK(form_buckets(parameters, std::nullopt, 3)[0].elements == 768);
}

TEST_CASE("bucket size is checked after adding: one huge parameter may exceed it") {
  const std::vector<Parameter> parameters{{10, 0}, {5000, 1}, {10, 2}};
  const std::vector<Bucket> buckets = form_buckets(parameters, 128, 1);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].elements == 64 + 5000 + 56);  // 10 -> 64, + 5000 = 5064 -> 5120
  CHECK(buckets[1].first_owner == 0);
}

// Megatron-Core distrib_optimizer.py: a shared embedding closes the bucket before it and fills its
// own.
TEST_CASE("a tied embedding gets a bucket of its own") {
  const std::vector<Parameter> parameters{{1024, 0, true}, {128, 1}, {128, 2}};
  const std::vector<Bucket> buckets = form_buckets(parameters, std::nullopt, 2);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].elements == 256);
  CHECK(buckets[1].elements == 1024);
  CHECK(buckets[1].last_owner == 0);
}

// param_and_grad_buffer.py: uint8 and 16-bit parameters live in two buffers; the latter's buckets
// join the last of the former.
TEST_CASE("weights in fp8 are gathered at one byte, everything else at two") {
  const std::vector<Parameter> parameters{{.elements = 512, .owner = 0},
                                          {.elements = 1024, .owner = 1, .bytes = 1},
                                          {.elements = 128, .owner = 1},
                                          {.elements = 2048, .owner = 2, .bytes = 1}};
  const std::vector<Bucket> buckets = form_buckets(parameters, 1500, 2);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].elements == 2048);
  CHECK(buckets[0].parameter_bytes == 2048);
  CHECK(buckets[1].elements == 1024 + 640);
  CHECK(buckets[1].parameter_bytes == 1024 + 2 * 640);
  CHECK(buckets[1].first_owner == 0);
}

TEST_CASE("folding: one device a stage when groups sit alike, weights add up to the world") {
  const Parallelism p = layout(8, 2, 8, 8);
  const Folding f = fold(Mesh(p), p, inside(8), false);
  CHECK(f.regular);
  CHECK(f.ranks == std::vector{0, 128, 256, 384, 512, 640, 768, 896});
  for (int64_t n : f.represents) CHECK(n == 128);
}

TEST_CASE("folding: groups that sit differently are separated, and no finer") {
  // TP4 on domains of 6: ranks 0-3 inside, 4-7 split 2+2, 8-11 inside; period 12 ranks.
  const Parallelism p = layout(4, 1, 6, 1);
  const Folding f = fold(Mesh(p), p, inside(6), false);
  CHECK_FALSE(f.regular);
  int64_t total = 0;
  for (int64_t n : f.represents) total += n;
  CHECK(total == 24);
  CHECK(f.device(0) != f.device(4));
  CHECK(f.ranks.size() < 24);
  // Equitable: members of one class see the same classes in their TP group.
  const Mesh mesh(p);
  for (int r = 0; r < 24; ++r) {
    std::vector<int> mine, representative;
    for (int m : mesh.group(GroupKind::tp, r)) mine.push_back(f.device(m));
    for (int m : mesh.group(GroupKind::tp, f.ranks[static_cast<size_t>(f.device(r))]))
      representative.push_back(f.device(m));
    std::sort(mine.begin(), mine.end());
    std::sort(representative.begin(), representative.end());
    CHECK(mine == representative);
  }
}

// TP2 DP4 PP2, rank 0 marked. Stage 0: 0 | its TP peer 1 | its DP peers 2 4 6 | their TP peers 3 5
// 7; stage 1 the same, by the pipelines they are in.
TEST_CASE("folding: a marked rank parts those that share a group with it, and no more") {
  const Parallelism p = layout(2, 1, 4, 2);
  Surroundings s = inside(8);
  s.marks.assign(16, 0);
  s.marks[0] = 1;
  const Folding f = fold(Mesh(p), p, s, false);
  CHECK(f.ranks == std::vector{0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(f.represents == std::vector<int64_t>{1, 1, 3, 3, 1, 1, 3, 3});
  for (int rank : {4, 6}) CHECK(f.device(rank) == f.device(2));
  for (int rank : {13, 15}) CHECK(f.device(rank) == f.device(11));
  // Without anything of hardware (given costs) the pipelines still differ.
  const Folding given = fold(Mesh(layout(1, 1, 4, 2)), layout(1, 1, 4, 2),
                             {.marks = {0, 0, 0, 0, 0, 1, 0, 0}}, false);
  CHECK(given.ranks == std::vector{0, 1, 4, 5});
}

TEST_CASE("unfolded: every rank is a device") {
  const Parallelism p = layout(2, 1, 2, 2);
  const Folding f = fold(Mesh(p), p, inside(8), true);
  CHECK(f.ranks.size() == 8);
  CHECK(f.device(5) == 5);
}
