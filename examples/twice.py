"""Trains twice from a service, which is killed (SIGKILL) and started again in the middle of the
second run, and compares every number that the training printed.

    python examples/twice.py examples/torch_train.py [options of that example]

Needs the `bulkhead` package on the path, and bulkheadd on the PATH or named by $BULKHEAD_SERVER.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


class Service:
    """bulkheadd on a Unix socket in `folder`, until it is killed; `start` starts it again."""

    def __init__(self, program: object, folder: pathlib.Path, *options: object):
        self.target = f"unix:{folder}/s.sock"
        self._command = [str(program), "--listen", self.target, "--cache-dir", f"{folder}/cache"]
        self._command += [str(option) for option in options]
        self.start()

    def start(self) -> None:
        ready, child_end = os.pipe()
        self._process = subprocess.Popen(
            [*self._command, "--log-level", "err", "--ready-fd", str(child_end)],
            pass_fds=(child_end,),
        )
        os.close(child_end)
        with os.fdopen(ready) as said:
            if not said.readline().startswith("ready"):
                sys.exit("the service did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def train(command: list, service: Service, kill_after: int = 0) -> list:
    """What the training printed, line by line; the service is killed behind line `kill_after`."""
    process = subprocess.Popen(
        [sys.executable, "-u", *command, "--target", service.target],
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if len(lines) == kill_after:
            service.kill()
            service.start()
    if process.wait() != 0:
        sys.exit(f"{command[0]} failed; it printed\n" + "\n".join(lines))
    return lines


def main() -> None:
    program = (
        os.environ.get("BULKHEAD_SERVER")
        or shutil.which("bulkheadd")
        or sys.exit("there is no bulkheadd")
    )
    with tempfile.TemporaryDirectory(prefix="twice-") as name:
        folder = pathlib.Path(name)
        command = [*sys.argv[1:], "--data", f"{folder}/data"]
        service = Service(program, folder, "--root", folder, "--workers", 2)
        try:
            first = train(command, service)
            second = train(command, service, kill_after=len(first) // 4)
        finally:
            service.kill()
    for one, other in zip(first, second):
        print(one if one == other else f"{one}   the second time: {other}")
    if [first[-1], second[-1][:12]] != ["reconnects 0", "reconnects 1"]:
        sys.exit(f"FAILED: expected a reconnect in the second run: {first[-1]}, {second[-1]}")
    if first[:-1] != second[:-1]:
        sys.exit("FAILED: the runs differ")
    print(f"equal: {len(first) - 1} lines of both runs, the second with its service killed")


if __name__ == "__main__":
    main()
