#!/usr/bin/env bash
# What attention without a softmax cannot keep apart (Arora et al. 2024): associative recall of 1 to N pairs with dot-product
# and with linear attention, as a Markdown table of the share of tokens and of whole answers that are right after STEPS steps.
# Two layers of width 64, four heads. One thread a run, two runs at a time.
# usage: scripts/recall_gap.sh [DIR [SEED [STEPS]]]     about 5 minutes; needs scripts/build.sh; runs go into DIR (default runs/recall)
set -euo pipefail

cd "$(dirname "$0")/.."
directory=${1:-runs/recall}
seed=${2:-1}
steps=${3:-3000}
pairs=(4 8 12)
kinds=(dot-product linear)
mkdir -p "$directory"

train() {  # PAIRS KIND
  [[ -f $directory/$1-$2/summary.json ]] && return
  build/attune train recall --length "1..$1" --symbols 26 --attention "$2" --n-layer 2 --n-head 4 --n-embd 64 --batch-size 32 --lr 3e-3 \
    --max-iters "$steps" --eval-interval 500 --eval-iters 10 --log-interval 1000 --seed "$seed" --threads 1 \
    --out-dir "$directory/$1-$2" >"$directory/$1-$2.log"
}
export -f train
export directory seed steps
for n in "${pairs[@]}"; do
  for kind in "${kinds[@]}"; do echo "$n $kind"; done
done | xargs -P 2 -L 1 bash -c 'train "$0" "$1"'

printf "| up to pairs |"; printf ' %s |' "${kinds[@]}"
printf '\n|---|'; printf -- '---|%.0s' "${kinds[@]}"; echo
for n in "${pairs[@]}"; do
  printf '| %s |' "$n"
  for kind in "${kinds[@]}"; do
    python3 - "$directory/$n-$kind/summary.json" <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
print(f" {100 * run['val_accuracy']:.1f} % of tokens, {100 * run['val_exact']:.1f} % of answers |", end="")
END
  done
  echo
done
