#!/usr/bin/env python3
"""Times the training steps of tests/benchmark in PyTorch and prints one line of JSON for each configuration, number of
threads and way of doing it.

usage: scripts/bench_torch.py [char|small|toy|wide ...] [--threads 1,2] [--rounds 11]

The work is that of our step: a batch out of prepared ones, forward, mean loss over all positions, backward, norm of the
gradients and clipping, AdamW with decay on matrices, the loss read. To find PyTorch's best, it is done in several ways:
  foreach          the optimizer updates all parameters at once (where this PyTorch can), or one after another
  fused_attention  PyTorch 2's own, or composed of products and a softmax
  setting          environment of a process of its own: memory kept or given back to the system between steps;
                   OpenBLAS with threads of its own, as many as PyTorch's or one, and its OpenMP build where
                   that is installed (Debian: libopenblas0-openmp), where it matters
The first two take turns in each round.
"""
import argparse
import glob
import inspect
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 65
BATCHES = 16  # that the steps take turns with
ROUND_SECONDS = 0.1
#                layers, heads, width, context, batch
CONFIGURATIONS = {
    "char": (4, 4, 128, 64, 12),
    "small": (2, 4, 64, 32, 64),
    "toy": (2, 2, 32, 16, 32),
    "wide": (6, 6, 384, 256, 8),
}
KEEP_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1073741824:"
                                 "glibc.malloc.trim_threshold=4294967296:glibc.malloc.top_pad=67108864"}
OPENMP_BLAS = "/usr/lib/*/openblas-openmp"
HAS_FOREACH = "foreach" in inspect.signature(torch.optim.AdamW.__init__).parameters
HAS_FUSED_ATTENTION = hasattr(functional, "scaled_dot_product_attention")


class Norm(nn.Module):
    """nn.LayerNorm without a shift, which PyTorch 1.13 cannot leave out."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.layer_norm(x, self.gain.shape, self.gain, None, 1e-5)


class Attention(nn.Module):
    """Causal self-attention; query, key and value come out of one product, PyTorch's faster way."""

    def __init__(self, width, heads, context, fused):
        super().__init__()
        self.heads = heads
        self.fused = fused
        self.projections = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        ahead = torch.ones(context, context, dtype=torch.bool).triu(1)
        self.register_buffer("ahead", ahead, persistent=False)

    def forward(self, x):
        batch, time_steps, width = x.shape
        head_dim = width // self.heads
        projected = self.projections(x).view(batch, time_steps, 3, self.heads, head_dim)
        query, key, value = projected.permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(head_dim))
            mixed = scores.masked_fill(self.ahead, -math.inf).softmax(-1) @ value
        return self.output(mixed.transpose(1, 2).reshape(batch, time_steps, width))


class Block(nn.Module):
    def __init__(self, width, heads, context, fused):
        super().__init__()
        self.norm_1 = Norm(width)
        self.attention = Attention(width, heads, context, fused)
        self.norm_2 = Norm(width)
        self.ffn = nn.Sequential(nn.Linear(width, 4 * width, bias=False), nn.GELU(),
                                 nn.Linear(4 * width, width, bias=False))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.ffn(self.norm_2(x))


class Transformer(nn.Module):
    """Pre-norm decoder with learned positions; the head is the token embedding."""

    def __init__(self, layers, heads, width, context, fused):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.empty(context, width))
        self.blocks = nn.Sequential(*(Block(width, heads, context, fused) for _ in range(layers)))
        self.norm = Norm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.blocks(self.tokens(tokens) + self.positions)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


