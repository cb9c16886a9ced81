#!/usr/bin/env bash
# Every header compiles alone: the public ones seeing nothing but include/, those of src/ with src/ as well.
set -euo pipefail

cd "$(dirname "$0")/.."
flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Werror -Iinclude
       -fno-new-ttp-matching -DXTENSOR_USE_XSIMD -fopenmp-simd)
[[ $(uname -m) != x86_64 ]] || flags+=(-march=x86-64-v3)

check() {  # FOLDER [FLAG...]
  local folder=$1
  shift
  (cd "$folder" && find . -name '*.h' -printf '%P\0') |
    xargs -0 -P "$(nproc)" -I '{}' bash -c '
      header=$1; shift
      echo "#include \"$header\"" | g++ "$@" -x c++ - || { echo "$header does not compile alone"; exit 1; }
    ' check '{}' "${flags[@]}" "$@"
}
check include
check src -Isrc
echo "headers: $(find include src -name '*.h' | wc -l) compile alone"
