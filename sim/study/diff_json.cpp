#include <nlohmann/json.hpp>

#include "sim/report/json.h"
#include "sim/report/json_parts.h"
#include "sim/study/diff_text.h"

namespace stepsim {
namespace {

/// A value as written; null where it is not.
Json written_value(const std::string& text) { return text.empty() ? Json() : parsed_json(text); }

Json effective_changes_json(const std::vector<EffectiveChange>& changes) {
  Json out = Json::array();
  for (const EffectiveChange& c : changes)
    out.push_back({{"key", c.key}, {"from", written_value(c.from)}, {"to", written_value(c.to)}});
  return out;
}

Json changes_json(const Diff& d, const std::vector<size_t>& changes) {
  Json out = Json::array();
  for (const size_t c : changes)
    out.push_back({{"key", d.requested[c].key},
                   {"from", written_value(d.requested[c].from)},
                   {"to", written_value(d.requested[c].to)}});
  return out;
}

/// The first key speaks for changes that only work together; `keys` has all.
Json share_json(const Diff& d, const ChangeShare& share) {
  const KeyChange& first = d.requested[share.changes.front()];
  return {
      {"key", first.key},
      {"from", written_value(first.from)},
      {"to", written_value(first.to)},
      {"delta_seconds", share.delta_seconds},
      {"standard_error_seconds", d.attribution.errors.empty() ? Json() : Json(share.error_seconds)},
      {"keys", changes_json(d, share.changes)},
      {"effective", effective_changes_json(share.effective)}};
}

Json flat(const std::vector<CauseRow>& rows) {
  Json out = Json::object();
  for (const CauseRow& row : rows) out[row.name] = row.delta();
  return out;
}

Json kernel_json(const Diff& d, const char* cause) {
  for (const CauseRow& row : d.by_cause)
    if (row.name == cause) return flat(row.parts);
  return Json::object();
}

}  // namespace

std::string diff_json(const Diff& d) {
  Json out;
  out["schema"] = "stepsim.diff/1";
  out["version"] = STEPSIM_VERSION;
  out["delta_seconds"] = d.delta_seconds;
  out["relative"] = d.relative();
  out["by_change"] = Json::array();
  for (const ChangeShare& share : d.by_change) out["by_change"].push_back(share_json(d, share));
  out["by_cause"] = flat(d.by_cause);
  out["by_kernel"] = {{"compute", kernel_json(d, "compute")},
                      {"optimizer", kernel_json(d, "optimizer")}};
  out["critical_path"] = flat(d.critical_path);
  out["interactions"] = Json::array();
  for (const PairShare& p : d.pairs)
    out["interactions"].push_back({{"keys",
                                    {d.requested[d.by_change[p.first].changes.front()].key,
                                     d.requested[d.by_change[p.second].changes.front()].key}},
                                   {"seconds", p.seconds}});
  const Attribution& a = d.attribution;
  out["method"] = {{"exact", a.errors.empty()},
                   {"combinations", a.combinations},
                   {"steps", a.simulated},
                   {"orders", a.orders},
                   {"shortened", a.shortened},
                   {"deviation_seconds", a.shortened ? Json(a.deviation_seconds) : Json()}};
  out["gates"] = Json::array();
  for (const GateChange& g : d.gates)
    out["gates"].push_back(
        {{"key", g.finding.key},
         {"in_effect", !g.lost},
         {"requested", g.finding.requested},
         {"effective", g.finding.effective},
         {"because_of",
          g.share ? Json(d.requested[d.by_change[*g.share].changes.front()].key) : Json()},
         {"delta_seconds", or_null(g.delta_seconds)},
         {"reason", g.finding.reason}});
  out["requested"] = Json::array();
  for (size_t c = 0; c < d.requested.size(); ++c)
    out["requested"].push_back(changes_json(d, {c}).front());
  out["undone"] = Json::array();
  for (const UndoneChange& u : d.undone)
    out["undone"].push_back({{"key", d.requested[u.change].key}, {"reason", u.reason}});
  out["effective"] = effective_changes_json(d.effective);
  out["memory"] = {{"a", memory_json(d.a.report.memory)}, {"b", memory_json(d.b.report.memory)}};
  out["a"] = Json::parse(report_json(d.a.scenario, d.a.report));
  out["b"] = Json::parse(report_json(d.b.scenario, d.b.report));
  return out.dump(2) + "\n";
}

}  // namespace stepsim
