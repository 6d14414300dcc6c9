"""A stage that takes 40 MiB for every number it gives, and a consumer that dawdles: how much memory is that?

    python examples/runaway/run.py [--records 1000] [--sleep 0.2] [--json FILE]

Reads ordered.yaml with 8 workers and unordered.yaml with 4, and large.yaml, whose batches are large, with 4: each with a consumer that
takes batches at once and with one that sleeps after each. It prints what `bulkhead explain` says that the loader takes at most, and what
it expects, and the most memory that all its processes together held.

Needs the `bulkhead` package on the path, and bulkheadd on the PATH or named by $BULKHEAD_SERVER, with `bulkhead` beside it.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import bulkhead

HERE = pathlib.Path(__file__).resolve().parent
SERVER = os.environ.get("BULKHEAD_SERVER") or shutil.which("bulkheadd") or sys.exit("bulkheadd is not on the PATH")
RUNS = (("ordered.yaml", 8), ("unordered.yaml", 4), ("large.yaml", 4))  # specs and their workers
QUOTA = "128MiB"  # of a worker: the interpreter with NumPy, and 40 MiB
AHEAD = 2  # batches that wait for the consumer


def explain(name, workers):
    """Bytes that the loader takes at most, and those that it probably takes at its height, as `bulkhead explain` says it."""
    told = subprocess.run(
        [pathlib.Path(SERVER).with_name("bulkhead"), "explain", "--spec", HERE / name, "--samples", "32", "--json",
         "--python", sys.executable, "--python-path", HERE, "--workers", str(workers), "--worker-quota", QUOTA],
        stdout=subprocess.PIPE, check=True).stdout
    explained = json.loads(told)
    return explained["memory_together"]["bytes"], explained["expected_bytes"]


def start_service(folder, workers):
    """A bulkheadd with this interpreter for its Python stages; gives the process and where it listens."""
    ready, child_end = os.pipe()
    process = subprocess.Popen(
        [SERVER, "--listen", f"unix:{folder}/loader.sock", "--cache-dir", folder,
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
    try:
        for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                found += descendants(int(child))
    except (FileNotFoundError, ProcessLookupError):  # a thread or the process ended meanwhile
        pass
    return found


def memory_of(pid):
    """Bytes that a process holds; of pages that several share, its part (PSS)."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


class MemoryWatch:
    """Looks every 20 ms, on a thread of its own, at what the service and all below it hold together, and at this process."""

    def __init__(self, service):
        self.peak_bytes = 0
        self._own_before = memory_of(os.getpid())
        self._own_peak = self._own_before
        self._service = service
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    @property
    def trainer_bytes(self):
        """By which this process grew at most."""
        return self._own_peak - self._own_before

    def _look(self):
        while not self._end.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, sum(map(memory_of, descendants(self._service))))
            self._own_peak = max(self._own_peak, memory_of(os.getpid()))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        looked = self._thread.is_alive()
        self._end.set()
        self._thread.join()
        if not looked:
            raise RuntimeError("nobody looked at the memory to the end")


def bound(target):
    """Bytes that the service has set aside, and that it and its workers cannot exceed."""
    memory = bulkhead.service_status(target)["memory"]
    return sum(memory[part] for part in ("supervisor_bytes", "arena_bytes", "quota_bytes", "replacement_bytes"))


def run(name, workers, records, sleep, ahead=AHEAD):
    """One epoch of the spec, as a consumer sees it."""
    spec = (HERE / name).read_text().replace("size: 1000", f"size: {records}")
    indices, means = [], []
    with tempfile.TemporaryDirectory(prefix="runaway-") as folder:
        service, target = start_service(folder, workers)
        try:
            with MemoryWatch(service.pid) as watch, bulkhead.Loader(spec, target, credits=ahead) as loader:
                for batch in loader:
                    if not indices:
                        bound_bytes = bound(target)
                    indices += batch["index"].tolist()
                    means += batch["mean"].tolist()
                    time.sleep(sleep)
            deaths = len(bulkhead.service_status(target)["recent_exits"])
        finally:
            service.terminate()
            service.wait()
    return {"spec": name, "workers": workers, "sleep": sleep, "bound_bytes": bound_bytes, "peak_bytes": watch.peak_bytes, "trainer_bytes": watch.trainer_bytes, "deaths": deaths,
            "indices": indices, "means": means}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--sleep", type=float, default=0.2, help="seconds after each batch, of the slow consumer")
    parser.add_argument("--json", type=pathlib.Path, help="file for the same with all numbers that came")
    arguments = parser.parse_args()
    runs = []
    print(f"{'spec':15} workers  sleep  explain: at most  expected  measured peak  trainer grew  records")
    for name, workers in RUNS:
        explained, expected = explain(name, workers)
        for sleep in (0, arguments.sleep):
            done = run(name, workers, arguments.records, sleep)
            runs.append({"explained_bytes": explained, "expected_bytes": expected, **done})
            once = "each once" if sorted(done["indices"]) == list(range(arguments.records)) else "NOT each once"
            sizes = (f"{number / 2**20:{width}.0f} MiB" for number, width in (
                (explained, 14), (expected, 6), (done["peak_bytes"], 11), (done["trainer_bytes"], 10)))
            print(f"{name:15} {workers:7} {sleep:4.1f} s", *sizes, f" {len(done['indices'])}, {once}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(runs))


if __name__ == "__main__":
    main()
