#!/usr/bin/env bash
# Installs what building, testing and checking Attune needs on Debian 12: only the packages that are missing.
# usage: scripts/install-dependencies.sh [ANOTHER_PACKAGE...]
set -euo pipefail

packages=(
  g++ cmake ninja-build
  libxtensor-dev libxtensor-blas-dev libxsimd-dev          # arrays
  libopenblas-dev libopenblas0-pthread                     # matrix products; the serial OpenBLAS is not safe with threads
  librandom123-dev libfmt-dev libcxxopts-dev nlohmann-json3-dev libtomlplusplus-dev
  libjs-vega                                               # the charts of attune report
  libprotobuf-dev protobuf-compiler                        # TensorBoard event files; a build without has none
  libgtest-dev libbenchmark-dev                            # tests and benchmarks
  gnuplot-nox                                              # pictures of attune study and others; they do without
  python3 python3-numpy                                    # checks of the source tree and of logged entropies
  "$@"
)

fail() { echo "install-dependencies.sh: $*" >&2; exit 1; }

command -v dpkg-query >/dev/null ||
  fail "this is not Debian; install the equivalents of: ${packages[*]}"
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $status == ii* ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null ||
    fail "these packages are missing and only root can install them: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update -q &&
       "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"; } \
     >"$log" 2>&1 </dev/null; then
  tail -n 15 "$log" >&2
  fail "apt-get could not install ${missing[*]} (its last lines stand above; is there a network?)"
fi
