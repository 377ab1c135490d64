// The space that a plan searches: meshes over a number of GPUs, and settings beside them.
//
// Rules, all of Megatron's: TP, PP, CP and EP as its checks allow (a layout that they refuse is
// none); TP inside an NVLink domain; at least 1024 tokens of a sequence on a CP rank; virtual
// stages that divide the layers, else embedding and loss counted as layers, else the most even
// layout.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/study/variation.h"

namespace stepsim {

/// One way of laying a model out. `settings`: an option of each of the space's choices.
struct Layout {
  int gpus = 1, tp = 1, pp = 1, vp = 1, cp = 1, ep = 1, etp = 1, mbs = 1;
  std::vector<int> settings;
  int dp() const { return gpus / (tp * pp * cp); }
  bool operator==(const Layout&) const = default;
};

/// One value of a choice: what it is called, and what it writes. An empty value erases the key.
struct Option {
  std::string label;
  Point point;
};
/// A choice beside the mesh. It is open only where it can matter; elsewhere its first option holds.
struct Choice {
  enum class Open { always, tp, dp, ep };
  std::string name;
  Open open = Open::always;
  std::vector<Option> options;
};

/// Sizes that may be used; empty: all that divide.
struct LayoutSpace {
  std::vector<int> tp, pp, vp, cp, ep, etp, mbs;
  bool tp_across_domains = false;
  std::vector<Choice> choices;
};

/// Everything that is searched unless told otherwise. `resolved`: any layout of the base, for its
/// model and cluster. Keys that `words` set are left alone; sizes among them are the only ones.
LayoutSpace standard_space(const Scenario& resolved, const nlohmann::json& base, bool own_settings,
                           std::span<const std::string> words);
/// Narrows or adds: `axis` of a size gives its values, of another key a choice.
void apply_axis(LayoutSpace& space, const Axis& axis);

std::vector<Layout> layouts(const LayoutSpace& space, const Scenario& resolved, int gpus);
/// The scenario of one layout.
nlohmann::json laid_out(const nlohmann::json& base, const LayoutSpace& space, const Layout& layout,
                        const Model& model);
/// "TP4 PP4 VP5 CP2 DP2 MBS1"; `settings_text`: what is not the first option.
std::string mesh_text(const Layout& layout, bool experts);
std::string settings_text(const LayoutSpace& space, const Layout& layout);

}  // namespace stepsim
