// Core attention of one layer on one rank, with what its context-parallel ranks exchange.
#pragma once

#include <initializer_list>

#include "sim/config/scenario.h"
#include "sim/cost/kernel.h"
#include "sim/cost/layer_sizes.h"
#include "sim/lower/layer_groups.h"
#include "sim/lower/template_writer.h"

namespace stepsim {

/// Writes core attention's operations. Keeps references: what it is made of must outlive it.
class CoreAttention {
 public:
  /// `window`: it sees the last tokens only. `fp8`: its layer is quantised.
  CoreAttention(const Scenario& scenario, const LayerGroups& groups, const KernelModel& kernels,
                const LayerSizes& sizes, ContextKind kind, bool window, bool fp8);
  void forward(TemplateWriter& w) const;
  void backward(TemplateWriter& w) const;

 private:
  /// Heads of one TP rank, and features of each.
  struct Heads {
    double queries = 0, keys = 0;
    double key_dim = 0, value_dim = 0;
    double q() const { return queries * key_dim; }
    double k() const { return keys * key_dim; }
    double v() const { return keys * value_dim; }
    double out() const { return queries * value_dim; }
  };
  /// Ranks that share in one way.
  struct Part {
    int ranks = 1;
    GroupPlacement group{};
    Meeting meeting = Meeting::cp;
  };
  Attention share() const;
  void ring_forward(TemplateWriter& w, const Kernel& whole) const;
  void ring_backward(TemplateWriter& w, const Kernel& whole) const;
  void gathered(TemplateWriter& w, const Kernel& whole, bool backward) const;
  void exchange_heads(TemplateWriter& w, std::initializer_list<double> features) const;
  void cast(TemplateWriter& w, double features) const;

  const Scenario& s_;
  const LayerGroups& groups_;
  const KernelModel& kernels_;
  const LayerSizes& z_;
  ContextKind kind_;
  bool window_, fp8_;
  Heads h_;
  Part exchange_, ring_;  ///< heads against tokens; keys and values passed round
};

}  // namespace stepsim
