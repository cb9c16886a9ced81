#!/usr/bin/env python3
"""Reads and writes checkpoint.safetensors with NumPy alone (the format: data/README.md).

    read_checkpoint.py FILE        prints every array's name, dtype and shape, then the metadata

    from read_checkpoint import load, save
    arrays, metadata = load("runs/copy-1/checkpoint.safetensors")
"""
import json
import sys

import numpy

DTYPES = {"F32": numpy.dtype("<f4"), "F64": numpy.dtype("<f8")}


def load(path):
    """({name: array}, {key: text}) of a safetensors file, in the order of its header."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        elements = numpy.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
        arrays[name] = elements.reshape(entry["shape"])
    return arrays, metadata


def save(path, arrays, metadata):
    """Writes float32 and float64 arrays and metadata of text; what load() gave may be changed and saved."""
    header, parts, offset = {"__metadata__": metadata}, [], 0
    for name, array in arrays.items():
        dtype = {"f4": "F32", "f8": "F64"}[numpy.asarray(array).dtype.str[1:]]
        parts.append(numpy.asarray(array, DTYPES[dtype]).tobytes())
        header[name] = {"dtype": dtype, "shape": numpy.shape(array), "data_offsets": [offset, offset + len(parts[-1])]}
        offset += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def main(path):
    arrays, metadata = load(path)
    for name, array in arrays.items():
        print(f"{name}  {array.dtype}  {list(array.shape)}")
    for key, text in metadata.items():
        print(f"{key} = {text!r}" if len(text) <= 200 else f"{key} = {text[:200]!r}... ({len(text)} characters)")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: read_checkpoint.py FILE")
    main(sys.argv[1])
