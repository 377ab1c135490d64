#!/bin/bash
#SBATCH --nodes=16 --exclusive
# Trains a dense model with interleaved stages; all numbers are made up.
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_IB_TIMEOUT=22 NVTE_FWD_LAYERNORM_SM_MARGIN=16

GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-16}
WORLD_SIZE=$((GPUS_PER_NODE * NNODES))
TP=${TP:-8}; PP=${2:-4}
CKPT_DIR="$HOME/checkpoints/run one"
if [[ -n "${DEBUG:-}" ]]; then
  MORE=(--log-interval 1)
fi

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --rdzv_endpoint "$(hostname -s):29500"
)
MODEL_ARGS=(
    --num-layers 96 --hidden-size 12288   # 175 billion
    --num-attention-heads 96
    --seq-length 2048 --max-position-embeddings 2048
    --tokenizer-type GPT2BPETokenizer
    --attention-dropout 0.0 --hidden-dropout 0.0
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size ${TP}
    --pipeline-model-parallel-size=$PP
    --num-layers-per-virtual-pipeline-stage 4
    --sequence-parallel
    --use-distributed-optimizer
)
PARALLEL_ARGS+=(--overlap-grad-reduce --overlap-param-gather)

cat > notes.txt <<NOTES
it's not a command: torchrun pretrain_gpt.py --num-layers 1
NOTES

torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    "${PARALLEL_ARGS[@]}" \
    ${MORE[@]:-} \
    --micro-batch-size 1 --global-batch-size $((WORLD_SIZE * 12)) \
    --bf16 --tp-comm-overlap --recompute-activations \
    --lr 6.0e-5 --min-lr 6e-6 --save "$CKPT_DIR" 2>&1 | tee "log_$(date +%s).txt"
