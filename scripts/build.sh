#!/usr/bin/env bash
# Builds the library and the program: DIR/attune (DIR is `build` where it is not given). Needs scripts/install-dependencies.sh.
# usage: scripts/build.sh [DIR [CMAKE_OPTION...]]     such as: scripts/build.sh build -DATTUNE_NATIVE=ON
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
directory=${1:-$root/build}
shift $(($# > 0 ? 1 : 0))

cmake -S "$root" -B "$directory" -G Ninja -DCMAKE_BUILD_TYPE=Release -DATTUNE_TESTS=OFF "$@"
cmake --build "$directory"
