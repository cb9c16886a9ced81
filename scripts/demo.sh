#!/usr/bin/env bash
# From a fresh clone to a trained model in about a minute beyond the build: a small transformer learns to copy, then its
# accuracy and the entropy of its attention heads are measured on fresh examples.
# usage: scripts/demo.sh [TASK [TRAIN_OPTION...]]     such as: scripts/demo.sh sort --seed 1
set -euo pipefail

cd "$(dirname "$0")/.."
task=${1:-copy}
shift $(($# > 0 ? 1 : 0))
run=runs/demo-$task-$(date +%Y%m%d-%H%M%S)

scripts/install-dependencies.sh
scripts/build.sh build
build/attune train "$task" --out-dir "$run" "$@"
build/attune eval "$run"
cat <<END

The run lies in $run (metrics.jsonl, attention.jsonl, checkpoint.safetensors, summary.json).
Let it answer:   build/attune sample $run --num-samples 5
Look inside:     build/attune report $run     (one page: curves, entropies, attention maps)
Test longer:     build/attune eval $run --eval-lengths 6,12,14
Its options:     build/attune train $task --help
END
