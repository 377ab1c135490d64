#include "sim/config/bridge_keys.h"

#include <algorithm>
#include <array>

#include "sim/base/table.h"

namespace stepsim {
namespace {

// Field names of Megatron-Bridge's ConfigContainer and of Megatron-Core's TransformerConfig,
// ModelParallelConfig, DistributedDataParallelConfig and OptimizerConfig (Megatron-Bridge v0.6),
// and this program's own sections.
constexpr std::array<SectionRow, 15> section_rows{{
    {"", true,
     "base name description source measured notes unknown cluster model ddp comm_overlap "
     "mixed_precision dataset train "
     "optimizer env_vars software pipeline costs peft "
     "checkpoint dist ft inprocess_restart logger nvrx_straggler "
     "optimizer_config_override_provider profiling "
     "rerun_state_machine rng scheduler straggler tensor_inspect tokenizer validation"},
    {"cluster", true, "system nodes gpus"},
    {"software", true, "release nccl transformer_engine cudnn"},
    {"pipeline", true, "schedule optimizer_post_validation vocabulary_parallel"},
    {"costs", true,
     "forward_seconds backward_seconds backward_input_seconds backward_weight_seconds p2p_seconds"},
    {"model", false,
     "hf_config num_layers hidden_size ffn_hidden_size num_attention_heads num_query_groups "
     "kv_channels vocab_size "
     "seq_length share_embeddings_and_output_weights add_bias_linear add_qkv_bias "
     "gated_linear_unit mlp_gated no_bias "
     "activation_func normalization position_embedding_type make_vocab_size_divisible_by "
     "should_pad_vocab "
     "hidden_dropout attention_dropout qk_layernorm max_position_embeddings "
     "tensor_model_parallel_size pipeline_model_parallel_size virtual_pipeline_model_parallel_size "
     "context_parallel_size expert_model_parallel_size expert_tensor_parallel_size "
     "sequence_parallel "
     "microbatch_group_size_per_vp_stage account_for_embedding_in_pipeline_split "
     "account_for_loss_in_pipeline_split "
     "num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage "
     "pipeline_model_parallel_layout "
     "recompute_granularity recompute_method recompute_num_layers recompute_modules "
     "distribute_saved_activations "
     "cuda_graph_impl cuda_graph_scope cuda_graph_modules enable_cuda_graph external_cuda_graph "
     "use_cuda_graph "
     "cuda_graph_warmup_steps cuda_graph_use_single_mempool cuda_graph_retain_backward_graph "
     "cross_entropy_fusion_impl cross_entropy_loss_fusion apply_rope_fusion "
     "gradient_accumulation_fusion "
     "tp_comm_overlap tp_comm_overlap_cfg tp_comm_bulk_wgrad tp_comm_bulk_dgrad tp_comm_overlap_ag "
     "tp_comm_overlap_rs "
     "tp_comm_overlap_rs_dgrad tp_comm_overlap_disable_qkv tp_comm_overlap_disable_fc1 "
     "tp_comm_split_ag "
     "tp_comm_atomic_ag tp_comm_split_rs tp_comm_atomic_rs tp_comm_bootstrap_backend "
     "overlap_p2p_comm batch_p2p_comm "
     "batch_p2p_sync use_ring_exchange_p2p overlap_p2p_comm_warmup_flush "
     "deallocate_pipeline_outputs "
     "defer_embedding_wgrad_compute wgrad_deferral_limit overlap_moe_expert_parallel_comm "
     "delay_wgrad_compute "
     "cp_comm_type hierarchical_context_parallel_sizes cpu_offloading cpu_offloading_num_layers "
     "cpu_offloading_activations cpu_offloading_weights cpu_offloading_double_buffering "
     "fine_grained_activation_offloading offload_modules min_offloaded_tensor_size mtp_num_layers "
     "mtp_loss_scaling_factor num_moe_experts multi_latent_attention attention_backend fp8 "
     "fp8_recipe fp8_margin "
     "fp8_param fp8_interval fp8_amax_history_len fp8_amax_compute_algo fp8_wgrad "
     "fp8_dot_product_attention "
     "fp8_multi_head_attention fp8_output_proj fp4 fp4_recipe fp4_param tp_only_amax_red "
     "first_last_layers_bf16 "
     "num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 keep_fp8_weight_transpose_cache bf16 "
     "fp16 params_dtype "
     "pipeline_dtype autocast_dtype enable_autocast persist_layer_norm bias_activation_fusion "
     "bias_dropout_fusion "
     "masked_softmax_fusion memory_efficient_layer_norm layernorm_epsilon "
     "layernorm_zero_centered_gamma "
     "rotary_base rotary_percent rotary_interleaved rope_scaling rope_scaling_factor "
     "scatter_embedding_sequence_parallel "
     "seq_len_interpolation_factor init_method init_method_std output_layer_init_method "
     "use_cpu_initialization "
     "perform_initialization fp32_residual_connection apply_residual_connection_post_layernorm "
     "attention_softmax_in_fp32 "
     "apply_query_key_layer_scaling softmax_scale softmax_type window_size window_attn_skip_freq "
     "calculate_per_token_loss "
     "test_mode config_logger_dir timers finalize_model_grads_func grad_scale_func no_sync_func "
     "grad_sync_func "
     "param_sync_func transformer_impl transformer_layer_spec use_te_rng_tracker "
     "inference_rng_tracker "
     "deterministic_mode barrier_with_L1_time variable_seq_lengths parallel_output "
     "generation_config hf_model_id "
     "fp16_lm_cross_entropy use_fused_weighted_squared_relu use_transformer_engine_op_fuser "
     "use_transformer_engine_full_layer_spec use_kitchen use_megatron_fsdp use_fsdp_dtensor "
     "symmetric_ar_type "
     "mamba_num_groups mamba_head_dim is_hybrid_model hybrid_attention_ratio "
     "heterogeneous_block_specs "
     "high_priority_a2a_comm_stream restore_modelopt_state clone_scatter_output_in_embedding "
     "disable_parameter_transpose_cache activation_func_clamp_value "
     "activation_func_fp8_input_store "
     "nccl_all_reduce_for_prefill bias_swiglu_fusion bias_gelu_fusion embedding_init_method_std "
     "transformer "
     "moe_token_dispatcher_type moe_router_topk moe_grouped_gemm moe_shared_expert_overlap "
     "moe_permute_fusion "
     "moe_router_fusion moe_ffn_hidden_size moe_layer_freq moe_router_dtype moe_aux_loss_coeff "
     "moe_router_load_balancing_type moe_flex_dispatcher_backend moe_router_force_load_balancing "
     "moe_shared_expert_intermediate_size moe_shared_expert_gate moe_router_enable_expert_bias "
     "moe_router_num_groups moe_router_group_topk moe_router_topk_scaling_factor "
     "moe_router_score_function moe_router_pre_softmax moe_router_bias_update_rate "
     "moe_router_padding_for_fp8 moe_router_padding_for_quantization moe_hybridep_num_sms "
     "moe_deepep_num_sms moe_enable_deepep moe_a2a_overlap moe_expert_capacity_factor "
     "moe_pad_expert_input_to_capacity moe_token_drop_policy moe_latent_size moe_z_loss_coeff "
     "q_lora_rank kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim rope_type "
     "rotary_scaling_factor original_max_position_embeddings beta_fast beta_slow mscale "
     "mscale_all_dim mla_down_proj_fusion"},
    {"ddp", false,
     "use_distributed_optimizer overlap_grad_reduce overlap_param_gather align_param_gather "
     "bucket_size "
     "average_in_collective grad_reduce_in_fp32 num_distributed_optimizer_instances "
     "use_megatron_fsdp "
     "data_parallel_sharding_strategy outer_dp_sharding_strategy "
     "overlap_param_gather_with_optimizer_step "
     "check_for_nan_in_grad check_for_large_grads pad_buckets_for_high_nccl_busbw fp8_param_gather "
     "fp4_param_gather "
     "reuse_grad_buf_for_mxfp8_param_ag gradient_reduce_div_fusion "
     "suggested_communication_unit_size "
     "preserve_fp32_weights keep_fp8_transpose_cache nccl_ub fsdp_double_buffer "
     "fsdp_db_use_persist_buf_on_alloc_fail "
     "fsdp_manual_registration disable_symmetric_registration delay_wgrad_compute use_custom_fsdp "
     "use_torch_fsdp2 "
     "reduce_scatter_with_fp32_accumulation param_name_patterns_for_fp32_local_accumulation "
     "delay_grad_reduce align_grad_reduce torch_fsdp2_reshard_after_forward"},
    {"comm_overlap", false,
     "tp_comm_overlap tp_comm_overlap_cfg tp_comm_bootstrap_backend overlap_p2p_comm "
     "batch_p2p_comm overlap_grad_reduce "
     "overlap_param_gather overlap_param_gather_with_optimizer_step align_param_gather bucket_size "
     "defer_embedding_wgrad_compute wgrad_deferral_limit overlap_moe_expert_parallel_comm "
     "delay_wgrad_compute "
     "data_parallel_size user_comm_overlap_cfg"},
    {"mixed_precision", false,
     "recipe fp32 fp16 bf16 params_dtype pipeline_dtype autocast_dtype autocast_enabled "
     "enable_autocast "
     "grad_reduce_in_fp32 fp8 fp8_recipe fp8_margin fp8_amax_history_len fp8_amax_compute_algo "
     "fp8_wgrad "
     "fp8_dot_product_attention fp8_multi_head_attention fp8_param fp8_param_gather fp4 fp4_recipe "
     "fp4_param "
     "fp4_param_gather first_last_layers_bf16 num_layers_at_start_in_bf16 "
     "num_layers_at_end_in_bf16 "
     "reuse_grad_buf_for_mxfp8_param_ag loss_scale initial_loss_scale min_loss_scale "
     "loss_scale_window hysteresis"},
    {"dataset", false,
     "seq_length sequence_length random_seed dataloader_type num_workers blend split path_to_cache "
     "reset_position_ids reset_attention_mask eod_mask_loss data_sharding pin_memory "
     "persistent_workers packed_sequence_specs "
     "num_dataset_builder_threads mmap_bin_files create_attention_mask "
     "skip_getting_attention_mask_from_dataset defer_npy_index_mmap"},
    {"train", false,
     "global_batch_size micro_batch_size train_iters train_samples rampup_batch_size "
     "decrease_batch_size_if_needed eval_iters eval_interval exit_interval exit_duration_in_mins "
     "exit_signal "
     "exit_signal_handler manual_gc manual_gc_interval manual_gc_eval empty_unused_memory_level "
     "check_weight_hash_across_dp_replicas_interval "
     "train_sync_interval iterations_to_skip skip_train check_optimizer_step_success"},
    {"optimizer", false,
     "optimizer lr min_lr weight_decay adam_beta1 adam_beta2 adam_eps clip_grad "
     "use_distributed_optimizer "
     "overlap_grad_reduce overlap_param_gather overlap_param_gather_with_optimizer_step "
     "use_precision_aware_optimizer "
     "main_grads_dtype main_params_dtype exp_avg_dtype exp_avg_sq_dtype store_param_remainders "
     "optimizer_cpu_offload "
     "optimizer_offload_fraction overlap_cpu_optimizer_d2h_h2d use_torch_optimizer_for_cpu_offload "
     "pin_cpu_grads pin_cpu_params fp16 bf16 params_dtype loss_scale initial_loss_scale "
     "min_loss_scale "
     "loss_scale_window hysteresis fp8_recipe reuse_grad_buf_for_mxfp8_param_ag decoupled_lr "
     "decoupled_min_lr "
     "log_num_zeros_in_grad barrier_with_L1_time timers config_logger_dir sgd_momentum "
     "decoupled_weight_decay "
     "muon_momentum muon_num_ns_steps"},
    {"env_vars", false, ""},
    {"peft", false, ""},
    {"measured", false, ""},
}};

constexpr std::string_view ignored_sections =
    "checkpoint dist ft inprocess_restart logger nvrx_straggler optimizer_config_override_provider "
    "profiling "
    "rerun_state_machine rng scheduler straggler tensor_inspect tokenizer validation";

}  // namespace

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(' ', start), text.size());
    if (end > start) list.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return list;
}

