// `stepsim sweep`: one scenario at many points.
#include "sim/study/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/app/output.h"
#include "sim/app/progress.h"
#include "sim/app/search_flags.h"
#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/files.h"

namespace stepsim::app {

namespace {

std::vector<Axis> sweep_axes(const SweepOptions& options) {
  std::vector<Axis> axes, together;
  for (const std::string& text : options.vary) axes.push_back(parse_axis(text, "--vary"));
  for (const std::string& text : options.zip) together.push_back(parse_axis(text, "--zip"));
  if (!together.empty()) axes.push_back(zipped(together));
  if (!options.from.empty()) axes.push_back(read_axis(options.from));
  if (axes.empty())
    throw Error(std::string(command_line_name), "/--vary",
                "is required: KEY=VALUES such as model.tensor_model_parallel_size=1,2,4,8, or "
                "--zip, or --from FILE");
  return axes;
}

void check_sweep_outputs(const SweepOptions& options) {
  std::vector<std::string> files;
  for (const std::string* file : {&options.input.json_file, &options.csv_file, &options.svg_file,
                                  &options.input.html_file, &options.resume_file})
    if (!file->empty()) files.push_back(*file);
  for (const std::string* file : {&options.from, &options.input.scenario})
    if (!file->empty() && (file == &options.from || options.input.recipe.empty()))
      files.push_back(*file);
  for (size_t i = 0; i < files.size(); ++i)
    for (size_t k = i + 1; k < files.size(); ++k)
      if (same_file(files[i], files[k]))
        throw Error(std::string(command_line_name), "",
                    "two flags name the same file: '" + printable(files[i]) + "'");
}

/// What was done before, and the file to which each finished point is added at once: an interrupt
/// of any kind loses nothing.
class SweepJournal {
 public:
  SweepJournal(const std::string& path, const Experiment& experiment) : path_(path) {
    if (path.empty()) return;
    if (std::filesystem::exists(path)) known_ = read_journal(read_text(path), path, experiment);
    file_.open(path, std::ios::binary | std::ios::trunc);
    file_ << journal_header(experiment);
    for (const auto& [point, outcome] : known_) file_ << journal_line(point, outcome);
    check();
  }
  const std::map<std::string, Outcome>& known() const { return known_; }
  void add(const SweepRow& row) {
    if (path_.empty() || known_.contains(point_text(row.point))) return;
    file_ << journal_line(point_text(row.point), row.outcome);
    file_.flush();
  }
  void check() {
    if (path_.empty()) return;
    file_.flush();
    if (!file_) throw Error(path_, "", "cannot be written");
  }

 private:
  std::string path_;
  std::ofstream file_;
  std::map<std::string, Outcome> known_;
};

}  // namespace

int sweep(const SweepOptions& options, Processes& processes) {
  const RunOptions& input = options.input;
  if (input.recipe.empty() && input.scenario.empty())
    throw Error(std::string(command_line_name), "/scenario",
                "scenario is required: a file, or --recipe NAME");
  check_sweep_outputs(options);
  Experiment experiment{.file = input.scenario,
                        .words = input.overrides,
                        .cluster = input.cluster,
                        .data = find_data()};
  if (!input.recipe.empty()) {
    if (!input.scenario.empty()) experiment.words.insert(experiment.words.begin(), input.scenario);
    experiment.file = find_recipe(input.recipe, experiment.data).string();
  }
  if (!input.dialect.empty()) experiment.words.push_back("_dialect=" + input.dialect);
  std::vector<Axis> axes = sweep_axes(options);
  const size_t count = product(axes).size();
  SweepJournal journal(options.resume_file, experiment);
  Output json(input.json_file), csv(options.csv_file), svg(options.svg_file),
      html(options.input.html_file);
  Interrupt interrupt;
  ProgressLine progress("points", count);
  const Sweep result = stepsim::sweep(experiment, std::move(axes),
                                      {.crew = processes.crew(options.threads, experiment.data),
                                       .stop = [] { return Interrupt::asked(); },
                                       .done =
                                           [&](const SweepRow& row) {
                                             journal.add(row);
                                             progress.advance();
                                           },
                                       .known = journal.known()});
  progress.clear();
  journal.check();
  const auto put = [](Output& output, const auto& text) {
    if (!output.asked()) return;
    output.stream() << text();
    output.close();
  };
  put(json, [&] { return sweep_json(result); });
  put(csv, [&] { return sweep_csv(result); });
  put(svg, [&] { return sweep_svg(result); });
  put(html, [&] { return sweep_html(result); });
  if (!json.standard() && !csv.standard() && !svg.standard() && !html.standard())
    write_all("-", sweep_text(result));
  if (!result.complete()) return interrupted;
  return result.best == Sweep::none ? 1 : 0;
}

}  // namespace stepsim::app
