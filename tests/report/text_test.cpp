#include "sim/report/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "sim/report/page.h"
#include "tests/report/sample.h"

using namespace stepsim;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t widest(const std::string& text) {
  size_t width = 0;
  for (const std::string& line : lines_of(text)) width = std::max(width, line.size());
  return width;
}

std::string sample_report(const Scenario& s) {
  const RanStep ran = sample_step();
  return report_text(s, make_report(s, ran.step, ran.timeline));
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the report names its subject and its figures with units") {
  Scenario s = sample_scenario();
  s.measured_step_seconds = 4.0;
  const std::string text = sample_report(s);
  for (const char* part :
       {"toy-7b on 8 GPUs: TP2 PP2 CP1 DP2 SP, 1f1b, 4 microbatches",
        "GBS 8, MBS 1, sequence 4096, bf16_mixed", "Toy 80GB", "measured 4.000 s, error",
        "tokens/s/GPU", "model TFLOP/s/GPU", "100.0 TFLOP/s, the dense bf16 peak",
        "fits: 70.0 GiB peak on rank 4 + 4.0 GiB reserve of 80.0 GiB", "pipeline bubble",
        "exposed pp communication", "Critical path", "optimizer 20.0 GiB", "true -> false",
        "Not modelled   checkpoint.save"}) {
    INFO(part);
    CHECK(has(text, part));
  }
}

TEST_CASE("a measured time is not compared with other settings") {
  Scenario s = sample_scenario();
  s.measured_step_seconds = 4.0;
  s.overridden = true;
  const std::string text = sample_report(s);
  CHECK(has(text, "the file's measured time 4.000 s is for its own settings"));
  CHECK_FALSE(has(text, "error"));
}

TEST_CASE("one screen of 100 columns, whatever the input") {
  Scenario s = sample_scenario();
  CHECK(widest(sample_report(s)) <= 100);
  CHECK(lines_of(sample_report(s)).size() <= 45);
  s.model.name = std::string(300, 'x');
  s.cluster.device.name = std::string(90, 'y');
  for (int i = 0; i < 40; ++i) {
    s.not_modelled.push_back("section.some_rather_long_key_number_" + std::to_string(i));
    s.findings.push_back(s.findings.front());
    s.findings.back().reason = std::string(200, 'z');
  }
  CHECK(widest(sample_report(s)) <= 100);
  CHECK(lines_of(sample_report(s)).size() <= 45);
}

TEST_CASE("many stages are cut to a few rows") {
  const RanStep ran = one_f_one_b_step(32, 4, 1, 2, 0);
  Scenario s = sample_scenario();
  s.parallel.pp = 32;
  const std::string text = report_text(s, make_report(s, ran.step, ran.timeline));
  CHECK(lines_of(text).size() <= 45);
  CHECK(has(text, "8 of 32 simulated devices"));
}

TEST_CASE("what does not fit comes first") {
  Scenario s = sample_scenario();
  s.cluster.device.memory_capacity = {40 * sample_gib};
  const std::string text = sample_report(s);
  const size_t bad = text.find("DOES NOT FIT"), step = text.find("Step time");
  REQUIRE(bad != std::string::npos);
  CHECK(bad < step);
  CHECK(has(text, "34.0 GiB more than the 40.0 GiB"));
  CHECK(has(text, "shrinks"));
  CHECK_FALSE(has(text.substr(0, step), "..."));
  // Nothing of it is cut, however wide its figures.
  RanStep ran = sample_step();
  for (DeviceMemory& m : ran.step.memory) m.activations = 1e6 * sample_gib;
  const std::string wide = report_text(s, make_report(s, ran.step, ran.timeline));
  const std::string head = wide.substr(0, wide.find("Step time"));
  CHECK(has(head, "DOES NOT FIT"));
  CHECK(has(head, "device\n"));
  CHECK_FALSE(has(head, "..."));
  CHECK(widest(wide) <= 100);
}

TEST_CASE("given costs have no model figures") {
  Scenario s = sample_scenario();
  s.costs = GivenCosts{};
  const std::string text = sample_report(s);
  for (const char* part : {"MFU", "GiB", "tokens/s", "Groups"}) CHECK_FALSE(has(text, part));
  CHECK(has(text, "given costs"));
}

TEST_CASE("a page clips, wraps and shows nothing that a terminal would act on") {
  Page page(20);
  page.line("{}", std::string(25, 'a'));
  page.line("esc\x1b[31m");
  page.list("Keys ", {"one", "two", "three", "four", "five", "six"}, 2);
  page.paragraph("Why ", "it would not fit on a single line", 2);
  CHECK(page.text() ==
        "aaaaaaaaaaaaaaaaa...\nesc?[31m\nKeys one, two,\n     and 4 more\n"
        "Why it would not fit\n    on a single line\n");
}
