#! /usr/bin/env bash
# One long string of options, and the command line inside another.
NAME='small model'
options=" \
  --num-layers 24 \
  --hidden-size 2048 \
  --num-attention-heads 16 \
  --group-query-attention --num-query-groups 4 \
  --swiglu --normalization RMSNorm --disable-bias-linear \
  --untie-embeddings-and-output-weights --position-embedding-type rope \
  --seq-length 4096 --max-position-embeddings 4096 \
  --micro-batch-size ${MBS:-2} --global-batch-size 256 \
  --tokenizer-type HuggingFaceTokenizer --vocab-size 32000 \
  --fp8-format hybrid --fp8-recipe tensorwise --bf16 \
  --wandb-exp-name '$NAME'"
run_cmd="python -u /opt/megatron/pretrain_gpt.py ${options}"
srun -l --output=%x.log sh -c "CUDA_DEVICE_MAX_CONNECTIONS=1 ${run_cmd}" || exit 1
