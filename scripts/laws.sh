#!/usr/bin/env bash
# Measures the laws of initialisation on a text, with intervals over seeds, in about a minute on two cores:
#   entropy      within 0.01 of the prediction for normal scores of deviation 0.5, 1 and 2 (layer 0)
#   gradients    of the last feed-forward output weight as a power of depth: -0.5 pre-norm, 0 post-norm, 0 with gpt2
#   rank         below 1e-3 by layer 6 without skips and mask; causal beside it
# usage: scripts/laws.sh TEXT [BINARY] [DIRECTORY]
set -euo pipefail

text=${1:?usage: scripts/laws.sh TEXT [BINARY] [DIRECTORY]}
attune=${2:-build/attune}
directory=${3:-studies/laws}

"$attune" study init --n-layer 2 --init xavier --norm-pos pre --pos none --init-std 0.5 \
  --mask none,causal --attn-scale 0.125,0.25,0.5 --out-dir "$directory/entropy"
"$attune" study gradients --data "$text" --out-dir "$directory/gradients"
"$attune" study rank --data "$text" --out-dir "$directory/rank"
