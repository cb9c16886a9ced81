#!/bin/sh
# Induction heads at toy size (Olsson et al. 2022): trains attention-only models and asks `attune attention` what their
# heads do. One line a run: accuracy in the repetition, the best scores, and the accuracy without heads.
# Started large (weights and embeddings of deviation 0.05, rate 2e-3, 1000 steps) and small (maps as PyTorch starts them,
# embeddings of deviation 0.02, rate 1e-3, 4000 steps): with learned positions the start decides whether heads form.
# usage: scripts/induction.sh [SEEDS [BINARY [DIRECTORY]]]     5 seeds take about 20 minutes on one core
set -eu
seeds=${1:-5}
attune=${2:-build/attune}
directory=${3:-$(mktemp -d)}
common="--ffn none --tie-head=false --lr-schedule constant --weight-decay 0.01 --beta2 0.98 --batch-size 32
  --eval-interval 100 --eval-iters 10 --log-heads --keep-best=false"
large="--init gpt2 --init-std 0.05 --lr 2e-3 --max-iters 1000"
small="--init pytorch --init-std 0.02 --lr 1e-3 --max-iters 4000"

train() {  # LAYERS POSITIONS START SEED DIRECTORY
  if [ "$3" = large ]; then start=$large; else start=$small; fi
  # shellcheck disable=SC2086
  "$attune" train induction --n-layer "$1" --pos "$2" $common $start --seed "$4" --out-dir "$5" >/dev/null
}

echo "layers, positions, start       accuracy  previous  induction heads         one    all  control"
for variant in "2 rope large" "1 rope large" "2 learned large" "2 rope small" "2 learned small"; do
  for seed in $(seq 1 "$seeds"); do
    run="$directory/$(echo "$variant" | tr ' ' -)-$seed"
    # shellcheck disable=SC2086
    [ -d "$run" ] || train $variant "$seed" "$run"
    python3 - "$attune" "$run" "$variant" "$seed" <<'END'
import json, subprocess, sys
attune, run, variant, seed = sys.argv[1:]

def ask(*options):
    return json.loads(subprocess.run([attune, "attention", run, "--json", *options], check=True,
                                     stdout=subprocess.PIPE).stdout)

heads = ask("--heads")["heads"]
induction = [h["head"] for h in heads if h["induction"] >= 0.5]
others = [h["head"] for h in heads if h["induction"] < 0.5 and h["previous_token"] < 0.5]
def without(group):
    if not group: return {}
    rows = ask("--ablate", "--together", ",".join(group))["ablation"]
    return {row["without"]: row["accuracy"] for row in rows}
found = without(induction)
accuracy = ask("--ablate")["ablation"][0]["accuracy"]
previous = max(h["previous_token"] for h in heads if h["head"].startswith("0."))
scores = " ".join(f"{h['induction']:.2f}" for h in heads if h["induction"] >= 0.5)
scores = scores or f"none (best {max(h['induction'] for h in heads):.2f})"
one = f"{min(found[h] for h in induction):.3f}" if induction else "-"
everything = f"{found[','.join(induction)]:.3f}" if induction else "-"
control = without(others[:len(induction)])
last = f"{control[','.join(others[:len(induction)])]:.3f} ({len(others[:len(induction)])})" if control else "-"
print(f"{variant:15} seed {seed:4} {accuracy:7.3f} {previous:9.2f}  {scores:22} {one:>6} {everything:>6}  {last}", flush=True)
END
  done
done
echo "accuracy: of tokens in the repetition; previous: best previous-token score of layer 0; one, all: accuracy without
the induction head that is missed most, and without all of them; control: without as many heads (in parentheses) that
are neither induction nor previous-token heads. Runs: $directory"
