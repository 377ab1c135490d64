#!/usr/bin/env bash
# Law: one process and many print the same bytes, also when one of them dies on the way.
# usage: processes_test.sh STEPSIM STEPSIM_MPI, from the repository root; `./dev mpi` runs it.
set -euo pipefail
alone=$1 many=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# mpirun asks for these before it runs as root, and for --oversubscribe on few cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

plan=(plan llama3.2-1b --cluster dgx-h100 --gpus 16 --top 3)
sweep=(sweep scenarios/1f1b-4x8.json --vary train.global_batch_size=8..128+8)
fail() { echo "FAILED: $*" >&2 && exit 1; }
processes() { mpirun --oversubscribe -n "$@"; }

"$alone" "${plan[@]}" > "$folder/plan.txt"
"$alone" "${plan[@]}" --json - > "$folder/plan.json"
"$alone" "${sweep[@]}" --csv - > "$folder/sweep.csv"
for n in 1 2 4; do
  processes "$n" "$many" "${plan[@]}" | cmp - "$folder/plan.txt" || fail "plan of $n processes"
  processes "$n" "$many" "${plan[@]}" --json - | cmp - "$folder/plan.json" || fail "JSON of $n processes"
  processes "$n" "$many" "${sweep[@]}" --csv - | cmp - "$folder/sweep.csv" || fail "sweep of $n processes"
done
echo "1, 2 and 4 processes: equal"

# An exit code is the leader's; bad input is said once.
code=0
processes 2 "$many" plan no-such-model --cluster dgx-h100 --gpus 8 2> "$folder/error" || code=$?
[[ $code == 2 ]] || fail "exit code $code of bad input"
[[ $(grep -c no-such-model "$folder/error") == 1 ]] || fail "bad input: $(cat "$folder/error")"

# Kills the process of rank 2 while it works; `more` are mpirun's flags.
killed() {
  local output=$1 victim=
  shift
  mpirun --oversubscribe -n 4 "$@" "$many" "${plan[@]}" > "$output" 2> "$folder/said" &
  local job=$! environment
  until [[ -n $victim ]]; do
    kill -0 "$job" || fail "the job was over before a process could be killed"
    for environment in $(pgrep -P "$job" | sed 's|.*|/proc/&/environ|'); do
      if tr '\0' '\n' 2> /dev/null < "$environment" | grep -qx OMPI_COMM_WORLD_RANK=2; then
        victim=${environment//[^0-9]/}
      fi
    done
    sleep 0.05
  done
  # Until it has done something: two clock ticks of 10 ms more than it takes to start.
  until (($(awk '{print $14}' "/proc/$victim/stat") > 30)); do sleep 0.02; done
  kill -KILL "$victim"
  wait "$job"
}
killed "$folder/killed.txt" --enable-recovery || fail "a killed process stopped the job: $(cat "$folder/said")"
cmp "$folder/killed.txt" "$folder/plan.txt" || fail "plan with a killed process"
grep -q "1 of 4 processes did not answer" "$folder/said" || fail "not reported: $(cat "$folder/said")"
echo "a killed process: equal, and reported"
if killed "$folder/aborted.txt"; then fail "mpirun hid that a process was killed"; fi
[[ ! -s $folder/aborted.txt ]] || fail "half a result: $(cat "$folder/aborted.txt")"
echo "without --enable-recovery: the job ends with an error and no result"
