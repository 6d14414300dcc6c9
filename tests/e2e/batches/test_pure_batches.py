"""Promise 1: workers, threads, clients, CPU features and deaths never change a byte of a batch."""

import pytest

from conftest import (AUGMENTED, Service, digest_of, finish_digest, go_on, kill_embedded_workers,
                      start_digest, wait_for_pause, write_spec)
from old_cpus import OLD_CPU


@pytest.fixture(scope="module")
def spec(photos):
    return write_spec(
        photos / "pure.yaml",
        source={"tfrecord": {"files": "records-*.tfrecord"}},
        features={"image": {"bytes": {}}, "label": {"int64": {}}},
        stages=AUGMENTED,
        batch={"size": 16},
        order={"global": {}},
        seed=3,
        epochs=2,
    )


@pytest.fixture(scope="module")
def reference(spec):
    return digest_of("cpp", spec, workers=1, threads=1)


@pytest.mark.parametrize("client", ["cpp", "python"])
@pytest.mark.parametrize("workers, threads", [(1, 3), (4, 1), (4, 3)])
def test_workers_threads_and_clients(spec, reference, client, workers, threads):
    assert digest_of(client, spec, workers=workers, threads=threads) == reference


def test_an_older_cpu(spec, reference):
    assert digest_of("cpp", spec, OLD_CPU, workers=2) == reference


# Our own kernels alone, so that those of each kind are compared with the best ones.
@pytest.mark.parametrize("kernels", ["scalar", "avx2"])
def test_fewer_kernels(spec, reference, kernels):
    assert digest_of("cpp", spec, {"BULKHEAD_SIMD": kernels}, workers=2) == reference


def test_no_simd_in_the_decoder(spec, reference):
    assert digest_of("cpp", spec, {"JSIMD_FORCENONE": "1"}, workers=2) == reference


@pytest.mark.parametrize("changed", [{"seed": 4}, {"batch": {"size": 16, "drop_remainder": True}}])
def test_what_should_change_the_bytes_does(photos, spec, reference, changed):
    import json

    other = write_spec(photos / "other.yaml", **{**json.loads(spec.read_text()), **changed})
    assert digest_of("cpp", other, workers=2) != reference


@pytest.mark.parametrize("client", ["cpp", "python"])
@pytest.mark.parametrize("workers", [1, 2])
def test_kill_9_of_workers_in_mid_run(spec, reference, client, workers):
    process = start_digest(client, spec, workers=workers, pause_after=3)
    wait_for_pause(process)
    kill_embedded_workers(process.pid, workers)
    go_on(process)
    assert finish_digest(process)["digest"] == reference


def test_a_service_shared_by_two_streams(spec, reference, photos, folder):
    service = Service(folder, "--root", photos, "--workers", 2)
    both = [start_digest(client, spec, target=service.target) for client in ("cpp", "python")]
    assert [finish_digest(process)["digest"] for process in both] == [reference, reference]
    assert len(service.workers()) == 2  # one pipeline, one pool
    assert service.stop() == 0


def test_the_three_forms_of_a_set_hold_the_same_photos(photos):
    digests = set()
    for source in (
        {"tfrecord": {"files": "records-*.tfrecord"}},
        {"image_list": {"path": "list.txt"}},
    ):
        spec = {"source": source, "stages": ["decode_image", {"resize": {"size": 32}}],
                "batch": {"size": 10}, "epochs": 1, "outputs": ["image", "label"]}
        if "tfrecord" in source:
            spec["features"] = {"image": {"bytes": {}}, "label": {"int64": {}}}
        digests.add(digest_of("cpp", write_spec(photos / "form.yaml", **spec)))
    assert len(digests) == 1


@pytest.fixture(scope="module")
def detection(photos):
    """Boxes that go with all that moves the pixels, and are dropped, converted and padded."""
    return write_spec(
        photos / "detection.yaml",
        source={"tfrecord": {"files": "records-*.tfrecord"}},
        features={
            "image": {"bytes": {}},
            "boxes": {"tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}},
        },
        stages=[
            "decode_image",
            {"boxes": {"format": "xyxy"}},
            "random_photometric_distort",
            {"random_zoom_out": {"side_range": [1, 2]}},
            "random_iou_crop",
            {"random_affine": {"degrees": 20, "shear": 10}},
            {"random_perspective": {"distortion": 0.3}},
            "random_horizontal_flip",
            {"letterbox": {"size": 96}},
            {"sanitize_boxes": {"min_visibility": 0.1}},
            {"convert_boxes": {"to": "cxcywh", "relative": True}},
            {"pad_rows": {"value": -1, "count": "objects"}},
        ],
        batch={"size": 16},
        order={"global": {}},
        seed=5,
        epochs=2,
    )


def test_boxes_are_as_pure(detection):
    reference = digest_of("cpp", detection, workers=1, threads=1)
    assert digest_of("python", detection, workers=3, threads=2) == reference
    assert digest_of("cpp", detection, OLD_CPU, workers=2) == reference
