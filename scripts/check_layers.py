#!/usr/bin/env python3
"""Fails where an include goes against the layers (src/README.md) and prints file:line of each such include.

Includes go only to the same layer or to one further left; public headers see public headers only; xtensor, xsimd and
BLAS are met in src/array, src/kernels and the bridge attune/array/xtensor.h alone; no public header brings a library
that is slow to compile.
"""
import pathlib
import re
import sys

LAYERS = "core array kernels autodiff ops nn model task optim train observe cli".split()
BRIDGE = "attune/array/xtensor.h"
ARRAY_LIBRARY = re.compile(r"(xtensor|xtensor-blas|xsimd|xtl|xflens)/|(cblas|lapacke|f77blas|openblas_config)\.h$")
KEPT_OUT_OF_HEADERS = re.compile(r"(nlohmann|toml\+\+|Random123|fmt|gtest|benchmark)/|cxxopts\.hpp$")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^">]+)[">]')


def layer_of_include(name):
    """The layer that a quoted include such as attune/ops/softmax.h or kernels/gemm.h names; None: not ours."""
    parts = name.split("/")
    if parts[0] == "attune":
        parts = parts[1:]
    return parts[0] if parts[0] in LAYERS else None


def complaints(path, root):
    relative = path.relative_to(root)
    is_public = relative.parts[0] == "include"
    layer = relative.parts[2 if is_public else 1]
    if layer not in LAYERS:
        yield 1, f"'{layer}' is not a layer: {' '.join(LAYERS)}"
        return
    if is_public and layer == "kernels":
        yield 1, "kernels have no public headers"
    is_bridge = is_public and "/".join(relative.parts[1:]) == BRIDGE
    may_use_arrays = is_bridge or (not is_public and layer in ("array", "kernels"))
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        bracket, name = found.groups()
        if (ARRAY_LIBRARY.match(name) or name == BRIDGE) and not may_use_arrays:
            yield number, f"{name} belongs to src/array, src/kernels and {BRIDGE} alone"
        if is_public and KEPT_OUT_OF_HEADERS.match(name):
            yield number, f"{name} does not belong in a public header"
        if bracket == "<" and not name.startswith("attune/"):
            continue
        if is_public and not name.startswith("attune/"):
            yield number, f"{name} is not public, but the header that includes it is"
        included = layer_of_include(name)
        if included is None:
            yield number, f"{name} names no layer; includes start at include/ or src/"
        elif LAYERS.index(included) > LAYERS.index(layer):
            yield number, f"{layer} includes {name}: {included} stands to its right"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = sorted(p for folder in ("include/attune", "src") for p in (root / folder).rglob("*")
                   if p.suffix in (".h", ".cpp"))
    failed = 0
    for path in files:
        for number, text in complaints(path, root):
            print(f"{path.relative_to(root)}:{number}: {text}")
            failed += 1
    print(f"layers: {len(files)} files, {failed} includes against the order")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
