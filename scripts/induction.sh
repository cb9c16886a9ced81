#!/bin/sh
# Induction heads at toy size (Olsson et al. 2022): trains attention-only models and asks `attune attention` what their
# heads do. One line a run: accuracy in the repetition, the best scores, and the accuracy without heads. Usage:
# scripts/induction.sh [SEEDS] [BINARY] [DIRECTORY]; 5 seeds take about 15 minutes on one core.
set -eu
seeds=${1:-5}
attune=${2:-build/attune}
directory=${3:-$(mktemp -d)}
common="--ffn none --init gpt2 --init-std 0.05 --tie-head=false --lr 2e-3 --lr-schedule constant --weight-decay 0.01 --beta2 0.98
  --batch-size 32 --max-iters 1000 --eval-interval 100 --eval-iters 10 --log-heads --keep-best=false"

echo "                     accuracy  previous  induction heads         one    all  control"
for variant in "2 rope" "1 rope" "2 learned"; do
  for seed in $(seq 1 "$seeds"); do
    run="$directory/${variant% *}-${variant#* }-$seed"
    # shellcheck disable=SC2086
    [ -d "$run" ] || "$attune" train induction --n-layer ${variant% *} --pos ${variant#* } $common --seed "$seed" \
      --out-dir "$run" >/dev/null
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
print(f"{variant:10} seed {seed:4} {accuracy:7.3f} {previous:9.2f}  {scores:22} {one:>6} {everything:>6}  {last}", flush=True)
END
  done
done
echo "accuracy: of tokens in the repetition; previous: best previous-token score of layer 0; one, all: accuracy without
the induction head that is missed most, and without all of them; control: without as many heads (in parentheses) that
are neither induction nor previous-token heads. Runs: $directory"
