"""A Python trainer for tests/chaos; the twin of trainer_main.cc, which says what it does.

    python3 trainer.py SPEC TARGET NAME BATCHES TRANSPORT PAUSE_MS [CURSOR]
"""

import collections
import hashlib
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client/python"))
import bulkhead  # noqa: E402


def digest(batch):
    sha = hashlib.sha256()
    for array in batch.values():
        sha.update(array.reshape(-1).view("u1") if array.size else b"")
    return sha.hexdigest()[:16]


def say(**line):
    print(json.dumps(line), flush=True)


def drop_oldest(held):
    batch, before = held.popleft()
    if digest(batch) != before:
        say(changed=batch.sequence)


def main():
    spec, target, name, batches, transport, pause_ms, *cursor = sys.argv[1:]
    held = collections.deque()
    try:
        with bulkhead.Loader(
            spec,
            target,
            name=name,
            transport=transport,
            cursor=json.loads(cursor[0]) if cursor else None,
            timeout=120,
            copy_below=0,  # what is held lies where the workers write
        ) as loader:
            for count in range(int(batches)):
                batch = loader.next_batch()
                if batch is None:
                    break
                held.append((batch, digest(batch)))
                say(
                    epoch=batch.epoch,
                    first=batch.positions.start,
                    valid=batch.valid_count,
                    digest=held[-1][1],
                    cursor=batch.cursor,
                    transport=loader.transport,
                    reconnects=loader.reconnects,
                )
                del batch
                while len(held) > count % 3:  # zero to two batches stay, by turns
                    drop_oldest(held)
                time.sleep(int(pause_ms) / 1000)
            while held:
                drop_oldest(held)
    except bulkhead.BulkheadError as error:
        say(error=error.reason)
        print(f"trainer.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
