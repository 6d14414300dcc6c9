"""A real service that a real Prometheus watches, and trainers for it."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import threading
import time

import bulkhead
from conftest import Service, write_spec
from prometheus import SCRAPE_INTERVAL, Prometheus

PATIENCE_SECONDS = 90


def metrics_url(folder):
    """What the service's log says."""
    return re.search(r"metrics on (http://\S+)", (folder / "service.log").read_text())[1]


def target_of(url):
    return url.removeprefix("http://").removesuffix("/metrics")


def spec_of(folder, *stages, **more):
    source = {"range": {"size": 1_000_000}}
    return write_spec(folder / "spec.json", **{"source": source, "stages": list(stages), "batch": {"size": 8}, **more})


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what()}"
        time.sleep(0.05)


def promised_bytes(service):
    """Of the memory budget."""
    memory = bulkhead.service_status(service.target)["memory"]
    return sum(size for part, size in memory.items() if part not in ("budget_bytes", "limit_bytes"))


class Trainer(threading.Thread):
    """Takes batches until it is told to stop; each of its steps takes `step_seconds`."""

    def __init__(self, spec, target, name="trainer", step_seconds=0.0, **options):
        super().__init__()
        self._loader = bulkhead.Loader(spec, target, name=name, **options)
        self._step_seconds = step_seconds
        self._end = threading.Event()
        self.error = None
        self.start()

    def run(self):
        try:
            with self._loader as loader:
                while not self._end.is_set():
                    loader.next_batch()
                    self._end.wait(self._step_seconds)
        except bulkhead.BulkheadError as error:
            self.error = error

    def stop(self):
        self._end.set()
        self.join()


class Watched:
    """A service that a Prometheus scrapes, with alerts if there are rules."""

    def __init__(self, folder, *options, rules: pathlib.Path | None = None, scrape_interval=SCRAPE_INTERVAL):
        folder.mkdir()
        self.folder, self.options = folder, options
        self.service = self._start()
        self.target = target_of(metrics_url(folder))
        self.prometheus = Prometheus(folder / "prometheus", [self.target], rules, scrape_interval)
        self.wait_until_scraped()  # a rate needs the zero before the first

    def _start(self, metrics="127.0.0.1:0"):
        return Service(self.folder, "--allow-fault-stages", "--metrics", metrics, *self.options)

    def restart(self):
        os.kill(self.service.process.pid, signal.SIGKILL)
        self.service.process.wait()
        self.service = self._start(self.target)

    def wait_until_scraped(self):
        """This start of the service, and until the next is in another second, for starts are told in whole ones."""
        began = bulkhead.service_status(self.service.target)["start_time"]
        wait_until(
            lambda: (
                abs((self.prometheus.value("bulkhead_start_time_seconds") or 0) - began) < 0.01
                and time.time() >= int(began) + 1.1
            ),
            lambda: "it is scraped",
        )

    def firing(self):
        found = self.prometheus.get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

    def wait_for(self, name, meanwhile=lambda: None):
        def fires():
            meanwhile()
            return name in self.firing()

        wait_until(fires, lambda: f"{name} fires; firing: {self.firing()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.prometheus.stop()
        self.service.stop()
