#!/usr/bin/env bash
# The whole suite under AddressSanitizer with UndefinedBehaviorSanitizer, then under ThreadSanitizer.
# usage: scripts/sanitize.sh [asan|tsan]     default: both, one after the other
set -euo pipefail

cd "$(dirname "$0")/.."
scripts/install-dependencies.sh
presets=("$@")
[[ $# -gt 0 ]] || presets=(asan tsan)
for preset in "${presets[@]}"; do
  cmake --preset "$preset"
  cmake --build --preset "$preset"
  ctest --preset "$preset" --no-tests=error -j "$(nproc)"
done
