#!/usr/bin/env python3
"""What watching a run costs: the same run with different logs, in turn; of each the least time of several rounds.

usage: scripts/log_overhead.py [ROUNDS [ATTUNE [TRAIN_OPTION...]]]     7 rounds of build/attune where not given
Three sizes, by one thread: the defaults of `text` (on a text made here) and of `copy`, and 2 layers, 2 heads, width 32,
16 tokens, batch 32. Wall: the time between the
first step's line and the last one's. CPU: that of the process less that of a run of one step; where others use the
machine too, it is the steadier one."""
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


def run(task, steps, logs, directory):
    """Wall and CPU seconds."""
    command = [attune, "train", *task, f"--max-iters={steps}", f"--eval-interval={steps}", "--eval-iters=1",
               "--keep-best=false", "--threads=1", f"--out-dir={directory}", *logs, *more]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"log_overhead.py: {' '.join(command)} failed")
    with open(os.path.join(directory, "metrics.jsonl")) as log:
        lines = [json.loads(line) for line in log]
    return lines[-1]["elapsed_seconds"] - lines[0]["elapsed_seconds"], usage.ru_utime + usage.ru_stime


def measure(name, task, steps, place):
    wall, cpu = {logs: [] for logs in LOGS}, {logs: [] for logs in LOGS}
    for number in range(rounds):
        turn = number % len(LOGS)  # nobody is always the first
        for logs, options in [*LOGS.items()][turn:] + [*LOGS.items()][:turn]:
            directory = os.path.join(place, f"{name}-{number}-{logs.replace(' ', '-')}")
            start = run(task, 1, options, directory + "-start")[1]
            times = run(task, steps, options, directory)
            wall[logs].append(times[0])
            cpu[logs].append(times[1] - start)
    for logs in LOGS:
        print(f"{name}: {logs:34}", *(
            f"{what} {1000 * min(times[logs]) / (steps - 1):8.3f} ms a step "
            f"{100 * (min(times[logs]) / min(times['nothing']) - 1):+6.2f} %  "
            for what, times in (("wall", wall), ("CPU", cpu))), flush=True)


with tempfile.TemporaryDirectory() as place:
    text = os.path.join(place, "text")
    draw = random.Random(1)
    with open(text, "w") as file:
        file.write(" ".join("".join(draw.choices("abcdefghijklmnop", k=5)) for _ in range(50000)))
    measure("text", ["text", f"--data={text}"], 60, place)
    measure("copy", ["copy"], 150, place)
    measure("toy", ["copy", "--n-head=2", "--n-embd=32", "--length=1..7", "--batch-size=32"], 1000, place)
