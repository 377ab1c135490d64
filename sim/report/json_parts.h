// Parts that the JSON of a run and of a check share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/report.h"

namespace stepsim {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value);
Json or_null(const std::optional<int>& value);
/// JSON text of ours; text that is none is kept as a string.
Json parsed_json(const std::string& text);
/// null without injected faults.
Json faults_json(const Report& report);
Json memory_json(const std::optional<MemoryReport>& memory);
/// Step times over samples of routing; null where there is one.
Json distribution_json(const Report& report);
Json findings_json(const std::vector<Finding>& findings);
Json effective_json(const Scenario& scenario);
struct ExposedTable;
/// By class; see sim/report/exposed.h.
Json exposed_json(const ExposedTable& table);
Json mesh_json(const Scenario& scenario, const std::vector<Straddling>& straddling);
Json buckets_json(const std::vector<BucketRow>& buckets);

}  // namespace stepsim
