"""A small batch is work for one worker, and yet all of them have some, whatever `credits` is."""

import numpy as np
import pytest
from conftest import PYTHON, Service

import bulkhead

WORKERS = 6
CODE = """
import time
def span(index):
    began = time.monotonic()
    time.sleep(0.05)
    return [began, time.monotonic()]
"""


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_all_workers_are_at_work(folder, transport):
    (folder / "waits.py").write_text(CODE)
    stage = {"function": "waits:span", "inputs": ["index"], "outputs": [{"name": "span", "dtype": "float64", "shape": [2]}]}
    spec = {"source": {"range": {"size": 240}}, "stages": [{"python": stage}], "batch": {"size": 4}, "epochs": 1}
    service = Service(folder, "--workers", str(WORKERS), "--worker-quota", "150MiB", "--python", PYTHON, "--python-path", folder)
    try:
        with bulkhead.Loader(spec, service.target, transport=transport, timeout=120) as loader:
            [stream] = bulkhead.service_status(service.target)["streams"]
            assert stream["arena"]["slots"] == 2 * WORKERS + 1
            spans = np.concatenate([np.array(batch["span"]) for batch in loader])
    finally:
        service.stop()
    at_once = [int(np.sum((spans[:, 0] <= began) & (began < spans[:, 1]))) for began in spans[:, 0]]
    assert max(at_once) == WORKERS