const SectionRow* section_row(std::string_view name) {
  const auto* found = std::find_if(section_rows.begin(), section_rows.end(),
                                   [&](const SectionRow& row) { return row.name == name; });
  return found == section_rows.end() ? nullptr : &*found;
}

bool is_ignored_section(std::string_view name) {
  const std::vector<std::string> names = words(ignored_sections);
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_spelling(const Reader& section, const SectionRow& row) {
  constexpr size_t most_keys = 2000;  // ten times Bridge's largest section
  if (const size_t n = section.keys().size(); n > most_keys)
    section.fail_here("holds " + std::to_string(n) + " keys; the limit is " +
                      std::to_string(most_keys));
  if (!row.own && row.keys.empty()) return;  // env_vars and the like hold whatever the user sets
  const std::vector<std::string> known = words(row.keys);
  for (const std::string& key : section.keys()) {
    if (key.starts_with("_") || std::find(known.begin(), known.end(), key) != known.end()) continue;
    if (row.own) section.fail(key, "unknown key" + suggestion(key, known));
    // Two edits: one slip of the pen, or two letters swapped and one lost. Short names need a
    // closer match.
    constexpr int slip = 2;
    for (const std::string& name : known)
      if (key.size() > 2 * slip && key.size() < 200 && edit_distance(key, name) <= slip)
        section.fail(key, "unknown key; did you mean '" + name + "'?");
  }
}

}  // namespace stepsim
