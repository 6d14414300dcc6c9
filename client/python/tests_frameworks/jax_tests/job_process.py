"""One process of a job, for test_jax_job.py: job_process.py CASES COORDINATOR PROCESS PROCESSES.

Goes through the cases and prints JSON: what came of each.
"""

import json
import logging
import os
import pathlib
import sys
import time

import bulkhead._adapters.jax_processes
import bulkhead._adapters.ranks
import bulkhead.jax
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

CASES, COORDINATOR = sys.argv[1].split(","), sys.argv[2]
PROCESS, PROCESSES = int(sys.argv[3]), int(sys.argv[4])


def spec(batch=4, samples=48):
    return {
        "source": {"range": {"size": samples}},
        "errors": {"policy": "substitute", "max_fraction": 1},
        "batch": {"size": batch},
    }


def cursor_after(batches):
    with bulkhead.jax.Loader(spec(), rank=PROCESS, world_size=PROCESSES) as loader:
        for _, _ in zip(range(batches), loader):
            pass
        return loader.state_dict()


def opened(given=None, **options):
    """Where a loader stands, or what it raises."""
    try:
        with bulkhead.jax.Loader(given or spec(), **options) as loader:
            return {"state": loader.state_dict()}
    except bulkhead.BulkheadError as error:
        return {"error": type(error).__name__, "reason": error.reason, "text": str(error)}


def parts():
    """Each process reads its own part, also behind a state that all load."""
    seen = []
    with bulkhead.jax.Loader(spec()) as loader:
        for batch in loader:
            seen += batch["index"].tolist()
            if len(seen) == 8:
                break
        state = loader.state_dict()
    with bulkhead.jax.Loader(spec()) as loader:
        loader.load_state_dict(state)
        for batch in loader:
            seen += batch["index"].tolist()
    return seen


def global_arrays():
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
    with bulkhead.jax.Loader(spec(samples=16), sharding=sharding) as loader:
        arrays = [batch["index"] for batch in loader]
    return [
        (array.shape, [shard.data.tolist() for shard in array.addressable_shards])
        for array in arrays
    ]


def alone():
    """A process that says where it belongs is compared with nobody."""
    if PROCESS == 1:
        return None
    return opened(rank=0, world_size=1)


def other_cursors():
    return opened(cursor=cursor_after(PROCESS + 1))


def load():
    state = cursor_after(PROCESS + 1)
    with bulkhead.jax.Loader(spec()) as loader:
        try:
            loader.load_state_dict(state)
            return {}
        except bulkhead.BulkheadError as error:
            return {"error": type(error).__name__, "text": str(error)}


def other_batches():
    return opened(spec(batch=4 + 4 * PROCESS))


def one_fails():
    return opened(spec(samples=-1) if PROCESS == 1 else spec())


def one_has_no_sharding():
    return opened(sharding={} if PROCESS == 1 else None)


def quarantine():
    cursor = {**cursor_after(1), "quarantined": [f"range@{PROCESS}"], "substitutions": PROCESS}
    return opened(cursor=cursor)


def without_store():
    """Over the devices: those that agree, and words of other lengths."""
    bulkhead._adapters.jax_processes._store = lambda: None
    return {"agree": opened(), "differ": opened(cursor=cursor_after(3 * PROCESS))}


def own_words_left():
    """What this process leaves in the coordinator's store after all that came before."""
    store = bulkhead._adapters.jax_processes._store()
    words = store.key_value_dir_get("bulkhead/exchange/")
    return sum(key.endswith(f"/{PROCESS}") for key, _ in words)


def wait_for(path):
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)


def one_comes_too_late():
    """Process 1 opens when process 0 has given up."""
    gave_up = pathlib.Path(os.environ["FOLDER"]) / "gave_up"
    if PROCESS == 1:
        wait_for(gave_up)
    result = opened(timeout=0.8)
    if PROCESS == 0:
        gave_up.touch()
    return result


def one_is_late():
    """Process 1 opens when process 0 has said that it waits."""
    said = pathlib.Path(os.environ["FOLDER"]) / "said"
    if PROCESS == 1:
        wait_for(said)
    else:
        bulkhead._adapters.ranks.PATIENCE_SECONDS = 0.1
        handler = logging.Handler()
        handler.emit = lambda record: said.write_text(record.getMessage())
        logging.getLogger("bulkhead").addHandler(handler)
    return opened()


jax.config.update("jax_cpu_collectives_implementation", "gloo")  # JAX 0.4 must be asked for it
jax.distributed.initialize(COORDINATOR, PROCESSES, PROCESS)
jax.devices()  # where JAX itself waits for all processes
print(json.dumps({case: globals()[case]() for case in CASES}), flush=True)
