#!/usr/bin/env bash
# Gives hostile input to all that reads files or words, with libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer.
# usage: scripts/fuzz.sh [SECONDS [TARGET...]]     default: 600 s for each target, as many at once as there are cores
#
#   safetensors  a file of tensors; one that reads is written and reads back equal
#   config       a TOML configuration; one that reads is dumped and reads back, also when it is resolved
#   text         the text of a text task (first byte: size of a window less one) against a reader of bytes, and prompts
#   log          the metrics of a run resumed at some step (first byte)
#   checkpoint   the metadata of a checkpoint, "key=value" up to each NUL; what reads is saved and reads back equal
#   arguments    the command line, a word a line; words mean the same in their plainest spelling
#
# tests/fuzz/TARGET_fuzz.cpp says what must hold. Errors of the documented kind are right answers; another exception, a report
# of a sanitizer, ten seconds for one input and 64 MiB in one allocation are faults: the script then names the file that
# causes it and exits with 1. Mended, the file belongs in tests/fuzz/corpus/TARGET, which every test run replays.
#
# What is found anew stays in build-fuzz/corpus/TARGET. To commit what of it reaches more code:
#   build-fuzz/TARGET_fuzz -merge=1 -use_counters=0 tests/fuzz/corpus/TARGET build-fuzz/corpus/TARGET
set -euo pipefail

cd "$(dirname "$0")/.."
all=(safetensors config text log checkpoint arguments)
seconds=${1:-600}
targets=("${@:2}")
[[ ${#targets[@]} -gt 0 ]] || targets=("${all[@]}")
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "usage: fuzz.sh [SECONDS [TARGET...]], not '$seconds'" >&2; exit 2; }
for target in "${targets[@]}"; do
  [[ -e tests/fuzz/${target}_fuzz.cpp ]] || { echo "fuzz.sh: no target '$target'; there are: ${all[*]}" >&2; exit 2; }
done

scripts/install-dependencies.sh clang libclang-rt-dev llvm
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz

# Files that targets write stay in memory where that is possible.
[[ ! -w /dev/shm ]] || export TMPDIR=/dev/shm
export UBSAN_OPTIONS=print_stacktrace=1

# TARGET: one line of the table, and the end of its log where there is a fault
fuzz() {
  local found=build-fuzz/corpus/$1 log=build-fuzz/$1.log faults=build-fuzz/faults/$1- start=$SECONDS code=0 runs covered
  mkdir -p "$found" build-fuzz/faults
  "build-fuzz/$1_fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=64 \
    -print_final_stats=1 -artifact_prefix="$faults" "$found" "tests/fuzz/corpus/$1" >"$log" 2>&1 || code=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  covered=$(sed -n 's/^#.* cov: \([0-9]*\) ft: \([0-9]*\) corp: \([0-9]*\).*/\1 \2 \3/p' "$log" | tail -n 1)
  # shellcheck disable=SC2086
  printf '%-12s %10s %7s %7s %9s %7s  %s\n' "$1" "${runs:-?}" $((SECONDS - start)) ${covered:-? ? ?} \
    "$([[ $code == 0 ]] && echo clean || echo FAULT)"
  [[ $code == 0 ]] && return
  grep -E '^fault: |runtime error: |ERROR: |^SUMMARY: ' "$log" | sed "s/^/  /" >&2
  echo "  input: $(sed -n 's/^artifact_prefix=.*Test unit written to //p' "$log"), log: $log" >&2
  return 1
}

printf '%-12s %10s %7s %7s %9s %7s\n' target executions seconds edges features inputs
processes=()
for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= $(nproc))); do sleep 0.2; done
  fuzz "$target" &
  processes+=($!)
done
code=0
for process in "${processes[@]}"; do wait "$process" || code=1; done
exit $code
