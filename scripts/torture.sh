#!/usr/bin/env bash
# Breaks training runs in every way this machine allows: kill -9, SIGINT and SIGTERM at random moments, full disk, file size limit,
# read-only directory, directory removed or moved, standard output gone, two runs in one directory. After each, the checkpoint
# must load, the message be one line, the exit code right, and the run that goes on end with the weights, optimizer state and logs of
# the unbroken one, bit for bit. Prints what was survived; exits with 1 at the first violation.
# usage: scripts/torture.sh [SECONDS [ATTUNE]]     300 s (at least 100 kills) and build/attune where they are not given
# As root it mounts a small tmpfs for the full disk and works as nobody where a directory is read-only.
set -uo pipefail

seconds=${1:-300}
attune=${2:-$(dirname "$0")/../build/attune}
[[ $seconds =~ ^[1-9][0-9]*$ && -x $attune ]] || { echo "usage: torture.sh [SECONDS [ATTUNE]]; no program at $attune" >&2; exit 2; }

work=$(mktemp -d)
chmod 755 "$work"
cp "$attune" "$work/attune"
whole=$work/whole half=$work/half
pid=
clean_up() {
  [[ -z $pid ]] || kill -9 "$pid" 2>/dev/null
  mountpoint -q "$work/disk" && umount "$work/disk"
  [[ -n ${failed:-} ]] || rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# About three seconds, with all that has a state; a fifteenth of it for a short torture.
steps=$((seconds < 60 ? 520 : 7800))
model=(--n-layer 1 --n-head 2 --n-embd 16 --length 1..4 --batch-size 8 --grad-accum 2 --dropout 0.1 --train-size 1000
  --eval-iters 2 --lr-decay-iters "$steps")
cadence=(--eval-interval 260 --save-interval 40 --keep-last 3 --log-interval 3 --attention-interval 50)
all=(--max-iters "$steps" "${cadence[@]}")
# Whose logs take no room, so that a checkpoint is what meets a limit.
sparse=(--max-iters "$steps" --eval-interval 260 --save-interval 40 --keep-last 1 --log-interval 1000000 --attention-interval 0)

row() { printf '%-40s %5s  %s\n' "$@"; }
violation() {
  failed=yes
  echo "VIOLATION: $*" >&2
  [[ ! -s $work/err ]] || sed 's/^/  standard error: /' "$work/err" >&2
  echo "  after $SECONDS s; all files are in $work" >&2
  exit 1
}

# --- runs ---
user=()  # who runs the program
threads=1
start() {  # DIRECTORY OPTION...
  env --default-signal=INT "${user[@]}" "$work/attune" train copy --out-dir "$1" --resume "${model[@]}" "${@:2}" \
    --threads "$threads" >"$work/out" 2>"$work/err" &
  pid=$!
}
finish() { { wait "$pid"; } 2>/dev/null; code=$?; pid=; }
run() { start "$@"; finish; }
send() { kill "-$1" "$pid" 2>/dev/null; }
doze() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }
random_below() { echo $(((RANDOM * 32768 + RANDOM) % $1)); }
wait_for() {  # FILE, or until the process has ended
  while [[ ! -e $1 ]] && kill -0 "$pid" 2>/dev/null; do doze 2; done
}
lines() { if [[ -e $1 ]]; then wc -l <"$1"; else echo 0; fi; }

