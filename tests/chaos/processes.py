"""The service and the trainer of a chaos run: real processes, started again and again."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", HERE.parents[1] / "build/release/bin"))
TRAINERS = {
    "cpp": [str(BIN / "bulkhead-chaos-trainer")],
    "python": [sys.executable, str(HERE / "trainer.py")],
}


def children_of(pid):
    """The living child processes of `pid`."""
    children = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            children.append(int(stat.parent.name))
    return children


class Service:
    """bulkheadd at `socket`; with `armed`, its workers fail as that file says."""

    def __init__(self, folder, socket, data, armed=None):
        self.socket = socket
        self._command = [
            BIN / "bulkheadd", "--listen", f"unix:{socket}", "--root", data, "--workers", "2",
            "--cache-dir", folder / "cache", "--worker-hang-timeout", "1",
        ]
        self._environment = dict(os.environ)
        if armed is not None:
            self._command += ["--worker-program", BIN / "bulkhead-chaos-worker"]
            self._environment["BULKHEAD_CHAOS_FILE"] = str(armed)
        self._log = (folder / "service.log").open("ab")
        self.start()

    def start(self):
        ready, child_end = os.pipe()
        self._process = subprocess.Popen(
            [*map(str, self._command), "--ready-fd", str(child_end)],
            pass_fds=(child_end,), stderr=self._log, env=self._environment,
        )
        self.pid = self._process.pid
        os.close(child_end)
        with os.fdopen(ready) as said:
            if not said.readline().startswith("ready"):
                raise RuntimeError(f"bulkheadd did not start; see {self._log.name}")

    def workers(self):
        return children_of(self.pid)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


class Trainer:
    """One life of a trainer; hands every line that it says to `on_line`, in order."""

    def __init__(self, client, spec, target, name, batches, transport, pause_ms, cursor, on_line, log):
        command = [*TRAINERS[client], spec, target, name, batches, transport, pause_ms]
        if cursor is not None:
            command.append(json.dumps(cursor))
        self._process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=log, text=True
        )
        self._on_line = on_line
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            if line.endswith("\n"):  # a killed trainer may leave half a line: that batch does not count
                self._on_line(json.loads(line))

    def signal(self, number):
        self._process.send_signal(number)  # does nothing once it has ended

    def signal_receiver(self, number):
        """False if the trainer has no bulkhead-receive."""
        found = subprocess.run(["pkill", f"-{number:d}", "-P", str(self._process.pid), "bulkhead-receiv"], check=False)
        return found.returncode == 0

    def ended(self):
        return self._process.poll() is not None

    def wait(self):
        code = self._process.wait(600)
        self._reader.join()
        return code

    def kill(self):
        self._process.kill()
        self.wait()
