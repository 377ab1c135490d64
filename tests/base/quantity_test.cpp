#include "sim/base/quantity.h"

#include <doctest/doctest.h>

#include "sim/base/units.h"

using namespace stepsim;

// Law: powers of 1000 for k M G T P, of 1024 for Ki Mi Gi Ti; eight bits to a byte (IEC 80000-13).
TEST_CASE("quantities as written") {
  struct Row {
    const char* text;
    Dimension dimension;
    double si;
  };
  for (const Row& row : {Row{"450 GB/s", Dimension::bytes_per_second, 450e9},
                         {"400 Gb/s", Dimension::bytes_per_second, 50e9},
                         {"3.35 TB/s", Dimension::bytes_per_second, 3.35e12},
                         {"80 GiB", Dimension::bytes, 85899345920.0},
                         {"80 GB", Dimension::bytes, 80e9},
                         {"2MiB", Dimension::bytes, 2097152.0},
                         {"989 TFLOP/s", Dimension::flops_per_second, 989e12},
                         {"2 us", Dimension::time, 2e-6},
                         {"1.5 ms", Dimension::time, 1.5e-3},
                         {"200 MHz", Dimension::frequency, 200e6}}) {
    CAPTURE(std::string(row.text));
    const QuantityText parsed = parse_quantity(row.text, row.dimension);
    CHECK(parsed.problem.empty());
    CHECK(parsed.value == doctest::Approx(row.si).epsilon(1e-15));
  }
}

TEST_CASE("what is not a quantity says why") {
  struct Row {
    const char* text;
    Dimension dimension;
    const char* problem;
  };
  for (const Row& row : {Row{"450", Dimension::bytes_per_second, "needs a unit (units: MB/s"},
                         {"", Dimension::time, "must be a number and a unit"},
                         {"fast", Dimension::time, "must be a number and a unit"},
                         {"nan us", Dimension::time, "out of range"},
                         {"inf s", Dimension::time, "out of range"},
                         {"1e999 s", Dimension::time, "out of range"},
                         {"450 Gb", Dimension::bytes_per_second, "unknown unit 'Gb'; did you mean"},
                         {"2 GB/s", Dimension::time, "unknown unit 'GB/s'"},
                         {"80 GIB", Dimension::bytes, "did you mean 'GiB'"}}) {
    CAPTURE(std::string(row.text));
    const QuantityText parsed = parse_quantity(row.text, row.dimension);
    CAPTURE(parsed.problem);
    CHECK(parsed.problem.find(row.problem) != std::string::npos);
  }
}

TEST_CASE("units multiply and divide to what they mean") {
  CHECK((Bytes{1e9} / BytesPerSecond{1e9}).value == 1);
  CHECK((Flops{4} / FlopsPerSecond{2}).value == 2);
  CHECK((1.5_us).value == doctest::Approx(1.5e-6));
  CHECK(Seconds{2} / Seconds{4} == 0.5);
}
