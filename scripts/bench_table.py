#!/usr/bin/env python3
"""Prints one table out of the JSON lines of step_benchmark and, where given, of bench_torch.py.

usage: scripts/bench_table.py STEP_LINES [TORCH_LINES]

"torch" is PyTorch's best way on that number of threads, "torch/ours" the ratio on that number of threads; the lines
below the table compare the best of each over all numbers of threads.
"""
import json
import sys


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def way(line):
    parts = ["foreach" if line["foreach"] else "for-loop"]
    if line["fused_attention"]:
        parts.append("fused attention")
    if line["setting"]:
        parts.append(line["setting"])
    return ", ".join(parts)


def median(line):
    return line["step_ms"]["median"]


def best(lines, configuration, threads=None):
    """The fastest line, None without any."""
    fitting = [line for line in lines if line["configuration"] == configuration
               and threads in (None, line["threads"])]
    return min(fitting, key=median, default=None)


def spread(quartiles):
    digits = 3 if quartiles["median"] < 10 else 1
    return "{median:.{d}f} ({p25:.{d}f}-{p75:.{d}f})".format(d=digits, **quartiles)


def row(ours, torch):
    gflops = ours["floor_operations"] / 1e6
    return [ours["configuration"], str(ours["threads"]), spread(ours["step_ms"]),
            f"{ours['tokens_per_second']:.0f}", f"{gflops / median(ours):.1f}", spread(ours["floor_ms"]),
            spread(ours["times_floor"]),
            f"{ours['gain_over_floor_gain']['median']:.2f}" if "gain_over_floor_gain" in ours else "",
            f"{ours['statistics_ratio']['median']:.3f}", f"{ours['system_allocations_per_step']:.2f}",
            f"{ours['peak_bytes'] / 2**20:.2f}", spread(torch["step_ms"]) if torch else "-",
            f"{median(torch) / median(ours):.2f}" if torch else "-"]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    steps = read(sys.argv[1])
    torches = read(sys.argv[2]) if len(sys.argv) == 3 else []
    if not steps:
        sys.exit(f"bench_table.py: {sys.argv[1]} is empty")

    header = ["model", "threads", "step ms (p25-p75)", "tokens/s", "GFLOP/s", "floor ms", "times floor", "gain",
              "stats", "allocs", "peak MiB", "torch ms", "torch/ours"]
    rows = [header] + [row(ours, best(torches, ours["configuration"], ours["threads"])) for ours in steps]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(header))]
    print(f"medians of {steps[0]['rounds']} rounds; BLAS kernel {steps[0]['blas_kernel']}; gain: speed-up over one "
          "thread, ours / floor; stats: with statistics / without")
    for cells in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(cells, widths)).rstrip())
    for name in dict.fromkeys(line["configuration"] for line in steps):
        ours, torch = best(steps, name), best(torches, name)
        if torch:
            print(f"{name}: PyTorch {torch['torch']} at best {median(torch):.3g} ms ({torch['threads']} threads, "
                  f"{way(torch)}), ours at best {median(ours):.3g} ms ({ours['threads']} threads): "
                  f"PyTorch's best / ours = {median(torch) / median(ours):.2f}")


if __name__ == "__main__":
    main()
