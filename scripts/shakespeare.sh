#!/usr/bin/env bash
# nanoGPT's small CPU recipe on a text, seeds 1 to 3: the validation loss over 200 batches of each, and the loss of seed 1
# computed once more by NumPy from the checkpoint.
# usage: scripts/shakespeare.sh FILE [DIR]     about 3 minutes; needs scripts/build.sh; the runs go into DIR (default runs/shakespeare)
set -euo pipefail

data=$(realpath "${1:?usage: scripts/shakespeare.sh FILE [DIR]}")
cd "$(dirname "$0")/.."
directory=${2:-runs/shakespeare}
mkdir -p "$directory"
for seed in 1 2 3; do
  run=$directory/seed-$seed
  if [[ ! -f $run/summary.json ]]; then
    build/attune train text --data "$data" --device=cpu --compile=False --eval_iters=20 --log_interval=1 --block_size=64 \
      --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0 \
      --seed "$seed" --out-dir "$run" >"$directory/seed-$seed.log"
  fi
  echo "seed $seed: $(tail -n 2 "$directory/seed-$seed.log" | head -n 1)"
  build/attune eval "$run" --eval-iters 200 | sed -n 2p
done
/usr/bin/python3 scripts/recompute_loss.py "$directory/seed-1" --eval-iters 20 --compare build/attune
