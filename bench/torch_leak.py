#!/usr/bin/env python3
"""The same leaking dataset in PyTorch's DataLoader and in Bulkhead's, under one memory limit: who delivers how many batches?

    bench/torch_leak.py [--limit-mib 3072] [--samples 8000]        (as root)

The dataset keeps 1 MiB with each sample, and aborts in every 500th call of a process. Each loader runs in a process of its
own, in a cgroup with the limit for it and all of its workers: 2 workers, batches of 10. Printed is how many batches came
before the end, and how it ended. Needs torch.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

from support import BIN, ROOT, machine, make_cgroup, remove_cgroup

TRAINER = """
import sys
sys.path[:0] = [{tests!r}, {client!r}]
import own_datasets, torch.utils.data, bulkhead.torch
if __name__ == "__main__":
    of = {{"PyTorch": torch.utils.data.DataLoader, "Bulkhead": bulkhead.torch.DataLoader}}[sys.argv[1]]
    more = {{"worker_quota": "512MiB"}} if sys.argv[1] == "Bulkhead" else {{}}
    loader = of(own_datasets.Leaks({samples}), batch_size=10, num_workers=2, **more)
    count, right = 0, True
    for number, batch in enumerate(loader):
        count += 1
        right = right and batch.tolist() == list(range(10 * number, 10 * number + 10))
        print(count, right, flush=True)
"""


def run(name, program, limit):
    cgroup = make_cgroup(limit)
    begin = time.monotonic()
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'echo $$ >{cgroup}/cgroup.procs; exec "$0" "$@"', sys.executable, program, name],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "BULKHEAD_SERVER": str(BIN / "bulkheadd")},
    )  # fmt: skip
    output, errors = process.communicate()
    lines = output.split("\n")[:-1]
    count, right = lines[-1].split() if lines else (0, "True")
    words = [line for line in errors.splitlines() if "Error" in line]
    how = "the end of the epoch" if process.returncode == 0 else words[-1][:160] if words else f"status {process.returncode}"
    print(f"{name}: {count} batches in {time.monotonic() - begin:.0f} s, all right: {right}; then {how}", flush=True)
    remove_cgroup(cgroup)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit-mib", type=int, default=3072)
    parser.add_argument("--samples", type=int, default=8000)
    options = parser.parse_args()
    print(f"{machine()}; {' '.join(sys.argv)}")
    tests, client = ROOT / "client/python/tests_frameworks/torch_tests", ROOT / "client/python"
    program = pathlib.Path(f"/tmp/bulkhead-leak-{os.getpid()}.py")
    program.write_text(TRAINER.format(tests=str(tests), client=str(client), samples=options.samples))
    try:
        for name in ("PyTorch", "Bulkhead"):
            run(name, program, options.limit_mib << 20)
    finally:
        program.unlink()


if __name__ == "__main__":
    main()
