#!/usr/bin/python3
"""What watching costs: how long a scrape takes, and how much CPU time scrapes and an open status page take of the service.

    bench/watching.py [--scrapes 200] [--seconds 10] [--rounds 5] [--most 5]

    scrapes   /metrics and /status.json, asked for one after the other, 50 ms apart: of a service whose two workers hold
              a module of 1 GiB each, and of one with 16 workers and 16 streams
    watched   a stream of a range through three stages that take no time; in turns nobody watches, and a scrape each second
              (Prometheus' usual time is 15) and an open status page do: CPU time of the supervisor, and of the worker for
              a sample

With --most the exit code is 1 where more than 5 % of the scrapes take longer than so many ms, or where a scrape every 15 s
and an open page would take more than 1 % of a core.
"""

import argparse
import contextlib
import pathlib
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

from support import Service, free_port, machine
from two_builds import cpu_seconds

import bulkhead

LARGE = """
table = bytearray(1 << 30)
for at in range(0, len(table), 4096):
    table[at] = 1

def same(index):
    return index
"""
PAGE_SECONDS = 2.0  # the status page asks that often
SCRAPE_SECONDS = 15.0  # and Prometheus, as it comes


def spec(stages):
    return {"source": {"range": {"size": 100_000}}, "stages": stages, "batch": {"size": 1024}, "epochs": "forever"}


def ask(port, path):
    """Seconds that the answer took."""
    begin = time.perf_counter()
    urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60).read()
    return time.perf_counter() - begin


@contextlib.contextmanager
def service(*options):
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        with Service(folder, "--metrics", f"127.0.0.1:{port}", "--cache-bytes", 0, *options) as running:
            yield running, port


def scrape_times(port, count):
    """Of each page, the time in ms of its scrapes."""
    times = {"metrics": [], "status.json": []}
    for _ in range(count):
        for path, taken in times.items():
            taken.append(1e3 * ask(port, path))
            time.sleep(0.05)
    return times


def of_large_workers(arguments):
    with tempfile.TemporaryDirectory() as functions:
        pathlib.Path(functions, "large.py").write_text(LARGE)
        options = ["--workers", 2, "--worker-quota", "1500MiB", "--memory-budget", "8GiB", "--python", sys.executable,
                   "--python-path", functions]
        stage = {"function": "large:same", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
        with service(*options) as (running, port), bulkhead.Loader(spec([{"python": stage}]), running.target, timeout=300) as loader:
            batches = loader.stream()
            while sum(worker["usage"]["memory_bytes"] > 1 << 30 for worker in loader.status()["workers"]) < 2:
                next(batches)
            return scrape_times(port, arguments.scrapes)


def of_many_streams(arguments):
    with service("--workers", 1, "--worker-quota", "64MiB", "--memory-budget", "8GiB") as (running, port), contextlib.ExitStack() as stack:
        for number in range(16):
            stages = [{"cast": {"input": "index", "dtype": "float32"}}]
            own = {**spec(stages), "seed": number, "batch": {"size": 64 + number}}
            next(stack.enter_context(bulkhead.Loader(own, running.target, timeout=300)).stream())
        return scrape_times(port, arguments.scrapes)


@contextlib.contextmanager
def watchers(port):
    """A scrape each second and an open page."""
    ended = threading.Event()

    def repeat(path, seconds):
        while not ended.wait(seconds):
            ask(port, path)

    threads = [threading.Thread(target=repeat, args=of) for of in (("metrics", 1.0), ("status.json", PAGE_SECONDS))]
    for thread in threads:
        thread.start()
    yield
    ended.set()
    for thread in threads:
        thread.join()


def windows(arguments):
    """Of the windows without and with watchers: the supervisor's CPU seconds a second, and the worker's microseconds a sample."""
    stages = [{"cast": {"input": "index", "dtype": dtype}} for dtype in ("float32", "int32", "float32")]
    rounds = {"alone": [], "watched": []}
    with service("--workers", 1) as (running, port), bulkhead.Loader(spec(stages), running.target, timeout=300) as loader:
        batches = loader.stream()
        [worker] = [worker["pid"] for worker in loader.status()["workers"] if not worker["standby"]]

        def window():
            pids = {"supervisor": running.process.pid, "worker": worker}
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            count, begin = 0, time.monotonic()
            while time.monotonic() - begin < arguments.seconds:
                count += len(next(batches)["index"])
            wall = time.monotonic() - begin
            used = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
            return {"supervisor": used["supervisor"] / wall, "worker": 1e6 * used["worker"] / count}

        window()  # warms up
        for number in range(arguments.rounds):
            for kind in ("alone", "watched") if number % 2 else ("watched", "alone"):
                with watchers(port) if kind == "watched" else contextlib.nullcontext():
                    rounds[kind].append(window())
    return rounds


def show_times(words, times, most):
    """What of them is more than it may be."""
    slow = []
    for path, taken in times.items():
        p95, p99 = (sorted(taken)[int(part * (len(taken) - 1))] for part in (0.95, 0.99))
        print(f"{words}, /{path}: {statistics.median(taken):.1f} ms (p95 {p95:.1f}, p99 {p99:.1f}, longest {max(taken):.1f})", flush=True)
        slow += [f"{words}, /{path}: p95 is {p95:.1f} ms"] * (path == "metrics" and p95 > most)
    # The service works for no longer than the answer takes.
    share = 1e-3 * (statistics.median(times["metrics"]) / SCRAPE_SECONDS + statistics.median(times["status.json"]) / PAGE_SECONDS)
    print(f"{words}: a scrape every {SCRAPE_SECONDS:.0f} s and an open page take at most {share:.2%} of a core", flush=True)
    return slow + [f"{words}: watching takes {share:.2%} of a core"] * (share > 0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scrapes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=float, metavar="MS")
    arguments = parser.parse_args()
    print(f"{machine()}; {' '.join(sys.argv)}")
    most = arguments.most or float("inf")
    slow = show_times("two workers of 1 GiB", of_large_workers(arguments), most)
    slow += show_times("16 workers and streams", of_many_streams(arguments), most)
    rounds = windows(arguments)
    for name, unit in (("supervisor", "CPU"), ("worker", "us of CPU a sample")):
        alone, watched = ([window[name] for window in rounds[kind]] for kind in ("alone", "watched"))
        ratios = [with_it / without for without, with_it in zip(alone, watched)]
        print(f"{name}: {statistics.median(alone):.4f} {unit}, watched {statistics.median(watched):.4f}: "
              f"{statistics.median(ratios):.3f} x ({min(ratios):.3f} to {max(ratios):.3f})")
    for what in slow:
        print(f"watching: {what}", file=sys.stderr)
    return 1 if arguments.most and slow else 0


if __name__ == "__main__":
    sys.exit(main())