class TrainingLoop:
    def __init__(self, configuration, foreach, fused):
        layers, heads, width, context, self.batch = configuration
        torch.manual_seed(1)
        self.model = Transformer(layers, heads, width, context, fused)
        examples = torch.randint(VOCABULARY, (2, BATCHES * self.batch, context))
        self.inputs, self.targets = examples[0], examples[1]
        self.parameters = list(self.model.parameters())
        groups = [{"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}]
        options = {"foreach": foreach} if HAS_FOREACH else {}
        self.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, **options)
        self.steps = 0

    def step(self):
        begin = self.steps % BATCHES * self.batch
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(self.inputs[begin:begin + self.batch],
                          self.targets[begin:begin + self.batch])
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.steps += 1
        if not math.isfinite(loss.item()):
            raise SystemExit("bench_torch.py: the loss is not finite")


def milliseconds_of(work, times):
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begin) * 1e3 / times


def measure(configuration, threads, rounds):
    """{(foreach, fused): [milliseconds of a step in each round]}"""
    torch.set_num_threads(threads)
    contestants = {}
    for foreach in (False, True) if HAS_FOREACH else (False,):
        for fused in (False, True) if HAS_FUSED_ATTENTION else (False,):
            loop = TrainingLoop(configuration, foreach, fused)
            for _ in range(3):
                loop.step()
            times = max(1, math.ceil(ROUND_SECONDS * 1e3 / milliseconds_of(loop.step, 2)))
            contestants[foreach, fused] = (loop, times, [])
    for _ in range(rounds):
        for loop, times, results in contestants.values():
            if times > 1:
                loop.step()
            results.append(milliseconds_of(loop.step, times))
    return {way: results for way, (_, _, results) in contestants.items()}


def quartiles(values):
    if len(values) == 1:
        return {"p25": values[0], "median": values[0], "p75": values[0]}
    p25, median, p75 = statistics.quantiles(values, n=4, method="inclusive")
    return {"p25": p25, "median": median, "p75": p75}


def settings_of(threads):
    """(name, environment) of each process to measure in; libraries and numbers of threads are read at its start."""
    blas_builds = [("", {"OPENBLAS_NUM_THREADS": str(threads)})]
    if threads > 1:
        blas_builds.append(("OpenBLAS on one thread", {"OPENBLAS_NUM_THREADS": "1"}))
    blas_builds += [("OpenBLAS with OpenMP", {"LD_LIBRARY_PATH": path}) for path in glob.glob(OPENMP_BLAS)]
    for blas, blas_variables in blas_builds:
        for memory, variables in (("", {}), ("memory kept", KEEP_MEMORY)):
            yield (", ".join(filter(None, (memory, blas))),
                   {"OMP_NUM_THREADS": str(threads), **blas_variables, **variables})


def measure_here(name, threads, rounds, setting):
    for (foreach, fused), results in measure(CONFIGURATIONS[name], threads, rounds).items():
        line = {"configuration": name, "threads": threads, "rounds": rounds, "torch": torch.__version__,
                "setting": setting, "foreach": foreach, "fused_attention": fused, "step_ms": quartiles(results)}
        print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Times training steps in PyTorch.")
    parser.add_argument("configurations", nargs="*", help="char, small, toy, wide; default: all")
    parser.add_argument("--threads", default="1,2", help="numbers of threads")
    parser.add_argument("--rounds", type=int, default=11, help="rounds that the median is taken of")
    parser.add_argument("--setting", help="measure in this process, whose environment has this name")
    arguments = parser.parse_args()
    names = arguments.configurations or list(CONFIGURATIONS)
    for name in names:
        if name not in CONFIGURATIONS:
            parser.error(f"unknown configuration {name}, expected {', '.join(CONFIGURATIONS)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds: {arguments.rounds} is below 1")

    for threads in map(int, arguments.threads.split(",")):
        if arguments.setting is not None:
            for name in names:
                measure_here(name, threads, arguments.rounds, arguments.setting)
            continue
        for setting, environment in settings_of(threads):
            command = [sys.executable, __file__, *names, "--threads", str(threads), "--rounds",
                       str(arguments.rounds), "--setting", setting]
            subprocess.run(command, env={**os.environ, **environment}, check=True)


if __name__ == "__main__":
    main()