# --- what must hold ---
hash_of() { sed -n 's/.*"parameter_hash": *"\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }
without_times() { sed -E 's/,?"(elapsed_seconds|step_ms|tokens_per_second)":[^,}]*//g' "$1"; }
arrays() { tail -c +$(($(od -An -t u8 -N 8 "$1") + 9)) "$1" | sha256sum; }
must_equal_whole() {  # DIRECTORY WHAT [hash: the weights alone]
  [[ $(hash_of "$1") == "$(hash_of "$whole")" ]] || violation "$2: other weights than the unbroken run"
  [[ ${3:-} != hash ]] || return 0
  local file
  for file in metrics.jsonl attention.jsonl; do
    cmp -s <(without_times "$1/$file") <(without_times "$whole/$file") || violation "$2: another $file than the unbroken run"
  done
  for file in checkpoint.safetensors best.safetensors; do
    [[ $(arrays "$1/$file") == "$(arrays "$whole/$file")" ]] || violation "$2: another $file than the unbroken run"
  done
}
must_load() {  # DIRECTORY WHAT
  "$work/attune" eval "$1" --eval-iters 1 >/dev/null 2>"$work/err" || violation "$2: the checkpoint does not load"
}
must_fail() {  # PATTERN WHAT: one line that matches, exit code 1
  [[ $code == 1 ]] || violation "$2: exit code $code, expected 1"
  [[ $(wc -l <"$work/err") == 1 ]] || violation "$2: not one line on standard error"
  grep -q "^attune: .*$1" "$work/err" || violation "$2: expected a message about: $1"
}
must_go_on() {  # DIRECTORY WHAT [hash]
  run "$1" "${all[@]}"
  [[ $code == 0 ]] || violation "$2: resuming ended with exit code $code"
  must_equal_whole "$@"
}
copy_of_half() { rm -rf "$1"; cp -r "$half" "$1"; }
copy_without_logs() { copy_of_half "$1"; : >"$1/metrics.jsonl"; : >"$1/attention.jsonl"; }

# --- faults ---
full_disk() {
  mkdir -p "$work/disk"
  if ! mount -t tmpfs -o size=4m torture "$work/disk" 2>/dev/null; then
    row "full disk" - "not tried: nothing can be mounted here"
    return
  fi
  local size share count=0 broken=$work/disk/run
  size=$(stat -c %s "$half/checkpoint.safetensors")
  for share in 0 25 50 90 0 60; do  # percent of a checkpoint that still find room
    if ((++count <= 4)); then copy_without_logs "$broken"; else copy_of_half "$broken"; fi
    dd if=/dev/zero of="$work/disk/filler" bs=4096 2>/dev/null
    truncate -s -$((size * share / 100)) "$work/disk/filler"
    if ((count <= 4)); then run "$broken" "${sparse[@]}"; else run "$broken" "${all[@]}"; fi
    must_fail "No space left on device" "full disk"
    [[ -z $(find "$broken" -name '*.tmp') ]] || violation "full disk: a temporary file was left"
    must_load "$broken" "full disk"
    rm "$work/disk/filler"
    if ((count <= 4)); then must_go_on "$broken" "full disk" hash; else must_go_on "$broken" "full disk"; fi
  done
  umount "$work/disk"
  row "full disk (tmpfs)" $count "checkpoints intact, gone on bitwise"
}

file_size_limit() {
  local kilobytes log broken=$work/limited count=0
  local size=$(($(stat -c %s "$half/checkpoint.safetensors") / 1024))
  for kilobytes in 8 $((size / 2)) $((size - 1)); do  # the checkpoint
    copy_without_logs "$broken"
    ulimit -S -f "$kilobytes"
    run "$broken" "${sparse[@]}"
    ulimit -S -f unlimited
    must_fail "safetensors': File too large" "file size limit"
    must_load "$broken" "file size limit"
    must_go_on "$broken" "file size limit" hash
    ((++count))
  done
  for kilobytes in 1 3; do  # the log
    copy_of_half "$broken"
    log=$(($(stat -c %s "$broken/metrics.jsonl") / 1024))
    ulimit -S -f $((kilobytes + (log > size ? log : size)))
    run "$broken" "${all[@]}"
    ulimit -S -f unlimited
    must_fail "jsonl': File too large" "file size limit of a log"
    must_load "$broken" "file size limit of a log"
    must_go_on "$broken" "file size limit of a log"
    ((++count))
  done
  row "file size limit" $count "checkpoints intact, gone on bitwise"
}

read_only_directory() {
  local broken=$work/locked/run
  if ((EUID == 0)); then
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    if ! "${user[@]}" "$work/attune" --version >/dev/null 2>&1; then
      user=()
      row "read-only directory" - "not tried: no other user can run the program here"
      return
    fi
  fi
  mkdir -p "$work/locked"
  chmod 555 "$work/locked"
  run "$broken" "${all[@]}"
  must_fail "Permission denied" "read-only directory, a new run"
  chmod 755 "$work/locked"
  copy_of_half "$broken"
  ((EUID != 0)) || chown -R 65534:65534 "$broken"
  chmod 555 "$broken"
  run "$broken" "${all[@]}"
  must_fail "Permission denied" "read-only directory, a run to resume"
  must_load "$broken" "read-only directory"
  chmod 755 "$broken"
  start "$broken" "${all[@]}"
  wait_for "$broken/checkpoint-$((steps / 2)).safetensors"
  chmod 555 "$broken"
  finish
  must_fail "Permission denied" "directory made read-only"
  must_load "$broken" "directory made read-only"
  chmod 755 "$broken"
  must_go_on "$broken" "directory made read-only"
  user=()
  row "read-only directory" 3 "checkpoints intact, gone on bitwise"
}

directory_gone() {
  local broken=$work/gone count=0 moment
  for moment in 0 20 50; do
    rm -rf "$broken" "$broken.moved"
    start "$broken" "${all[@]}"
    wait_for "$broken/checkpoint.safetensors"
    doze $moment
    until rm -rf "$broken" 2>/dev/null; do :; done
    finish
    must_fail "No such file or directory" "directory removed"
    [[ ! -e $broken ]] || violation "directory removed: it is there again"
    start "$broken" "${all[@]}"
    wait_for "$broken/checkpoint.safetensors"
    doze $moment
    mv "$broken" "$broken.moved"
    finish
    must_fail "No such file or directory" "directory moved"
    must_load "$broken.moved" "directory moved"
    must_go_on "$broken.moved" "directory moved"
    ((count += 2))
  done
  row "directory removed, moved" $count "one line; what was moved gone on bitwise"
}

output_gone() {
  local broken=$work/mute codes
  local words=("$work/attune" train copy --resume --out-dir "$broken" "${model[@]}" "${all[@]}")
  rm -rf "$broken"
  "${words[@]}" 2>"$work/err" | head -1 >/dev/null
  codes=${PIPESTATUS[0]}
  [[ $codes == 0 && ! -s $work/err ]] || violation "| head -1: exit code $codes"
  must_equal_whole "$broken" "| head -1"
  rm -rf "$broken"
  "${words[@]}" 2>"$work/err" >&-
  codes=$?
  [[ $codes == 0 && ! -s $work/err ]] || violation "standard output closed: exit code $codes"
  must_equal_whole "$broken" "standard output closed"
  rm -rf "$broken"
  "${words[@]}" 2>"$work/err" >/dev/full
  code=$?
  must_fail "standard output: No space left on device" "standard output full"
  must_equal_whole "$broken" "standard output full"
  row "standard output closed, full" 3 "the run is whole"
}

two_runs() {
  local broken=$work/shared first
  rm -rf "$broken"
  start "$broken" "${all[@]}"
  first=$pid
  wait_for "$broken/checkpoint.safetensors"
  "$work/attune" train copy --out-dir "$broken" --resume >/dev/null 2>"$work/err"
  code=$?
  must_fail "is in use by another process" "two runs in one directory"
  pid=$first
  finish
  [[ $code == 0 ]] || violation "two runs in one directory: the first one ended with exit code $code"
  must_equal_whole "$broken" "two runs in one directory"
  row "two runs in one directory" 1 "the second one refused, the first one whole"
}

# Runs a run to its end through signals at random moments, on one and two threads in turn.
attempts=0
break_again_and_again() {  # DIRECTORY SIGNAL...
  local broken=$1 signals=("${@:2}") signal
  rm -rf "$broken"
  while :; do
    signal=${signals[RANDOM % ${#signals[@]}]}
    threads=$((1 + attempts++ % 2))
    start "$broken" "${all[@]}"
    doze "$(random_below $moment)"
    send "$signal"
    finish
    threads=1
    case $signal:$code in
      KILL:137) ((++kills)) ;;
      INT:130 | TERM:130)
        ((++interrupts))
        if [[ -s $work/out ]]; then
          grep -q '^interrupted after' "$work/out" || violation "SIG$signal: no last line that tells it"
          must_load "$broken" "SIG$signal"
        fi
        ;;
      TERM:143) [[ ! -s $work/out && ! -s $work/err ]] || violation "SIG$signal: exit code 143" ;;  # the program had not begun
      *:0) return ;;
      *) violation "SIG$signal: exit code $code" ;;
    esac
  done
}

