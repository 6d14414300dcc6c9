"""One rank of a job, for test_torch_ddp.py: ddp_rank.py CASE RENDEZVOUS RANK RANKS, prints JSON."""

import json
import sys

import bulkhead.torch
import torch
import torch.distributed as distributed

CASE, RENDEZVOUS, RANK, RANKS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


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


def quarantine():
    return {"cursor": {**cursor_after(1), "quarantined": [f"range@{RANK}"], "substitutions": RANK}}


def main():
    distributed.init_process_group(
        "gloo", init_method=f"file://{RENDEZVOUS}", rank=RANK, world_size=RANKS
    )
    if CASE == "train":
        result = train()
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
                result = {"state": dataset.state_dict()}
        except bulkhead.BulkheadError as error:
            result = {"error": type(error).__name__, "reason": error.reason, "text": str(error)}
    print(json.dumps(result))


main()
