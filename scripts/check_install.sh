#!/usr/bin/env bash
# Installs into a temporary prefix, builds tests/install against it with find_package(attune), and runs that.
# usage: scripts/check_install.sh [BUILD_DIR]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
[[ -e $build/CMakeCache.txt ]] || "$root/scripts/build.sh" "$build"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/prefix" >/dev/null
cmake -S "$root/tests/install" -B "$place/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$place/prefix"
cmake --build "$place/build"
"$place/build/program"
"$place/prefix/bin/attune" --version
echo "install: a program outside the tree builds and runs"
