"""A stage that takes 40 MiB for every number it gives, and a consumer that dawdles: how much memory is that?

    python examples/runaway/run.py [--records 1000] [--sleep 0.2] [--json FILE]

Reads ordered.yaml with 8 workers and unordered.yaml with 4, each with a consumer that takes batches at once and with one that sleeps
after each. Before a run it prints what the service has promised that the loader will not exceed, behind it the most memory
that all its processes together held.

Needs the `bulkhead` package on the path, and bulkheadd on the PATH or named by $BULKHEAD_SERVER.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import bulkhead

HERE = pathlib.Path(__file__).resolve().parent
QUOTA = "128MiB"  # of a worker: the interpreter with NumPy, and 40 MiB
AHEAD = 2  # batches that wait for the consumer


def start_service(folder, workers):
    """A bulkheadd with this interpreter for its Python stages; gives the process and where it listens."""
    ready, child_end = os.pipe()
    process = subprocess.Popen(
        [os.environ.get("BULKHEAD_SERVER", "bulkheadd"), "--listen", f"unix:{folder}/loader.sock", "--cache-dir", folder,
         "--python", sys.executable, "--python-path", HERE, "--workers", str(workers), "--worker-quota", QUOTA,
         "--ready-fd", str(child_end), "--log-level", "err"],
        pass_fds=(child_end,),
    )
    os.close(child_end)
    with os.fdopen(ready) as said:
        words = said.readline().split()  # nothing if it ended
    if words[:1] != ["ready"]:
        sys.exit("the service did not start")
    return process, words[1]


def descendants(pid):
    """The process and all below it."""
    found = [pid]
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += descendants(int(child))
    return found


def memory_of(pid):
    """Bytes that a process holds; of pages that several share, its part (PSS)."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


class MemoryWatch:
    """Looks every 20 ms, on a thread of its own, at what the processes below `pid` hold together."""

    def __init__(self, pid):
        self.peak_bytes = 0
        self._pid = pid
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self):
        while not self._end.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, sum(map(memory_of, descendants(self._pid))))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


def promised(target):
    """Bytes that the service has set aside, and that it and its workers cannot exceed."""
    memory = bulkhead.service_status(target)["memory"]
    return sum(memory[part] for part in ("supervisor_bytes", "arena_bytes", "quota_bytes", "replacement_bytes"))


def run(name, workers, records, sleep):
    """One epoch of the spec, as a consumer sees it."""
    spec = (HERE / name).read_text().replace("size: 1000", f"size: {records}")
    indices, means = [], []
    with tempfile.TemporaryDirectory(prefix="runaway-") as folder:
        service, target = start_service(folder, workers)
        try:
            with bulkhead.Loader(spec, target, credits=AHEAD) as loader, MemoryWatch(service.pid) as watch:
                predicted = promised(target)
                for batch in loader:
                    indices += batch["index"].tolist()
                    means += batch["mean"].tolist()
                    time.sleep(sleep)
            deaths = len(bulkhead.service_status(target)["recent_exits"])
        finally:
            service.terminate()
            service.wait()
    return {"spec": name, "workers": workers, "sleep": sleep, "predicted_bytes": predicted,
            "peak_bytes": watch.peak_bytes, "deaths": deaths, "indices": indices, "means": means}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--sleep", type=float, default=0.2, help="seconds after each batch, of the slow consumer")
    parser.add_argument("--json", type=pathlib.Path, help="file for the same with all numbers that came")
    arguments = parser.parse_args()
    runs = []
    print(f"{'spec':15} workers  sleep  predicted: at most   measured peak  records")
    for name, workers in (("ordered.yaml", 8), ("unordered.yaml", 4)):
        for sleep in (0, arguments.sleep):
            done = run(name, workers, arguments.records, sleep)
            runs.append(done)
            once = "each once" if sorted(done["indices"]) == list(range(arguments.records)) else "NOT each once"
            print(f"{name:15} {workers:7} {sleep:4.1f} s {done['predicted_bytes'] / 2**20:14.0f} MiB "
                  f"{done['peak_bytes'] / 2**20:11.0f} MiB  {len(done['indices'])}, {once}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(runs))


if __name__ == "__main__":
    main()
