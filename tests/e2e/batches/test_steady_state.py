"""In the steady state a sample allocates nothing, in the real worker: what its flight recorder counts."""

import pathlib

import bulkhead
import pytest
from conftest import AUGMENTED, write_spec

RECORDS = {
    "source": {"tfrecord": {"files": "records-*.tfrecord"}},
    "features": {"image": {"bytes": {}}, "label": {"int64": {}}},
}
STILL = str(pathlib.Path(__file__).parents[1] / "cache/still")
BOXES = {"tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}}
PIPELINES = {
    "folder": {"source": {"image_folder": {"path": "folder"}}, "stages": AUGMENTED[:3]},
    # A file's state counts when it has not changed for a minute.
    "still": {"source": {"image_folder": {"path": STILL, "unlabeled": True}}, "stages": AUGMENTED[:3]},
    "floats": {"source": {"image_folder": {"path": "folder"}}, "stages": AUGMENTED},
    "records": {**RECORDS, "stages": ["decode_image", {"resize": {"size": 64}}]},
    "detection": {
        **RECORDS,
        "features": {**RECORDS["features"], "boxes": BOXES},
        "stages": [
            "decode_image", {"boxes": {"format": "xyxy"}}, "random_horizontal_flip", {"resize": {"size": 96}},
            "sanitize_boxes",
        ],
    },
}


def counted(service):
    """What the only worker has allocated so far, by stage, and its samples."""
    status = bulkhead.service_status(service.target)
    [worker] = status["workers"]
    assert worker["generation"] == 1, (status["recent_recyclings"], status["recent_exits"])
    return {stage["stage"]: stage["allocations"] for stage in worker["stages"]}, worker["samples"]


@pytest.mark.parametrize("name", PIPELINES)
def test_samples_allocate_nothing(services, folder, photos, name):
    path = photos / f"steady-{name}.json"
    spec = write_spec(path, **PIPELINES[name], batch={"size": 50}, order={"global": {}}, seed=5)
    service = services(folder / "service", "--root", photos, "--root", STILL, "--workers", 1, "--threads", 1)
    with bulkhead.Loader(spec, service.target) as loader:
        batches = iter(loader.stream())

        def take(samples):
            while samples > 0:
                samples -= next(batches).valid_count

        take(4500)  # 30 epochs: the largest photo was met, and the largest crop
        before, samples_before = counted(service)
        take(3000)
        after, samples_after = counted(service)
    samples = samples_after - samples_before
    assert samples > 2000
    made = {stage: after[stage] - before[stage] for stage in after}
    print(f"{name}: {made} in {samples} samples")
    # Leases and what is said about them: a few messages for at most 16 samples.
    leases = made.pop("worker")
    assert made == dict.fromkeys(made, 0)
    assert len(made) > 1
    assert leases < samples / 2
