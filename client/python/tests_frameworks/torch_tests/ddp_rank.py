"""Ranks of jobs, for test_torch_ddp.py: for each line [CASE, RENDEZVOUS, RANKS, environment] of standard input they are
forked, so that PyTorch is imported once, and the line that comes back has what each of them printed and how it ended."""

import itertools
import json
import logging
import os
import pathlib
import signal
import sys
import tempfile
import time

import bulkhead._adapters.ranks
import bulkhead.torch
import torch
import torch.distributed as distributed

CASE, RENDEZVOUS, RANK, RANKS = "", "", -1, 0  # of a rank


def spec(batch=4, samples=48):
    return {
        "source": {"range": {"size": samples}},
        "order": {"global": {}},
        "errors": {"policy": "substitute", "max_fraction": 1},
        "batch": {"size": batch},
    }


def indices(dataset, count=None):
    seen = []
    for batch in dataset:
        seen += batch["index"].tolist()
        if count is not None and len(seen) >= count:
            break
    return seen


def cursor_after(batches):
    with bulkhead.torch.Dataset(spec(), rank=RANK, world_size=RANKS) as dataset:
        indices(dataset, 4 * batches)
        return dataset.state_dict()


def train():
    """Half an epoch of DDP, a checkpoint, the other half from it; the weights at the end."""
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    seen = []

    def step(batch):
        loss = model(batch["index"].float()[:, None]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.extend(batch["index"].tolist())

    with bulkhead.torch.Dataset(spec()) as dataset:
        for batch in dataset:
            step(batch)
            if len(seen) == 12:
                break
        state = dataset.state_dict()
    with bulkhead.torch.Dataset(spec()) as dataset:
        dataset.load_state_dict(state)
        for batch in dataset:
            step(batch)
    return {"seen": seen, "weights": [p.item() for p in model.parameters()]}


def other_cursors():
    return {"cursor": cursor_after(RANK + 1)}


def other_batches():
    return {"spec": spec(batch=4 + 4 * RANK)}


def one_fails():
    return {"spec": spec(samples=-1)} if RANK == 1 else {}


def one_finds_no_device():
    return {"device": "no_device"} if RANK == 1 else {}


def other_ends():
    batch = {"size": 5, "last": ["drop", "partial"][RANK]}
    return {"spec": {**spec(), "batch": batch}}


def out_of_turn():
    """Every rank has rank 0's cursor, which stands amid batches out of turn."""
    place = {"completed": [1], "batch_size": 4, "world_size": RANKS}
    return {"spec": {**spec(), "deterministic": False}, "cursor": {**cursor_after(1), **place}}


def one_dies():
    if RANK == 1:
        print("{}", flush=True)
        os._exit(0)
    return {}


def one_is_late():
    """Rank 1 opens when rank 0 has said that it waits; at last it gives up, and says so."""
    said = pathlib.Path(RENDEZVOUS).with_name("said")
    if RANK == 1:
        until = time.monotonic() + 60
        while not said.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return {"name": "called" if said.exists() else "never-called"}
    bulkhead._adapters.ranks.PATIENCE_SECONDS = 0.1
    handler = logging.Handler()
    handler.emit = lambda record: said.write_text(record.getMessage())
    logging.getLogger("bulkhead").addHandler(handler)
    return {}


def quarantine():
    return {"cursor": {**cursor_after(1), "quarantined": [f"range@{RANK}"], "substitutions": RANK}}


def share():
    """An epoch of DDP's ranks, and the service that they read it from."""
    with bulkhead.torch.Dataset(spec(), workers=1) as dataset:
        seen = indices(dataset)
        service = dataset.loader._endpoint.service.pid
        workers = bulkhead.service_status(dataset.loader.target)["workers"]
        distributed.barrier()
    return {"seen": seen, "service": service, "workers": [worker["pid"] for worker in workers]}


def main():
    distributed.init_process_group(
        "gloo", init_method=f"file://{RENDEZVOUS}", rank=RANK, world_size=RANKS
    )
    if CASE in ("train", "share"):
        result = globals()[CASE]()
    elif CASE == "load":
        state = cursor_after(RANK + 1)
        with bulkhead.torch.Dataset(spec()) as dataset:
            try:
                dataset.load_state_dict(state)
                result = {}
            except bulkhead.BulkheadError as error:
                result = {"error": type(error).__name__, "text": str(error)}
    else:
        options = {"spec": spec(), **globals()[CASE]()}
        try:
            with bulkhead.torch.Dataset(options.pop("spec"), **options) as dataset:
                result = {"state": dataset.state_dict(), "name": options.get("name")}
        except (bulkhead.BulkheadError, RuntimeError) as error:
            result = {"error": type(error).__name__, "text": str(error)}
            result["reason"] = getattr(error, "reason", None)
    print(json.dumps(result), flush=True)
    # Left to the interpreter's end, gloo's threads may end the process by an abort.
    distributed.destroy_process_group()


def fork(rank, job, files):
    """Whether this is the rank; its standard output and error are the files."""
    global CASE, RENDEZVOUS, RANK, RANKS
    if os.fork():
        return False
    CASE, RENDEZVOUS, RANKS, environment = job
    RANK = rank
    os.environ.update(environment)
    signal.alarm(120)  # a rank that hangs fails
    for number, file in enumerate(files, 1):
        os.dup2(file.fileno(), number)
    return True


def serve():
    """Returns in ranks, which go on with main(), and when there are no more jobs."""
    for line in sys.stdin:
        job = json.loads(line)
        said = [(tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")) for _ in range(job[2])]
        if any(fork(rank, job, files) for rank, files in enumerate(said)):
            return
        codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in said]
        for file in itertools.chain(*said):
            file.seek(0)
        print(json.dumps([codes, [[file.read() for file in files] for files in said]]), flush=True)


serve()
if CASE:
    main()
