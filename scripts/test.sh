#!/usr/bin/env bash
# From a fresh clone to the result of all tests: installs what is missing, builds in `build` and runs ctest.
# usage: scripts/test.sh [CTEST_OPTION...]     such as: scripts/test.sh -R autodiff
set -euo pipefail

cd "$(dirname "$0")/.."
start=$SECONDS
scripts/install-dependencies.sh
scripts/build.sh build -DATTUNE_TESTS=ON
built=$SECONDS
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" "$@"
echo "built in $((built - start)) s, tested in $((SECONDS - built)) s"
