"""python3 -m bulkhead.digest: streams a spec and prints what came, as JSON.

The digest is SHA-256 of all delivered tensor bytes in order; bulkhead-client-digest, its C++ twin,
prints the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import pathlib
import sys
from typing import Any, Dict, List

from ._loader import Loader
from ._rpc.credentials import Credentials
from ._stream import silence
from .errors import BulkheadError


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bulkhead.digest", allow_abbrev=False)
    parser.add_argument("--spec", required=True, type=pathlib.Path)
    parser.add_argument("--target")
    parser.add_argument("--batches", type=int, default=sys.maxsize, help="stop after this many")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cache-dir")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world-size", type=int, default=1)
    parser.add_argument("--cursor", type=json.loads, help="JSON of a batch's cursor")
    parser.add_argument("--name")
    parser.add_argument("--credit-batches", dest="credits", metavar="CREDIT_BATCHES", type=int, default=4)
    parser.add_argument("--credit-bytes", type=int, default=256 << 20)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds")
    parser.add_argument(
        "--reconnect-deadline", dest="reconnect_timeout", metavar="RECONNECT_DEADLINE", type=float, default=120.0, help="seconds"
    )
    parser.add_argument("--silence-deadline", type=float, help="seconds, instead of 10")
    parser.add_argument("--transport", choices=("auto", "shm", "grpc"), default="auto")
    parser.add_argument("--pause-after", type=int, help="say 'paused' and wait for a line")
    parser.add_argument("--pause-in-opening", action="store_true", help="the same while it prepares")
    parser.add_argument("--credential", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--share", action="store_true")
    parser.add_argument("--error-json", action="store_true", help="errors into the JSON as well")
    return parser.parse_args()


def _pause() -> None:
    print("paused", flush=True)
    sys.stdin.readline()


class _PauseOnce:
    paused = False

    def __call__(self, progress: object) -> None:
        if not self.paused:
            self.paused = True
            _pause()


class _Notes(logging.Handler):
    """The lines of stages and the service."""

    def __init__(self, notes: List[str]):
        super().__init__()
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        if record.funcName == "log_note":
            self._notes.append(f"{record.levelname} {record.getMessage()}")


# What goes to the Loader under the same name.
_OF_LOADER = (
    "spec", "target", "name", "rank", "world_size", "workers", "threads", "cache_dir", "cursor", "timeout",
    "reconnect_timeout", "credits", "credit_bytes", "transport", "share",
)
_COUNTS = ("batches", "samples", "valid", "epochs_ended", "last_samples", "reconnects", "hangs")


def _stream(arguments: argparse.Namespace, totals: Dict[str, Any], digest) -> None:
    options = {name: getattr(arguments, name) for name in _OF_LOADER}
    credentials = Credentials(**dict(one.split("=", 1) for one in arguments.credential))
    progress = _PauseOnce() if arguments.pause_in_opening else None
    with Loader(credentials=credentials, progress=progress, **options) as loader:
        while totals["batches"] < arguments.batches:
            if totals["batches"] == arguments.pause_after:
                _pause()
            batch = loader.next_batch()
            totals["reconnects"] = loader.reconnects
            totals["hangs"] = len(loader.hangs)
            totals["stats"] = loader.stats[:3]
            if batch is None:
                return
            for array in batch.values():
                digest.update(array.reshape(-1).view("u1") if array.size else b"")
            totals["batches"] += 1
            totals["samples"] += batch.sample_count
            totals["valid"] += batch.valid_count
            totals["last_samples"] = batch.sample_count
            totals["epochs_ended"] += batch.last_in_epoch
            totals["cursor"] = batch.cursor


def main() -> int:
    arguments = _arguments()
    if arguments.silence_deadline is not None:
        silence.SILENCE_SECONDS = arguments.silence_deadline
    totals: Dict[str, Any] = {"notes": [], **dict.fromkeys(_COUNTS, 0), "cursor": None, "stats": (0, 0, 0)}
    log = logging.getLogger("bulkhead")
    log.setLevel(logging.INFO)
    for handler in (_Notes(totals["notes"]), logging.lastResort):
        if handler is not None:
            log.addHandler(handler)
    digest = hashlib.sha256()
    try:
        _stream(arguments, totals, digest)
    except BulkheadError as failure:
        if not arguments.error_json:
            print(f"bulkhead.digest: {failure} [{failure.reason}]", file=sys.stderr)
            return 1
        totals["error"] = {name: getattr(failure, name) for name in ("code", "reason", "message", "metadata")}
    totals["digest"] = digest.hexdigest()
    print(json.dumps(totals), flush=True)
    return 1 if "error" in totals else 0


if __name__ == "__main__":
    sys.exit(main())
