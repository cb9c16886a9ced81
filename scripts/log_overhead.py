#!/usr/bin/env python3
"""What watching a run costs: the same run with different logs, in turn; of each the least time of several rounds.

usage: scripts/log_overhead.py [ROUNDS [ATTUNE [TRAIN_OPTION...]]]     7 rounds of build/attune where not given
Two sizes: the default of `text` (on a text made here) and of `copy`. The time is that between the first step's line
and the last one's, evaluation of the last state (one batch) included."""
import json, os, random, subprocess, sys, tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
attune = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, "build", "attune")
more = sys.argv[3:]

NOTHING = ["--log-interval=1000000", "--attention-interval=0"]
EVERY_STEP = ["--log-interval=1", "--attention-interval=1"]
LOGS = {
    "nothing": NOTHING,
    "default": [],
    "entropy every step": EVERY_STEP,
    "entropy and gradients every step": EVERY_STEP + ["--log-grads"],
    "all of it every step": EVERY_STEP + ["--log-grads", "--log-activations"],
}


def seconds(task, steps, logs, directory):
    command = [attune, "train", *task, f"--max-iters={steps}", f"--eval-interval={steps}", "--eval-iters=1",
               "--keep-best=false", f"--out-dir={directory}", *logs, *more]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(directory, "metrics.jsonl")) as log:
        lines = [json.loads(line) for line in log]
    return lines[-1]["elapsed_seconds"] - lines[0]["elapsed_seconds"]


with tempfile.TemporaryDirectory() as place:
    text = os.path.join(place, "text")
    draw = random.Random(1)
    with open(text, "w") as file:
        file.write(" ".join("".join(draw.choices("abcdefghijklmnop", k=5)) for _ in range(50000)))
    for name, task, steps in (("text", ["text", f"--data={text}"], 100), ("copy", ["copy"], 300)):
        times = {logs: [] for logs in LOGS}
        for number in range(rounds):
            for logs, options in LOGS.items():
                run = os.path.join(place, f"{name}-{number}-{logs.replace(' ', '-')}")
                times[logs].append(seconds(task, steps, options, run))
        least = {logs: min(values) for logs, values in times.items()}
        for logs, value in least.items():
            ratio = 100 * (value / least["nothing"] - 1)
            print(f"{name}: {logs:34} {1000 * value / (steps - 1):8.3f} ms a step  {ratio:+6.2f} %", flush=True)
