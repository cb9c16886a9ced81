#!/usr/bin/env python3
"""Recomputes the validation loss of a text run in NumPy alone, with none of the code that trained it.

    recompute_loss.py RUN [--data FILE] [--eval-iters N] [--compare ATTUNE_BINARY]

Weights and configuration are those of RUN/checkpoint.safetensors, the windows those that `attune eval RUN
--eval-iters N` draws; arithmetic is in float64. --compare runs that command too and prints the difference. Exit
codes: 0, or 1 where the losses differ by more than 1e-4 nats, or 2 where there is nothing to compare.
"""
import argparse
import json
import math
import subprocess
import sys
import tomllib

import numpy

from read_checkpoint import load

LARGEST_DIFFERENCE = 1e-4
KNOWN = {"task": "text", "pos": "learned", "mask": "causal", "norm": "layernorm", "norm_pos": "pre",
         "activation": "gelu", "ffn": "on", "residual": "on"}
WORD = 0xFFFFFFFF


def philox4x32(counter, key):
    """Four 32-bit words by ten rounds of Philox4x32: Salmon et al. (2011), "Parallel Random Numbers", section 3.3."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        product0, product1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = product1 >> 32 ^ c1 ^ k0, product1 & WORD, product0 >> 32 ^ c3 ^ k1, product0 & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return c0, c1, c2, c3


def path_hash(path):
    """64-bit FNV-1a, upper half XOR lower half."""
    value = 0xCBF29CE484222325
    for byte in path.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value >> 32 ^ value & WORD


def draw_below(bound, seed, path, example):
    """Uniform in [0, bound) from the words of one example, at step 0, without bias: Lemire (2019)."""
    threshold = (1 << 32) % bound
    for block in range(1 << 32):
        for word in philox4x32((block, example, 0, path_hash(path)), (seed & WORD, seed >> 32)):
            if word * bound & WORD >= threshold:
                return word * bound >> 32


def read_tokens(path, vocabulary):
    with open(path, encoding="utf-8-sig", newline="") as file:
        text = file.read().replace("\r\n", "\n")
    if sorted(set(text)) != vocabulary:
        raise ValueError(f"{path} has another vocabulary than the run")
    return numpy.searchsorted([ord(character) for character in vocabulary], [ord(character) for character in text])


class Decoder:
    def __init__(self, arrays, config):
        self.config = config
        self.weights = {name: a.astype(numpy.float64) for name, a in arrays.items() if not name.startswith("optim.")}
        self.used = set()  # a parameter that no formula below asks for would mean another architecture

    def weight(self, name):
        if name not in self.weights:
            raise ValueError(f"the checkpoint has no {name}")
        self.used.add(name)
        return self.weights[name]

    def linear(self, x, path):
        y = x @ self.weight(path + ".weight").T  # weights are [out, in]
        return y + self.weight(path + ".bias") if self.config["bias"] else y

    def norm(self, x, path):
        centred = x - x.mean(-1, keepdims=True)
        y = centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * self.weight(path + ".gain")
        return y + self.weight(path + ".shift") if self.config["bias"] else y

    def attention(self, x, path):
        examples, time, _ = x.shape

        def heads(name):  # [examples, head, time, width of a head]
            y = self.linear(x, f"{path}.{name}")
            return y.reshape(examples, time, self.config["n_head"], -1).transpose(0, 2, 1, 3)

        query, key, value = heads("query"), heads("key"), heads("value")
        named_scales = {"sqrt": query.shape[-1] ** -0.5, "none": 1}
        scale = named_scales.get(self.config["attn_scale"]) or float(self.config["attn_scale"])
        scores = query @ key.transpose(0, 1, 3, 2) * scale
        scores[..., numpy.triu(numpy.ones((time, time), bool), 1)] = -numpy.inf  # keys later than the query
        pattern = numpy.exp(scores - scores.max(-1, keepdims=True))
        pattern /= pattern.sum(-1, keepdims=True)
        return self.linear((pattern @ value).transpose(0, 2, 1, 3).reshape(examples, time, -1), path + ".output")

    def losses(self, tokens, targets):
        """-ln p(target) at each position; tokens and targets are [examples, time]."""
        erf = numpy.vectorize(math.erf, otypes=[numpy.float64])
        x = self.weight("token_embedding.weight")[tokens] + self.weight("position.weight")[: tokens.shape[1]]
        for layer in range(self.config["n_layer"]):
            block = f"block.{layer}"
            x = x + self.attention(self.norm(x, block + ".norm_1"), block + ".attention")
            hidden = self.linear(self.norm(x, block + ".norm_2"), block + ".ffn.up")
            gelu = hidden / 2 * (1 + erf(hidden / math.sqrt(2)))  # x times the standard normal's distribution function
            x = x + self.linear(gelu, block + ".ffn.down")
        head = "token_embedding.weight" if self.config["tie_head"] else "head.weight"
        logits = self.norm(x, "final_norm") @ self.weight(head).T  # the head never has a bias
        if unused := sorted(self.weights.keys() - self.used):
            raise ValueError(f"the checkpoint has {unused[0]}, which is not known here")
        logits -= logits.max(-1, keepdims=True)
        return numpy.log(numpy.exp(logits).sum(-1)) - numpy.take_along_axis(logits, targets[..., None], -1)[..., 0]


def read_run(run):
    """(arrays, configuration without its tables, vocabulary); ValueError for a model other than the one above."""
    arrays, metadata = load(f"{run}/checkpoint.safetensors")
    tables = tomllib.loads(metadata["config"])
    config = {key: value for table in tables.values() if isinstance(table, dict) for key, value in table.items()}
    config["task"] = tables["task"]
    for key, value in KNOWN.items():
        if config[key] != value:
            raise ValueError(f"{run} has {key} = {config[key]!r}, only {value!r} is known here")
    return arrays, config, json.loads(metadata["vocabulary"])


def recompute(run, data, batches):
    """(nats a token, tokens) over the windows of `attune eval`."""
    arrays, config, vocabulary = read_run(run)
    tokens = read_tokens(data or config["data"], vocabulary)
    held_out = tokens[int(len(tokens) * 0.9) :]  # the last tenth
    block, examples, total = config["block_size"], config["batch_size"], 0.0
    if len(held_out) <= block:
        raise ValueError(f"{len(held_out)} held-out characters are too few for windows of {block}")
    decoder = Decoder(arrays, config)
    for first in range(0, batches * examples, examples):
        starts = [draw_below(len(held_out) - block, config["seed"], "task.evaluation.val", example)
                  for example in range(first, first + examples)]
        windows = numpy.stack([held_out[start : start + block + 1] for start in starts])
        total += decoder.losses(windows[:, :-1], windows[:, 1:]).sum()
    return total / (batches * examples * block), batches * examples * block


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--data", metavar="FILE", help="the text, where it lies elsewhere than in training")
    parser.add_argument("--eval-iters", metavar="N", type=int, default=200, help="batches (default: 200)")
    parser.add_argument("--compare", metavar="ATTUNE_BINARY", help="print the difference from its eval")
    options = parser.parse_args()
    if options.eval_iters < 1:
        raise ValueError(f"--eval-iters: {options.eval_iters} is below 1")
    loss, tokens = recompute(options.run, options.data, options.eval_iters)
    line, agrees = f"{loss:.8f} nats a token, {tokens} tokens", True
    if options.compare:
        command = [options.compare, "eval", options.run, "--eval-iters", str(options.eval_iters), "--json"]
        theirs = json.loads(subprocess.check_output(command + (["--data", options.data] if options.data else [])))
        difference = loss - theirs["val_loss"]
        agrees = abs(difference) <= LARGEST_DIFFERENCE and tokens == theirs["tokens"]
        line += f"; attune eval: {theirs['val_loss']:.8f}, {theirs['tokens']} tokens, difference {difference:+.2e}"
    print(line)
    return 0 if agrees else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"recompute_loss: {error}", file=sys.stderr)
    except KeyError as key:
        print(f"recompute_loss: the checkpoint has no {key} in its configuration", file=sys.stderr)
    sys.exit(2)
