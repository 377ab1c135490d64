// Documents compared key by key, and mixtures of two.
#include "sim/study/changes.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace stepsim;
using nlohmann::json;

namespace {

Scenario written(const json& document, const std::string& file = "x.json") {
  Scenario s;
  s.file = file;
  s.resolved_json = document.dump();
  return s;
}

std::string text(const std::vector<KeyChange>& changes) {
  std::string lines;
  for (const KeyChange& c : changes) lines += c.key + " " + c.from + " -> " + c.to + "\n";
  return lines;
}

const json a{{"model", {{"tp", 8}, {"sp", true}, {"modules", {"core_attn"}}}},
             {"comm_overlap", {{"tp_comm_overlap", true}}},
             {"name", "a"}};
const json b{{"model", {{"tp", 4}, {"vp", nullptr}, {"modules", {"core_attn", "mlp"}}}},
             {"train", {{"mbs", 2}}},
             {"name", "b"}};

}  // namespace

TEST_CASE("keys that differ: null is not written, lists are one value, words do not count") {
  // comm_overlap is there or not: that alone turns Bridge's defaults on.
  CHECK(text(DocumentPair(written(a), written(b)).changes()) ==
        "comm_overlap {} -> \n"
        "comm_overlap.tp_comm_overlap true -> \n"
        "model.modules [\"core_attn\"] -> [\"core_attn\",\"mlp\"]\n"
        "model.sp true -> \n"
        "model.tp 8 -> 4\n"
        "train.mbs  -> 2\n");
  CHECK(DocumentPair(written(a), written(a)).changes().empty());
}

TEST_CASE("a mixture made from either end is the same; all and nothing are the ends") {
  const DocumentPair there(written(a), written(b)), back(written(b), written(a));
  const size_t n = there.changes().size();
  REQUIRE(n == 6);
  for (size_t set = 0; set < size_t{1} << n; ++set) {
    Subset made(n), others(n);
    for (size_t i = 0; i < n; ++i) {
      made[i] = (set >> i & 1) != 0;
      others[i] = !made[i];
    }
    CHECK(there.mixture(made) == back.mixture(others));
  }
  json left = a;
  left.erase("name");
  CHECK(json::parse(there.mixture(Subset(n, false))) == left);
  json right = b;
  right.erase("name");
  right["model"].erase("vp");
  CHECK(json::parse(there.mixture(Subset(n, true))) == right);
}

TEST_CASE("a section in place of a word") {
  const DocumentPair pair(written({{"cluster", {{"system", "dgx-h100"}}}}),
                          written({{"cluster", {{"system", {{"gpus", 8}}}}}}));
  CHECK(text(pair.changes()) == "cluster.system \"dgx-h100\" -> {\"gpus\":8}\n");
  CHECK(json::parse(pair.mixture({true}))["cluster"]["system"]["gpus"] == 8);
}

TEST_CASE("one key of a document is set") {
  CHECK(json::parse(with_value(R"({"model":{"tp":8}})", "comm_overlap.x", "false")) ==
        json{{"model", {{"tp", 8}}}, {"comm_overlap", {{"x", false}}}});
}
