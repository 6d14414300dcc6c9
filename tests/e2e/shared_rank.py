"""A process of a job, for test_shared_service.py: does what it reads, line by line, and answers in JSON."""

import json
import os
import signal
import sys

import bulkhead


def open_loader(spec, **options):
    global loader, batches
    loader = bulkhead.Loader(spec, **{"workers": 1, "timeout": 60, **options})
    batches = loader.stream()
    return service()


def service():
    return loader._endpoint.service.pid


def called():
    return loader.name


def take(count):
    return [position for _ in range(count) for position in next(batches)["index"].tolist()]


def reconnects():
    return loader.reconnects


def post_mortem():
    return loader._endpoint.post_mortem()


def log():
    return loader._endpoint.service.log


def close():
    loader.close()


def fork():
    """A child that does nothing, and outlives this process."""
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    return pid


for line in sys.stdin:
    name, arguments, options = json.loads(line)
    print(json.dumps(globals()[name](*arguments, **options)), flush=True)
