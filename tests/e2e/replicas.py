"""Several replicas of the service, and all of a stream that is to be equal, whoever made it."""

import hashlib
import os
import signal
import subprocess

import bulkhead
from conftest import BIN, write_spec


class Replica:
    """bulkheadd with a cache of its own: at a port of `address`, open to all unless `access` says otherwise; started by
    `command`, the words before its own."""

    def __init__(self, folder, *options, port=0, address="127.0.0.1", access=("--insecure-tcp",), command=()):
        folder.mkdir(exist_ok=True)
        self.folder, self.options = folder, options
        self.place = {"address": address, "access": access, "command": command}
        ready, child_end = os.pipe()
        with (folder / "service.log").open("a") as log:
            self.process = subprocess.Popen(
                [*command, BIN / "bulkheadd", "--listen", f"{address}:{port}", *access, "--ready-fd", str(child_end),
                 "--cache-dir", folder / "cache", "--workers", "1", *map(str, options)],
                pass_fds=(child_end,),
                stderr=log,
            )
        os.close(child_end)
        with os.fdopen(ready) as said:
            line = said.readline()
        assert line.startswith("ready "), (folder / "service.log").read_text()
        self.target = line.split()[1]
        self.port = int(self.target.rpartition(":")[2])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            assert (code := self.process.wait(60)) == 0, (code, (self.folder / "service.log").read_text()[-3000:])

    def again(self):
        """Another process at the same address."""
        return Replica(self.folder, *self.options, port=self.port, **self.place)

    def samples(self):
        return bulkhead.service_status(self.target)["samples_delivered"]


def targets(replicas):
    return [replica.target for replica in replicas]


def history_of(batch):
    """All that is to be equal: bytes, place, cursor."""
    digest = hashlib.sha256(b"".join(batch[name].tobytes() for name in sorted(batch))).hexdigest()
    return digest, batch.epoch, batch.sequence, batch.positions, batch.batches_left_in_epoch, batch.cursor


def history(spec, target, **options):
    with bulkhead.Loader(spec, target, timeout=60, **options) as loader:
        return [history_of(batch) for batch in loader.stream()]


def range_spec(folder, size=400, **more):
    return write_spec(
        folder / "range.yaml",
        **{"source": {"range": {"size": size}}, "batch": {"size": 8}, "order": {"global": {}}, "seed": 3, "epochs": 2, **more},
    )
