#include "sim/config/layout.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

constexpr size_t most_letters = 1 << 16;  // more than any model has layers

/// Expands repeats into plain letters and separators.
class Expansion {
 public:
  explicit Expansion(std::string_view text) : text_(text) {}

  std::string run() {
    std::string letters = sequence(0);
    if (problem_.empty() && at_ < text_.size()) fail("a ')' without its '('");
    return letters;
  }
  const std::string& problem() const { return problem_; }

 private:
  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = what + " at character " + std::to_string(at_ + 1);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// Up to the end or a closing parenthesis.
  std::string sequence(int depth) {
    std::string letters;
    while (problem_.empty() && at_ < text_.size() && peek() != ')') {
      if (peek() == ',' || peek() == ' ') {
        ++at_;
        continue;
      }
      const std::string piece = repeated(element(depth));
      if (letters.size() + piece.size() > most_letters)
        fail("more than " + std::to_string(most_letters) + " letters");
      else
        letters += piece;
    }
    return letters;
  }

  std::string element(int depth) {
    constexpr int deepest = 8;
    if (peek() == '(') {
      if (depth == deepest) return fail("parentheses too deep"), "";
      ++at_;
      std::string inside = sequence(depth + 1);
      if (peek() != ')') return fail("a '(' without its ')'"), "";
      ++at_;
      return inside;
    }
    if (std::string_view("EtmL|").find(peek()) == std::string_view::npos)
      return fail(std::string("unknown letter '") + peek() + "' (valid: E t m L |)"), "";
    return std::string(1, text_[at_++]);
  }

  std::string repeated(const std::string& piece) {
    if (peek() != '*' || !problem_.empty()) return piece;
    ++at_;
    size_t times = 0;
    const size_t start = at_;
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0 && times <= most_letters)
      times = times * 10 + static_cast<size_t>(text_[at_++] - '0');
    if (at_ == start) return fail("a '*' without a number"), "";
    if (times * piece.size() > most_letters)
      return fail("more than " + std::to_string(most_letters) + " letters"), "";
    std::string all;
    for (size_t i = 0; i < times; ++i) all += piece;
    return all;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string problem_;
};

void put(LayoutStage& stage, char letter) {
  switch (letter) {
    case 'E':
      stage.embedding = true;
      break;
    case 'L':
      stage.loss = true;
      break;
    case 'm':
      ++stage.mtp;
      break;
    default:
      ++stage.layers;
  }
}

}  // namespace

PipelineLayout parse_layout(std::string_view text) {
  PipelineLayout layout;
  Expansion expansion(text);
  const std::string letters = expansion.run();
  layout.problem = expansion.problem();
  if (!layout.problem.empty()) return layout;
  layout.stages.emplace_back();
  for (const char letter : letters) {
    if (letter == '|')
      layout.stages.emplace_back();
    else
      put(layout.stages.back(), letter);
  }
  // A separator at the very end closes the last stage and opens none.
  if (letters.ends_with('|')) layout.stages.pop_back();
  return layout;
}

PipelineLayout read_layout(const std::vector<std::vector<std::string>>& stages) {
  PipelineLayout layout;
  for (const std::vector<std::string>& names : stages) {
    LayoutStage stage;
    for (const std::string& name : names) {
      if (name == "embedding" || name == "E")
        put(stage, 'E');
      else if (name == "decoder" || name == "t")
        put(stage, 't');
      else if (name == "mtp" || name == "m")
        put(stage, 'm');
      else if (name == "loss" || name == "L")
        put(stage, 'L');
      else
        layout.problem = "unknown kind of layer (valid: embedding, decoder, mtp, loss)";
    }
    layout.stages.push_back(stage);
  }
  return layout;
}

std::string layout_problem(const std::vector<LayoutStage>& stages, int layers, int mtp_layers,
                           int pp) {
  const auto count = static_cast<int>(stages.size());
  if (count == 0 || count % pp != 0)
    return "must have a multiple of PP " + std::to_string(pp) + " stages; it has " +
           std::to_string(count);
  int found = 0, predicted = 0, predicting = -1;
  for (int i = 0; i < count; ++i) {
    const LayoutStage& s = stages[static_cast<size_t>(i)];
    if (s.embedding != (i == 0)) return "the first stage, and no other, must hold the embedding E";
    if (s.loss != (i + 1 == count)) return "the last stage, and no other, must hold the loss L";
    found += s.layers;
    predicted += s.mtp;
    if (s.mtp == 0) continue;
    if (predicting >= 0) return "all prediction modules m must be in one stage";
    predicting = i;
  }
  if (found != layers)
    return "must hold the model's " + std::to_string(layers) + " decoder layers t; it holds " +
           std::to_string(found);
  if (predicted != mtp_layers)
    return "must hold the model's " + std::to_string(mtp_layers) +
           " prediction modules m; it holds " + std::to_string(predicted);
  if (predicting >= 0 && (predicting < count - pp || (pp > 1 && predicting % pp == 0)))
    return "prediction modules m must be in the last row of stages and not on pipeline rank 0";
  return "";
}

void resolve_layout(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const std::string key = "pipeline_model_parallel_layout";
  const nlohmann::json* value = model.find(key);
  if (value == nullptr) return;
  PipelineLayout layout;
  if (value->is_string()) {
    layout = parse_layout(value->get<std::string>());
  } else {
    std::vector<std::vector<std::string>> names;
    const std::string expected = "must be a text like \"Et|t|tL\" or a list of lists of names";
    if (!value->is_array()) model.fail(key, expected);
    for (const nlohmann::json& stage : *value) {
      if (!stage.is_array()) model.fail(key, expected);
      names.emplace_back();
      for (const nlohmann::json& name : stage) {
        if (!name.is_string()) model.fail(key, expected);
        names.back().push_back(name.get<std::string>());
      }
    }
    layout = read_layout(names);
  }
  if (!layout.problem.empty())
    return refuse(sections, scenario, model, key, "layout-unreadable", layout.problem);
  Parallelism& p = scenario.parallel;
  const auto stages = static_cast<int>(layout.stages.size());
  if (stages == 0 || stages % p.pp != 0 || stages / p.pp > 255)
    return refuse(sections, scenario, model, key, "layout-stages",
                  "must have a multiple of PP " + std::to_string(p.pp) +
                      " stages (at most 255 a "
                      "rank); it has " +
                      std::to_string(stages));
  const int vp = stages / p.pp;
  if (p.vp && *p.vp != vp)
    refuse(sections, scenario, model, key, "layout-against-vp",
           "has " + std::to_string(stages) + " stages, VP = " + std::to_string(vp) + " at PP " +
               std::to_string(p.pp) + "; virtual_pipeline_model_parallel_size says " +
               std::to_string(*p.vp));
  if (!p.vp && vp > 1) p.vp_from_layout = true;
  if (p.vp || vp > 1) p.vp = vp;
  p.layout = std::move(layout.stages);
}

}  // namespace stepsim
