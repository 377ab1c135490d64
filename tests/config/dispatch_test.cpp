// The section `dispatch` of a GPU.
#include "sim/config/dispatch.h"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"

using namespace stepsim;

TEST_CASE("dispatcher rows lie in the order of their enumeration") {
  for (size_t i = 0; i < dispatcher_rows.size(); ++i)
    CHECK(static_cast<size_t>(dispatcher_rows[i].dispatcher) == i);
  CHECK(row_of(Dispatcher::deepep).sms == 20);  // Megatron-Core: moe_deepep_num_sms
  CHECK(!has_own_kernel(Dispatcher::alltoall));
}

TEST_CASE("dispatch rates: what a GPU says, and typical figures for the rest") {
  const auto read = [](const std::string& text) {
    const Document document = parse_document(text, "gpu.json");
    return read_dispatch(Reader(document, "/dispatch"));
  };
  const auto rates =
      read(R"({"dispatch": {"deepep": {"nvlink_efficiency": 0.5, "peer": "3 us"}}})");
  const DispatchRates& deepep = rates[static_cast<size_t>(Dispatcher::deepep)];
  CHECK(deepep.nvlink_efficiency == 0.5);
  CHECK(deepep.peer.value == doctest::Approx(3e-6));
  CHECK(deepep.sm_rate == typical_rates(Dispatcher::deepep).sm_rate);
  CHECK(read("{}")[static_cast<size_t>(Dispatcher::hybridep)].sm_rate ==
        typical_rates(Dispatcher::hybridep).sm_rate);
  CHECK_THROWS_WITH_AS(read(R"({"dispatch": {"deepp": {}}})"),
                       doctest::Contains("gpu.json#/dispatch/deepp: "), Error);
  CHECK_THROWS_WITH_AS(read(R"({"dispatch": {"deepep": {"peers": "1 us"}}})"),
                       doctest::Contains("gpu.json#/dispatch/deepep/peers: "), Error);
  CHECK_THROWS_WITH_AS(read(R"({"dispatch": {"deepep": {"sm_rate": 3}}})"),
                       doctest::Contains("gpu.json#/dispatch/deepep/sm_rate: "), Error);
}
