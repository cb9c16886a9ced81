#!/usr/bin/env bash
# Fails where clang-format would change a file. To mend: scripts/check_format.sh --fix
set -euo pipefail

cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "check_format.sh: clang-format is not installed" >&2; exit 1; }
mode=(--dry-run -Werror)
[[ ${1:-} != --fix ]] || mode=(-i)
find include src tests examples \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 -n 16 -P "$(nproc)" clang-format "${mode[@]}"
echo "format: $(find include src tests examples -name '*.h' -o -name '*.cpp' | wc -l) files"
