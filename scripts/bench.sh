#!/usr/bin/env bash
# Measures whole training steps beside the floor of their matrix products and, where python3 can import torch, beside
# PyTorch, and prints one table. Builds in build-bench, which also keeps the measurements (step.jsonl, torch.jsonl).
# usage: scripts/bench.sh [char|small|toy|wide ...]     default: all, about 15 minutes with PyTorch
#        scripts/bench.sh profile [CONFIGURATION ...]   where the time of a step goes to, operation by operation
#        scripts/bench.sh attention                     time and memory over the length of a sequence, sparse masks, kinds of attention
#        scripts/bench.sh logs [toy|copy|text ...]      what entropies, gradients and activations of each step cost, 5 minutes
#        scripts/bench.sh generation [ENCODING ...]     tokens made through a key-value cache
# environment: THREADS=1,2 (default: 1 and all cores, at most 2), ROUNDS=11, PYTHON=python3
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
directory=$root/build-bench
cores=$(nproc)
threads=${THREADS:-$([[ $cores -gt 1 ]] && echo 1,2 || echo 1)}
rounds=${ROUNDS:-11}
configurations=("$@")
[[ $# -gt 0 ]] || configurations=(char small toy wide)

mkdir -p "$directory"
log=$directory/build.log
"$root/scripts/build.sh" "$directory" -DATTUNE_BENCHMARKS=ON >"$log" 2>&1 || {
  tail -n 20 "$log" >&2
  echo "bench.sh: the build failed; all of it is in $log" >&2
  exit 1
}

programs=$directory/tests/benchmark
case ${configurations[0]} in
  profile) exec "$programs/step_benchmark" "${configurations[@]:1}" --threads "$threads" --profile ;;
  attention)
    "$programs/attention_benchmark" "${configurations[@]:1}" --rounds "$rounds"
    exec "$programs/attention_kinds_benchmark" --rounds "$rounds" ;;
  logs) exec "$programs/log_benchmark" "${configurations[@]:1}" ;;
  generation) exec "$programs/generation_benchmark" "${configurations[@]:1}" --rounds "$rounds" ;;
esac

echo "measuring ${configurations[*]} on $threads threads" >&2
options=(--threads "$threads" --rounds "$rounds")
"$programs/step_benchmark" "${configurations[@]}" "${options[@]}" --json >"$directory/step.jsonl"

tables=("$directory/step.jsonl")
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import torch' 2>/dev/null || continue
  echo "measuring PyTorch of $python" >&2
  "$python" "$root/scripts/bench_torch.py" "${configurations[@]}" "${options[@]}" >"$directory/torch.jsonl"
  tables+=("$directory/torch.jsonl")
  break
done
[[ ${#tables[@]} -gt 1 ]] || echo "no PyTorch here (Debian: python3-torch): measured without it" >&2
python3 "$root/scripts/bench_table.py" "${tables[@]}"
