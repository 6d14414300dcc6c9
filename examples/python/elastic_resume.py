"""Training that is killed in mid-epoch and goes on with another batch size and on two ranks.

    python examples/python/elastic_resume.py

One process trains alone with batches of 20 and saves its loader's cursor from time to time. It kills itself
(SIGKILL) between two checkpoints. Two new processes, the ranks of a larger job, go on from the last checkpoint
with batches of 16 each. At the end the program adds up what counts - the samples up to that checkpoint, and all
that the two ranks saw - and checks that every sample of the epoch is there exactly once, in the very order that
an undisturbed run has.

Needs the `bulkhead` package on the path, and bulkheadd on the PATH or named by $BULKHEAD_SERVER.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import bulkhead

SAMPLES = 1003  # not a multiple of anything here
CHECKPOINT_EVERY = 5  # batches
KILLED_AFTER = 13  # batches: three of them are in no checkpoint


def spec(batch_size: int) -> dict:
    """The batch size may change between runs; source, order and seed may not."""
    return {
        "source": {"range": {"size": SAMPLES}},
        "order": {"global": {}},
        "seed": 7,
        "epochs": 1,
        "batch": {"size": batch_size, "last": "partial"},
    }


def save(path: pathlib.Path, content) -> None:
    """A checkpoint is whole or not there: written beside its place, then moved."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(content))
    beside.replace(path)


def train_alone(folder: pathlib.Path) -> None:
    """A child process; it does not come back."""
    trained = []  # stands for the model: it holds what was learnt from which sample
    with bulkhead.Loader(spec(20)) as loader:
        for count, batch in enumerate(loader, start=1):
            trained += batch["index"].ravel().tolist()
            if count % CHECKPOINT_EVERY == 0:
                save(folder / "checkpoint.json", {"model": trained, "loader": batch.cursor})
            if count == KILLED_AFTER:
                os.kill(os.getpid(), signal.SIGKILL)


def train_rank(folder: pathlib.Path, rank: int) -> None:
    """A child process: one of two ranks that go on from the checkpoint."""
    checkpoint = json.loads((folder / "checkpoint.json").read_text())
    seen = []
    with bulkhead.Loader(spec(16), rank=rank, world_size=2, cursor=checkpoint["loader"]) as loader:
        for batch in loader:
            indices = batch["index"].ravel().tolist()
            seen += list(zip(batch.positions, indices))
    save(folder / f"rank{rank}.json", seen)


def undisturbed_order() -> list:
    with bulkhead.Loader(spec(64)) as loader:
        return [index for batch in loader for index in batch["index"].ravel().tolist()]


def child(*arguments: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, __file__, *map(str, arguments)])


def check(condition: bool, what: str) -> None:
    if not condition:
        sys.exit(f"FAILED: {what}")
    print(f"  {what}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="elastic-resume-") as name:
        folder = pathlib.Path(name)
        killed = child("alone", folder).wait(300)
        checkpoint = json.loads((folder / "checkpoint.json").read_text())
        before = checkpoint["model"]
        print("the cursor in the checkpoint:", json.dumps(checkpoint["loader"]))

        ranks = [child("rank", rank, folder) for rank in range(2)]
        codes = [process.wait(300) for process in ranks]
        after = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]

        print("proved:")
        check(killed == -signal.SIGKILL, f"the first run was killed after {KILLED_AFTER} batches of 20")
        check(codes == [0, 0], "two ranks went on with batches of 16 each and ended in order")
        check(len(before) == 200, f"{len(before)} samples came before the checkpoint")
        check(
            all(after) and abs(len(after[0]) - len(after[1])) <= 1,
            f"{len(after[0])} and {len(after[1])} samples came to ranks 0 and 1 behind it",
        )
        everything = before + [index for seen in after for _, index in seen]
        check(
            sorted(everything) == list(range(SAMPLES)),
            f"together they are the {SAMPLES} samples of the epoch, each exactly once",
        )
        in_order = before + [index for _, index in sorted(map(tuple, after[0] + after[1]))]
        check(in_order == undisturbed_order(), "by position they are in the order of an undisturbed run")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "alone":
        train_alone(pathlib.Path(sys.argv[2]))
    else:
        train_rank(pathlib.Path(sys.argv[3]), int(sys.argv[2]))
