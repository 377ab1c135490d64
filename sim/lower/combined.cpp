// One microbatch's forward of a layer merged with another's backward: the combined 1F1B
// (Megatron-Core pipeline_parallel/combined_1f1b.py, models/common/model_chunk_schedule_plan.py),
// and backward in two parts.
#include "sim/lower/elementwise.h"
#include "sim/lower/linear.h"

namespace stepsim {

Template LayerTemplates::layer_pair(LayerKind f, bool cast_weights, LayerKind b) const {
  TemplateWriter w(Pass::forward);
  const ExpertBlock sent = experts(f), returned = experts(b);
  const RecomputeModules& modules = s_.recompute_modules;
  const auto forward = [&] {
    w.set_other(false);
    w.set_pass(Pass::forward);
  };
  const auto backward = [&] {
    w.set_other(true);
    w.set_pass(Pass::backward);
  };
  const auto node = [&](const auto& pass) {
    pass();
    w.schedule_node();
  };
  const auto wait = [&](int32_t op) {
    if (op != TemplateOp::none) w.wait(op);
  };
  // With delay_wgrad_compute the weight gradients follow what others wait for.
  w.defer_weights(s_.moe_runtime.delay_wgrad);
  w.freeze(s_.adapters.present());

  int32_t combined = TemplateOp::none;
  if (b.moe()) {
    node(backward);
    w.capture(s_.graph_moe);
    dropout_backward(w);
    returned.finish_backward(w);
    combined = returned.combine(w, DispatchPass::combine_backward);
  }
  node(forward);
  cast_weights_into(w, f, cast_weights);
  mixer_block_forward(w, f);
  if (f.moe()) route_forward(w, f);
  const int32_t routed = w.last_compute();

  node(backward);
  if (b.moe()) {
    wait(combined);
    w.capture(s_.graph_moe);
    returned.backward(w, modules.moe_act);
  } else {
    mlp_block_backward(w, b, modules);
  }
  const int32_t worked = w.last_compute();
  f.moe() ? node(forward) : forward();
  const int32_t arrived =
      f.moe() ? sent.dispatch_after(routed, w, DispatchPass::dispatch) : TemplateOp::none;
  backward();
  w.flush_weights();
  if (b.moe()) w.schedule_node();
  const int32_t dispatched =
      b.moe() ? returned.dispatch_after(worked, w, DispatchPass::dispatch_backward)
              : TemplateOp::none;

  node(forward);
  int32_t back = TemplateOp::none;
  if (f.moe()) {
    wait(arrived);
    sent.forward(w);
    w.schedule_node();
    back = sent.combine(w, DispatchPass::combine);
  } else {
    mlp_block_forward(w, f);
  }

  node(backward);
  wait(dispatched);
  if (b.moe()) route_backward(w, b, modules);
  mixer_block_backward(w, b, modules);
  w.flush_weights();
  if (f.moe()) {
    forward();
    wait(back);
    sent.finish(w);
    residual_forward(w);
  }
  return finished(std::move(w));
}

Template LayerTemplates::layer_backward_input(LayerKind kind, bool again) const {
  TemplateWriter w(Pass::recompute);
  w.defer_weights(true);
  layer_backward_into(w, kind, again);
  w.take_deferred();
  return finished(std::move(w));
}

Template LayerTemplates::layer_backward_weight(LayerKind kind, bool again) const {
  TemplateWriter whole(Pass::recompute), w(Pass::backward_weight);
  whole.defer_weights(true);
  layer_backward_into(whole, kind, again);
  w.put_deferred(whole.take_deferred());
  w.flush_weights();
  return finished(std::move(w));
}

}  // namespace stepsim
