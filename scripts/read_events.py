#!/usr/bin/env python3
"""Prints what a run's TensorBoard event files hold, as JSON lines: step, tag, and value or histogram.

usage: scripts/read_events.py RUN_DIRECTORY
Shares no code with the program and needs the standard library alone. CRCs are checked; a record that
is cut off ends its file; where a file says that the run began again at a step, earlier files count
only below it, as TensorBoard does."""
import glob, json, os, struct, sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check(data, stored, what):
    crc = crc32c(data)
    if ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32 != struct.unpack("<I", stored)[0]:
        sys.exit(f"read_events.py: the CRC of {what} is wrong")


def records(path):
    data, place = open(path, "rb").read(), 0
    while place + 12 <= len(data):
        check(data[place:place + 8], data[place + 8:place + 12], f"a length in {path}")
        end = place + 12 + struct.unpack_from("<Q", data, place)[0]
        if end + 4 > len(data):
            return
        check(data[place + 12:end], data[end:end + 4], f"a record in {path}")
        yield data[place + 12:end]
        place = end + 4


def fields(message):
    """Number and value of each field: an integer, a float, or bytes (protocol buffers' wire format)."""
    place = 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
    while place < len(message):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint() if key & 7 == 2 else size
        raw, place = message[place:place + size], place + size
        yield key >> 3, raw if key & 7 == 2 else struct.unpack("<d" if size == 8 else "<f", raw)[0]


def values(summary):
    for _, value in fields(summary):
        entry = dict(fields(value))
        line = {"tag": entry[1].decode()}
        if 2 in entry:
            line["value"] = entry[2]
        if 5 in entry:
            names = {1: "min", 2: "max", 3: "num", 4: "sum", 5: "sum_squares", 6: "bucket_limit", 7: "bucket"}
            line["histogram"] = {names[n]: list(struct.unpack(f"<{len(v) // 8}d", v)) if n > 5 else v
                                 for n, v in fields(entry[5])}
        yield line


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = []
    for path in sorted(glob.glob(os.path.join(glob.escape(sys.argv[1]), "*tfevents*"))):
        for number, record in enumerate(records(path)):
            event = dict(fields(record))
            if number == 0 and event.get(3) != b"brain.Event:2":
                sys.exit(f"read_events.py: {path} does not begin with a version")
            step = event.get(2, 0)
            if dict(fields(event.get(7, b""))).get(1) == 1:  # the run began again
                lines = [line for line in lines if line["step"] < step]
            lines += [{"step": step, **line} for line in values(event.get(5, b""))]
    sys.stdout.write("".join(json.dumps(line) + "\n" for line in lines))


main()
