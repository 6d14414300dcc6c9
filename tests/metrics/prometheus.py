"""A real Prometheus, and questions to it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(os.environ.get("BULKHEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
# Short, so that a few seconds of a run are many samples.
SCRAPE_INTERVAL = "200ms"
RATE_INTERVAL = "4s"


def program(name: str, place: str = "prometheus/usr/bin") -> str:
    """Where a program of Debian is: installed, or at `place` of build, where scripts/setup.sh --test unpacked it."""
    unpacked = ROOT / "build" / place / name
    found = shutil.which(name) or (str(unpacked) if unpacked.exists() else None)
    assert found is not None, f"{name} is missing; scripts/setup.sh --test gets it"
    return found


def listening_port(pid: int) -> int | None:
    """The TCP port that `pid` listens on; None when it listens on none yet."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            link = os.readlink(fd)
        except FileNotFoundError:
            continue
        if link.startswith("socket:["):
            inodes.add(link[len("socket:[") : -1])
    for table in ("tcp", "tcp6"):
        path = pathlib.Path(f"/proc/{pid}/net/{table}")
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # LISTEN
                return int(fields[1].rpartition(":")[2], 16)
    return None


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


class Prometheus:
    """Scrapes `targets` ("127.0.0.1:PORT") as job "bulkhead" until it is stopped; evaluates the alerts of `rules`."""

    def __init__(
        self,
        folder: pathlib.Path,
        targets: list[str],
        rules: pathlib.Path | None = None,
        scrape_interval: str = SCRAPE_INTERVAL,
        jobs: list[dict] | None = None,
    ):
        """`jobs`: scrape configurations in the place of the one for `targets`."""
        folder.mkdir()
        config = folder / "prometheus.yml"
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": scrape_interval, "evaluation_interval": scrape_interval},
                    "rule_files": [str(rules)] if rules else [],
                    "scrape_configs": jobs or [{"job_name": "bulkhead", "static_configs": [{"targets": targets}]}],
                }
            )
        )
        self._log = folder / "prometheus.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                 "--web.listen-address=127.0.0.1:0", "--log.level=warn"],
                stderr=log,
                env={**os.environ, "GOMAXPROCS": "1"},
            )
        deadline = time.monotonic() + 60
        self.url = f"http://127.0.0.1:{self._port(deadline)}"
        self._wait_until_ready(deadline)

    def _wait_until_ready(self, deadline: float) -> None:
        """It listens, and answers everything with 503, before its storage is open."""
        while True:
            try:
                fetch(f"{self.url}/-/ready")
                return
            except urllib.error.HTTPError as error:
                assert error.code == 503 and time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def _port(self, deadline: float) -> int:
        while time.monotonic() < deadline:
            assert self._process.poll() is None, self._log.read_text()
            port = listening_port(self._process.pid)
            if port is not None:
                return port
            time.sleep(0.05)
        raise AssertionError("Prometheus does not listen:\n" + self._log.read_text())

    def get(self, path: str, **parameters: str):
        """`data` of an answer of the HTTP API. Fails with Prometheus's own words."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            answer = json.loads(fetch(url))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list:
        """Series of an instant query, now."""
        return self.get("query", query=expression)["result"]

    def value(self, expression: str) -> float | None:
        """The value of an expression with at most one series; None without one."""
        series = self.query(expression)
        assert len(series) <= 1, series
        return float(series[0]["value"][1]) if series else None

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
