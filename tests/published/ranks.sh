#!/usr/bin/env bash
# Where published layouts rank among all that fit on their GPUs, by a sample of each space; a table as in sim/README.md.
# usage: ranks.sh [STEPSIM [N]], from the repository root; N combinations of each space are drawn (2000: ten minutes on 2 cores).
set -euo pipefail
stepsim=${1:-build/release/stepsim} n=${2:-2000}
layouts=(
  "scenarios/nemotron4-15b-16xh100-bf16.json --cluster dgx-h100:8 train.global_batch_size=256"
  "--recipe llama3_8b_pretrain_8gpu_h100_bf16_config"
  "--recipe llama3_70b_pretrain_64gpu_h100_bf16_config"
  "scenarios/gpt3-175b-128xh100-bf16.json"
  "scenarios/llama3.1-405b-1024xh100-bf16.json"
  "scenarios/llama3.1-405b-256xgb200-fp8.json"
  "--recipe deepseek_v3_pretrain_256gpu_gb200_bf16_config"
  "--recipe deepseek_v3_pretrain_1024gpu_h100_bf16_config"
  "--recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"
  "--recipe qwen3_235b_a22b_pretrain_256gpu_h100_bf16_config"
  "--recipe gpt_oss_120b_pretrain_64gpu_h100_bf16_config"
  "scenarios/gpt-oss-120b-64xgb200-mxfp8.json"
)
for words in "${layouts[@]}"; do
  # shellcheck disable=SC2086  # words are words
  "$stepsim" plan $words --sample "$n" --top 1 --no-frontier | awk -v words="$words" '
    BEGIN { sub(/^--recipe /, "", words); print "\n" words }
    /^A sample/ || /^Given layout/ || given { print "  " $0 }
    / 1  / && !given { print "  best drawn" $0 }
    /^Given layout/ { given = 1 }'
done
