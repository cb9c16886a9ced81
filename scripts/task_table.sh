#!/usr/bin/env bash
# How long copy, reverse and sort take with each positional encoding: a Markdown table of the steps and seconds until 99.9 % of
# whole answers are right at an evaluation, or the share that was reached: in STEPS steps with their whole schedule, or in three minutes.
# One thread a run, two runs at a time.
# usage: scripts/task_table.sh [DIR [SEED [STEPS]]]     about 15 minutes; needs scripts/build.sh; runs go into DIR (default runs/table)
set -euo pipefail

cd "$(dirname "$0")/.."
directory=${1:-runs/table}
seed=${2:-1}
steps=${3:-3000}
tasks=(copy reverse sort)
encodings=$(build/attune list encodings | awk '{print $1}')
mkdir -p "$directory"

train() {  # TASK ENCODING
  [[ -f $directory/$1-$2/summary.json ]] && return
  build/attune train "$1" --pos "$2" --seed "$seed" --threads 1 --max-iters "$steps" --eval-interval 100 --eval-iters 20 \
    --target-accuracy 0.999 --time-budget 3m --log-interval 1000 --out-dir "$directory/$1-$2" >"$directory/$1-$2.log"
}
export -f train
export directory seed steps
for task in "${tasks[@]}"; do
  for encoding in $encodings; do echo "$task $encoding"; done
done | xargs -P 2 -L 1 bash -c 'train "$0" "$1"'

printf '| task |'; for encoding in $encodings; do printf ' %s |' "$encoding"; done
printf '\n|---|'; for encoding in $encodings; do printf -- '---|'; done; echo
for task in "${tasks[@]}"; do
  printf '| %s |' "$task"
  for encoding in $encodings; do
    python3 - "$directory/$task-$encoding/summary.json" <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
solved = run["status"] == "target"
cell = f"{run['steps']} steps, {run['elapsed_seconds']:.0f} s" if solved else f"{100 * run['val_exact']:.1f} %"
print(f" {cell} |", end="")
END
  done
  echo
done
