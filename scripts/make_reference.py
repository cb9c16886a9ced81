#!/usr/bin/env python3
"""Writes tests/parity/reference.json: what PyTorch computes, in float64, for small models with known weights.

usage: scripts/make_reference.py [FILE]          (Debian: python3-torch; a few seconds)

For some positional encodings in each of three architectures, and for the others in one: logits, the gradient of every parameter, and the losses
of ten training steps. tests/parity/parity_test.cpp builds the same models with the library and compares. Architectures,
names of parameters and formulas are those that the headers below include/attune document.

Weights are no random numbers, so the file holds results alone. With k the place of a parameter among all names in
alphabetical order and i the place of an element in row-major order, an element is

    0.3 sin((7 (i + 1)^2 + 13 k) mod 1009),     plus 1 in gains of norms.

An array x of n elements is written as [norm, largest magnitude, sum_i x_i sin(i + 1), samples ...]: a wrong element
anywhere shows in the sum. Sample j of m is element floor((2 j + 1) n / 2 m); m = min(n, 5), of logits 41.
"""
import json
import math
import os
import sys

import torch
from torch.nn import functional

VOCABULARY, EXAMPLES, TIME, BLOCK_SIZE = 11, 3, 20, 22
IGNORE = -100
TRAINING = {"steps": 10, "lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "grad_clip": 1.0}
ENCODINGS = ("none", "learned", "sinusoidal", "rope", "alibi", "t5")
# In one architecture, where widths of keys and values differ.
MORE_ENCODINGS = ("rope-interleaved", "rope-partial", "rope-pi", "rope-ntk", "rope-dynamic-ntk", "xpos", "kerple",
                  "kerple-power", "fire", "shaw", "transformer-xl", "cope")
# Sizes differ where they can, so that no axis can stand in for another.
ARCHITECTURES = {
    "pre": {"n_layer": 2, "n_head": 2, "n_embd": 16, "head_dim": 8, "value_dim": 8, "d_ff": 24, "activation": "gelu",
            "norm": "layernorm", "norm_position": "pre", "mask": "causal", "bias": True, "tie_head": True,
            "label_smoothing": 0.0},
    "gated": {"n_layer": 2, "n_head": 3, "n_embd": 12, "head_dim": 6, "value_dim": 5, "d_ff": 10,
              "activation": "swiglu", "norm": "rmsnorm", "norm_position": "pre", "mask": "causal", "bias": False,
              "tie_head": False, "label_smoothing": 0.1},
    "post": {"n_layer": 2, "n_head": 2, "n_embd": 14, "head_dim": 4, "value_dim": 7, "d_ff": 9,
             "activation": "gelu_tanh", "norm": "layernorm", "norm_position": "post", "mask": "none", "bias": True,
             "tie_head": False, "label_smoothing": 0.0},
}
T5_BUCKETS, T5_MAX_DISTANCE = 32, 128
EXTENSION = 2  # --pos-scale
SHAW_CLIP = 16


def parameter_shapes(config):
    """{name: shape} of all parameters; linear maps are [out, in]."""
    model, heads = config["n_embd"], config["n_head"]
    shapes = {"token_embedding.weight": (VOCABULARY, model)}

    def add_norm(path):
        shapes[path + ".gain"] = (model,)
        if config["bias"] and config["norm"] == "layernorm":
            shapes[path + ".shift"] = (model,)

    def add_linear(path, inputs, outputs):
        shapes[path + ".weight"] = (outputs, inputs)
        if config["bias"]:
            shapes[path + ".bias"] = (outputs,)

    if config["positions"] == "learned":
        shapes["position.weight"] = (BLOCK_SIZE, model)
    if config["positions"] == "t5":
        shapes["position.weight"] = (T5_BUCKETS, heads)
    shapes.update(position_shapes(config))
    for layer in range(config["n_layer"]):
        block = f"block.{layer}"
        add_norm(block + ".norm_1")
        add_linear(block + ".attention.query", model, heads * config["head_dim"])
        add_linear(block + ".attention.key", model, heads * config["head_dim"])
        add_linear(block + ".attention.value", model, heads * config["value_dim"])
        add_linear(block + ".attention.output", heads * config["value_dim"], model)
        add_norm(block + ".norm_2")
        if config["activation"] == "swiglu":
            add_linear(block + ".ffn.gate", model, config["d_ff"])
        add_linear(block + ".ffn.up", model, config["d_ff"])
        add_linear(block + ".ffn.down", config["d_ff"], model)
    if config["norm_position"] == "pre":
        add_norm("final_norm")
    if not config["tie_head"]:
        shapes["head.weight"] = (VOCABULARY, model)
    return shapes


def position_shapes(config):
    """Of MORE_ENCODINGS."""
    heads, width, layers = config["n_head"], config["head_dim"], range(config["n_layer"])
    if config["positions"].startswith("kerple"):
        return {"position.amount": (heads, 1), "position.shape": (heads, 1)}
    if config["positions"] == "fire":
        return {"position.steepness": (), "position.threshold": (), "position.hidden.weight": (32, 1),
                "position.hidden.bias": (32,), "position.output.weight": (heads, 32), "position.output.bias": (heads,)}
    if config["positions"] == "shaw":
        rows = 2 * SHAW_CLIP + 1
        return {f"position.{layer}.{name}": (rows, size) for layer in layers
                for name, size in (("key", width), ("value", config["value_dim"]))}
    if config["positions"] == "transformer-xl":
        return {"position.content": (heads * width,), "position.distance": (heads * width,),
                **{f"position.{layer}.weight": (heads * width, config["n_embd"]) for layer in layers}}
    if config["positions"] == "cope":
        return {f"position.{layer}.table": (BLOCK_SIZE, width) for layer in layers}
    return {}


def make_parameters(config):
    shapes = parameter_shapes(config)
    parameters = {}
    for k, name in enumerate(sorted(shapes)):
        offset = 1.0 if name.endswith(".gain") else 0.0
        values = [offset + 0.3 * math.sin((7 * (i + 1) ** 2 + 13 * k) % 1009) for i in range(math.prod(shapes[name]))]
        parameters[name] = torch.tensor(values, dtype=torch.float64).reshape(shapes[name]).requires_grad_()
    return parameters


def make_batch():
    """Tokens and targets, [EXAMPLES, TIME]; a quarter of the targets is not scored."""
    cells = range(EXAMPLES * TIME)
    tokens = [(5 * i + i * i // 3) % VOCABULARY for i in cells]
    targets = [IGNORE if i % 4 == 1 else (3 * i + i * i // 7 + 2) % VOCABULARY for i in cells]
    return torch.tensor(tokens).reshape(EXAMPLES, TIME), torch.tensor(targets).reshape(EXAMPLES, TIME)


def alibi_slopes(heads):
    """Press et al. 2022: geometric for a power of two; else those of the power below and every second of the next."""
    def geometric(n):
        return [2.0 ** (-8 * (h + 1) / n) for h in range(n)]
    below = 2 ** int(math.log2(heads))
    return geometric(below) + geometric(2 * below)[0::2][: heads - below]


def t5_bucket(offset, causal):
    """Raffel et al. 2020; offset = key - query. floor(log) in whole numbers: the largest s with
    (distance / exact)^wide >= (max / exact)^s."""
    buckets, first, distance = T5_BUCKETS, 0, max(-offset, 0)
    if not causal:
        buckets //= 2
        first, distance = (buckets if offset > 0 else 0), abs(offset)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    wide = buckets - exact
    steps = [s for s in range(wide) if distance**wide * exact**s >= T5_MAX_DISTANCE**s * exact**wide]
    return first + exact + max(steps)


class Model:
    def __init__(self, config):
        self.config = config
        self.parameters = make_parameters(config)

    def linear(self, x, path):
        return functional.linear(x, self.parameters[path + ".weight"], self.parameters.get(path + ".bias"))

    def norm(self, x, path):
        gain = self.parameters[path + ".gain"]
        if self.config["norm"] == "layernorm":
            return functional.layer_norm(x, gain.shape, gain, self.parameters.get(path + ".shift"), 1e-5)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain

    def embed(self, tokens):
        x = functional.embedding(tokens, self.parameters["token_embedding.weight"])
        if self.config["positions"] == "learned":
            return x + self.parameters["position.weight"][:TIME]
        if self.config["positions"] == "sinusoidal":  # Vaswani et al. 2017: sines in even places, cosines in odd ones
            model = self.config["n_embd"]
            frequency = 10000.0 ** (-torch.arange(0, model, 2, dtype=torch.float64) / model)
            angle = torch.outer(torch.arange(TIME, dtype=torch.float64), frequency)
            return x * math.sqrt(model) + torch.stack([angle.sin(), angle.cos()], -1).reshape(TIME, model)
        return x

    def rotate(self, x, growth=0):
        """x [examples, head, time, width]; Su et al. 2021: features k and k + width / 2 make a pair, or 2k and 2k + 1.
        growth: 1 of queries and -1 of keys where pairs are scaled (Sun et al. 2023)."""
        kind, width = self.config["positions"], x.shape[-1]
        if not kind.startswith("rope") and kind != "xpos":
            return x
        if kind == "rope-partial":  # the first quarter, in whole pairs
            width = 2 * math.ceil(width / 8)
        base = 10000.0 * (EXTENSION ** (width / (width - 2)) if kind == "rope-ntk" else 1)
        k = torch.arange(0, width, 2, dtype=torch.float64)
        time = torch.arange(TIME, dtype=torch.float64) / (EXTENSION if kind == "rope-pi" else 1)
        rotation = torch.exp(1j * torch.outer(time, base ** (-k / width)))
        if kind == "xpos":
            rotation = rotation * ((k + 0.4 * width) / (1.4 * width)) ** (growth * time[:, None] / 512)
        if kind == "rope-interleaved":
            rotated = torch.complex(x[..., 0::2], x[..., 1::2]) * rotation
            return torch.view_as_real(rotated).flatten(-2)
        rotated = torch.complex(x[..., : width // 2], x[..., width // 2 : width]) * rotation
        return torch.cat([rotated.real, rotated.imag, x[..., width:]], -1)

    def position_bias(self):
        """Added to the scaled scores: [head, query, key], or 0."""
        offsets = torch.arange(TIME)[None, :] - torch.arange(TIME)[:, None]
        if self.config["positions"] == "alibi":
            slopes = torch.tensor(alibi_slopes(self.config["n_head"]), dtype=torch.float64)
            return -slopes[:, None, None] * offsets.abs()
        if self.config["positions"] == "t5":
            causal = self.config["mask"] == "causal"
            buckets = torch.tensor([[t5_bucket(int(offset), causal) for offset in row] for row in offsets])
            return self.parameters["position.weight"][buckets].permute(2, 0, 1)
        distance = offsets.abs().double()
        if self.config["positions"] == "kerple":  # Chi et al. 2022
            amount, shape = self.kerple_parameters(functional.softplus)
            return -amount * torch.log1p(shape * distance)
        if self.config["positions"] == "kerple-power":
            amount, shape = self.kerple_parameters(lambda raw: 2 * torch.sigmoid(raw))
            return -amount * torch.where(distance > 0, distance.clamp(min=1) ** shape, 0.0)
        if self.config["positions"] == "fire":  # Li et al. 2024
            def psi(x):
                return torch.log1p((self.parameters["position.steepness"] * x).abs())
            threshold = (self.parameters["position.threshold"] * BLOCK_SIZE).abs()
            place = torch.arange(TIME, dtype=torch.float64)[:, None]
            ratio = psi(distance) / (psi(torch.maximum(threshold, place)) + 1e-6)
            hidden = functional.relu(self.linear(ratio[..., None], "position.hidden"))
            return self.linear(hidden, "position.output").permute(2, 0, 1)
        return 0.0

    def kerple_parameters(self, domain):
        raw_amount, raw_shape = self.parameters["position.amount"], self.parameters["position.shape"]
        return functional.softplus(raw_amount)[..., None], domain(raw_shape)[..., None]

    def content_bias(self, query, scores, keep, layer):
        """Added to the scaled scores of a layer: [examples, head, query, key], or 0. query: as projected."""
        offsets = torch.arange(TIME)[None, :] - torch.arange(TIME)[:, None]
        scale = 1 / math.sqrt(self.config["head_dim"])
        if self.config["positions"] == "shaw":  # Shaw et al. 2018
            vectors = self.parameters[f"position.{layer}.key"][offsets.clamp(-SHAW_CLIP, SHAW_CLIP) + SHAW_CLIP]
            return torch.einsum("bhid,ijd->bhij", query, vectors) * scale
        if self.config["positions"] == "transformer-xl":  # Dai et al. 2019; sines in front of cosines
            model = self.config["n_embd"]
            frequency = 10000.0 ** (-torch.arange(0, model, 2, dtype=torch.float64) / model)
            angle = -offsets[..., None] * frequency
            mapped = torch.cat([angle.sin(), angle.cos()], -1) @ self.parameters[f"position.{layer}.weight"].T
            heads = self.parameters["position.distance"].unflatten(0, (self.config["n_head"], 1, -1))
            mapped = mapped.unflatten(-1, (self.config["n_head"], -1))
            return torch.einsum("bhid,ijhd->bhij", query + heads, mapped) * scale
        if self.config["positions"] == "cope":  # Golovneva et al. 2024
            table = self.parameters[f"position.{layer}.table"]
            gates = torch.sigmoid(scores) * keep
            position = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=len(table) - 1)
            by_position = query @ table.T
            below = by_position.gather(-1, position.floor().long())
            above = by_position.gather(-1, position.ceil().long())
            return below + (position - position.floor()) * (above - below)
        return 0.0

    def attention(self, x, layer):
        path = f"block.{layer}.attention"

        def heads(name):
            return self.linear(x, f"{path}.{name}").unflatten(-1, (self.config["n_head"], -1)).transpose(1, 2)

        query, key, value = self.rotate(heads("query"), 1), self.rotate(heads("key"), -1), heads("value")
        asking = query
        if self.config["positions"] == "transformer-xl":
            asking = query + self.parameters["position.content"].unflatten(0, (self.config["n_head"], 1, -1))
        scores = asking @ key.transpose(-1, -2) / math.sqrt(self.config["head_dim"]) + self.position_bias()
        keep = torch.ones(TIME, TIME, dtype=torch.bool)
        if self.config["mask"] == "causal":
            keep = keep.tril()
        scores = scores + self.content_bias(query, scores, keep, layer)
        weights = scores.masked_fill(~keep, -math.inf).softmax(-1)
        mixed = weights @ value
        if self.config["positions"] == "shaw":
            offsets = torch.arange(TIME)[None, :] - torch.arange(TIME)[:, None]
            vectors = self.parameters[f"position.{layer}.value"][offsets.clamp(-SHAW_CLIP, SHAW_CLIP) + SHAW_CLIP]
            mixed = mixed + torch.einsum("bhij,ijd->bhid", weights, vectors)
        return self.linear(mixed.transpose(1, 2).flatten(2), path + ".output")

    def feed_forward(self, x, path):
        up = self.linear(x, path + ".up")
        if self.config["activation"] == "swiglu":
            return self.linear(functional.silu(self.linear(x, path + ".gate")) * up, path + ".down")
        form = "tanh" if self.config["activation"] == "gelu_tanh" else "none"
        return self.linear(functional.gelu(up, approximate=form), path + ".down")

    def logits(self, tokens):
        x = self.embed(tokens)
        for layer in range(self.config["n_layer"]):
            block = f"block.{layer}"
            if self.config["norm_position"] == "pre":
                x = x + self.attention(self.norm(x, block + ".norm_1"), layer)
                x = x + self.feed_forward(self.norm(x, block + ".norm_2"), block + ".ffn")
            else:
                x = self.norm(x + self.attention(x, layer), block + ".norm_1")
                x = self.norm(x + self.feed_forward(x, block + ".ffn"), block + ".norm_2")
        if self.config["norm_position"] == "pre":
            x = self.norm(x, "final_norm")
        head = "token_embedding.weight" if self.config["tie_head"] else "head.weight"
        return functional.linear(x, self.parameters[head])

    def loss(self, tokens, targets):
        """Mean over scored targets."""
        total = functional.cross_entropy(self.logits(tokens).flatten(0, 1), targets.flatten(), ignore_index=IGNORE,
                                         reduction="sum", label_smoothing=self.config["label_smoothing"])
        return total / (targets != IGNORE).sum()


def train(model, tokens, targets):
    """The loss before each update of AdamW; gradients are clipped to a global norm."""
    def decays(name):  # weights of linear maps and embeddings
        return name.endswith((".weight", ".key", ".value", ".table")) and not (name == "position.weight" and model.config["positions"] == "t5")

    groups = [{"params": [p for name, p in model.parameters.items() if decays(name)],
               "weight_decay": TRAINING["weight_decay"]},
              {"params": [p for name, p in model.parameters.items() if not decays(name)], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=TRAINING["lr"], betas=(TRAINING["beta1"], TRAINING["beta2"]),
                                  eps=TRAINING["eps"])
    losses = []
    for _ in range(TRAINING["steps"]):
        optimizer.zero_grad()
        loss = model.loss(tokens, targets)
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters.values()]
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        if norm > TRAINING["grad_clip"]:
            for gradient in gradients:
                gradient *= TRAINING["grad_clip"] / norm
        optimizer.step()
        losses.append(loss.item())
    return losses


def rounded(value):
    """To 15 digits. Gradients that are 0 in exact arithmetic (biases of keys) come out as noise of 1e-18."""
    return float(f"{value:.15g}") if abs(value) > 1e-15 else 0.0


def summary(array, samples):
    x = array.detach().flatten()
    n, m = len(x), min(len(x), samples)
    probe = torch.sin(torch.arange(1, n + 1, dtype=torch.float64))
    picked = [x[(2 * j + 1) * n // (2 * m)] for j in range(m)]
    return [rounded(float(v)) for v in (x.norm(), x.abs().max(), x @ probe, *picked)]


def make_case(encoding, architecture, tokens, targets):
    config = {"positions": encoding, **ARCHITECTURES[architecture]}
    model = Model(config)
    model.loss(tokens, targets).backward()
    logits = summary(model.logits(tokens), 41)
    # A token or position that is not read has gradient zero; a parameter always has one.
    gradients = {name: summary(parameter.grad, 5) for name, parameter in sorted(model.parameters.items())}
    losses = [rounded(loss) for loss in train(model, tokens, targets)]
    return {"architecture": architecture, "config": config, "losses": losses, "logits": logits, "gradients": gradients}


def lines_of(value):
    """JSON with a line for each list of numbers and each number of its own."""
    if isinstance(value, list) and not any(isinstance(entry, (dict, list)) for entry in value):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(lines_of, value)) + "\n]"
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{json.dumps(key)}:{lines_of(entry)}" for key, entry in value.items()) + "\n}"
    return json.dumps(value)


def main():
    default = os.path.join(os.path.dirname(__file__), "..", "tests", "parity", "reference.json")
    path = sys.argv[1] if len(sys.argv) > 1 else default
    torch.set_num_threads(1)
    tokens, targets = make_batch()
    reference = {
        "made_by": f"scripts/make_reference.py, PyTorch {torch.__version__}",
        "vocabulary": VOCABULARY, "block_size": BLOCK_SIZE, "training": TRAINING,
        "tokens": tokens.tolist(), "targets": targets.tolist(),
        "cases": [make_case(encoding, architecture, tokens, targets)
                  for encoding in ENCODINGS for architecture in ARCHITECTURES] +
                 [make_case(encoding, "gated", tokens, targets) for encoding in MORE_ENCODINGS],
    }
    with open(path, "w", encoding="utf-8") as file:
        file.write(lines_of(reference) + "\n")


if __name__ == "__main__":
    main()
