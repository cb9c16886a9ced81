#!/usr/bin/env bash
# Makes reports of small runs and clicks through them in headless Chromium: curves, heads, tokens and runs can be chosen,
# what is shown is right, missing files show as missing, nothing from a run is executed, the console stays empty.
# usage: scripts/test_report.sh [ATTUNE [DIR]]     the program (build/attune) and where screenshots go (a temporary directory)
set -euo pipefail

cd "$(dirname "$0")/.."
attune=$(realpath "${1:-build/attune}")
scripts/install-dependencies.sh chromium chromium-driver python3-selenium

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
screenshots=$(realpath -m "${2:-$work/screenshots}")
mkdir -p "$screenshots"

small=(--n-layer=2 --n-head=3 --n-embd=24 --length=1..6 --batch-size=8 --eval-iters=2 --max-iters=60 --eval-interval=20
       --log-interval=1 --attention-interval=2 --threads=1)
for run in first second; do
  "$attune" train copy "${small[@]}" --out-dir "$work/$run" --seed="${#run}" \
    --pos="$([[ $run == first ]] && echo rope || echo alibi)" >"$work/$run.log"
done
# Debian's Python, for which Debian's Selenium is installed.
/usr/bin/python3 scripts/test_report.py "$attune" "$work" "$screenshots"