survive_interrupts() {
  local runs=0
  interrupts=0
  while ((interrupts < least / 5 + 3)); do
    break_again_and_again "$work/interrupted" INT TERM
    must_equal_whole "$work/interrupted" "SIGINT, SIGTERM"
    ((++runs))
  done
  row "SIGINT, SIGTERM at random moments" $interrupts "saved with code 130; $runs runs ended bitwise"
}

survive_kills() {
  local runs=0
  kills=0
  while ((kills < least || SECONDS < seconds)); do
    break_again_and_again "$work/killed" KILL
    must_equal_whole "$work/killed" "kill -9"
    [[ $(ls -A "$work/killed") == "$(ls -A "$whole")" ]] || violation "kill -9: other files than the unbroken run"
    ((++runs))
  done
  row "kill -9 at random moments" $kills "$runs runs ended bitwise, with the same files"
}

least=$((seconds >= 300 ? 100 : seconds / 3))  # kills
least=$((least < 5 ? 5 : least))
begin=${EPOCHREALTIME/./}
run "$whole" "${all[@]}"
took=$(((${EPOCHREALTIME/./} - begin) / 1000))
[[ $code == 0 ]] || violation "the unbroken run ended with exit code $code"
run "$half" --max-iters $((steps / 2)) "${cadence[@]}"
[[ $code == 0 ]] || violation "half a run ended with exit code $code"
moment=$((took / 4 + 20))  # signals come before it
echo "a run of $steps steps takes $took ms"
row fault times "what was left"

full_disk
file_size_limit
read_only_directory
directory_gone
output_gone
two_runs
survive_interrupts
survive_kills

echo "survived all in $SECONDS s"
