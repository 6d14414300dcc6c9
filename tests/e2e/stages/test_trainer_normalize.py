"""`normalize: {at: trainer}` through real services: the same numbers as by workers, of a quarter of the bytes."""

import json

import numpy as np
import pytest

import bulkhead
from bulkhead import errors
from bulkhead._rpc import proto
from conftest import digest_of, finish_digest, start_digest, tool, write_spec

MEAN = {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}
DIVIDE = {"divide": 127.5, "subtract": [1, 0.9, 1.1]}
LAYOUTS = {"nhwc": [], "nchw": [{"layout": {"to": "nchw"}}]}
DTYPES = {
    "float32": [],
    "float16": [{"cast": {"dtype": "float16"}}],
    "bfloat16": [{"cast": {"dtype": "bfloat16"}}],
}


def photos_spec(folder, photos, at, constants=MEAN, behind=(), name=None, **more):
    """150 photos as 40 x 56 in batches of 40, with labels."""
    spec = {
        "source": {"image_folder": {"path": str(photos / "folder")}},
        "stages": ["decode_image", {"random_resized_crop": {"size": [40, 56]}}, "random_horizontal_flip",
                   {"normalize": {**constants, **({"at": at} if at else {})}}, *behind],
        "batch": {"size": 40},
        "order": "global",
        "seed": 3,
        "epochs": 2,
        "outputs": ["image", "label"],
    }
    return write_spec(folder / f"{name or at}.json", **{**spec, **more})


@pytest.fixture
def service(services, folder, photos):
    return services(folder / "service", "--root", photos, "--workers", 1, "--threads", 2)


@pytest.mark.parametrize("client", ["python", "cpp"])
@pytest.mark.parametrize("transport", ["shm", "grpc"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_trainers_get_what_workers_would_have_made(service, folder, photos, client, transport, layout, dtype):
    constants = DIVIDE if (layout, dtype) == ("nhwc", "float16") else MEAN
    digests = {
        digest_of(client, photos_spec(folder, photos, at, constants, LAYOUTS[layout] + DTYPES[dtype]),
                  target=service.target, transport=transport)
        for at in ("worker", "trainer")
    }
    assert len(digests) == 1


def test_five_crops_and_other_bytes_are_normalized_too(service, folder, photos):
    five = [{"five_crop": {"size": 24}}]
    spec = lambda at: photos_spec(  # noqa: E731
        folder, photos, at, stages=["decode_image", {"resize": {"size": [40, 56]}}, *five,
                                    {"normalize": {**MEAN, "at": at}}, *LAYOUTS["nchw"]])
    with bulkhead.Loader(spec("trainer"), service.target) as loader:
        assert loader.next_batch()["image"].shape == (40, 5, 3, 24, 24)
    assert len({digest_of("python", spec(at), target=service.target) for at in ("worker", "trainer")}) == 1


def test_the_batch_travels_as_bytes(service, folder, photos):
    sizes = {}
    for at in ("worker", "trainer"):
        spec = photos_spec(folder, photos, at, behind=LAYOUTS["nchw"], outputs=["image"])
        with bulkhead.Loader(spec, service.target) as loader:
            [image] = loader.schema
            assert (image.dtype, image.shape, image.packing) == (np.float32, (3, 40, 56), "samples")
            batch = loader.next_batch()
            sizes[at] = loader.stats.bytes
            assert batch["image"].dtype == np.float32 and batch["image"].shape == (40, 3, 40, 56)
            assert batch["image"] is batch["image"] and batch["image"].flags.writeable
            assert batch["image"].ctypes.data % 64 == 0
    assert sizes["worker"] == 4 * sizes["trainer"]


def test_a_slot_is_free_once_its_numbers_are_read(service, folder, photos):
    with bulkhead.Loader(photos_spec(folder, photos, "trainer"), service.target, transport="shm") as loader:
        batch = loader.next_batch()
        assert loader.held_slots == 1
        batch["image"]
        assert loader.held_slots == 0


def test_pieces_and_new_names_are_normalized(service, folder, photos):
    with bulkhead.Loader(photos_spec(folder, photos, "worker"), service.target) as loader:
        whole = loader.next_batch()["image"].copy()
    spec = photos_spec(folder, photos, "trainer")
    with bulkhead.Loader(spec, service.target, rename={"image": "x"}) as loader:
        batch = loader.next_batch()
        pieces = batch.split(3)
        assert np.array_equal(np.concatenate([piece["x"] for piece in pieces]), whole)
        assert np.array_equal(batch["x"], whole) and len(batch.split(3)[2]["x"]) == 13
        assert [output.name for output in loader.schema] == ["x", "label"]


@pytest.mark.parametrize("client", ["python", "cpp"])
def test_a_stream_goes_on_from_its_cursor(service, folder, photos, client):
    spec = photos_spec(folder, photos, "trainer", behind=LAYOUTS["nchw"])
    worker = photos_spec(folder, photos, "worker", behind=LAYOUTS["nchw"])

    def read(spec, **options):
        return finish_digest(start_digest(client, spec, target=service.target, **options))

    cursor = json.dumps(read(spec, batches=3)["cursor"])
    there = json.dumps(read(worker, batches=3)["cursor"])
    assert read(spec, cursor=cursor)["digest"] == read(worker, cursor=there)["digest"]


def test_a_cursor_of_the_other_place_has_its_order_and_not_its_bytes(service, folder, photos):
    cursors = {}
    for at in (None, "worker", "trainer"):
        with bulkhead.Loader(photos_spec(folder, photos, at, name="x"), service.target) as loader:
            cursors[at] = loader.next_batch().cursor
    assert cursors[None] == cursors["worker"]
    assert cursors["trainer"]["order_fingerprint"] == cursors["worker"]["order_fingerprint"]
    assert cursors["trainer"]["bytes_fingerprint"] != cursors["worker"]["bytes_fingerprint"]
    spec = photos_spec(folder, photos, "trainer")
    with pytest.raises(errors.CursorMismatch, match="stages"):
        bulkhead.Loader(spec, service.target, cursor=cursors["worker"])
    with bulkhead.Loader(spec, service.target, cursor=cursors["worker"], allow_changed_bytes=True) as loader:
        assert loader.next_batch().positions == range(40, 80)


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_a_client_that_does_not_know_it_is_refused(service, folder, photos, transport, monkeypatch):
    spec = photos_spec(folder, photos, "trainer")
    monkeypatch.setattr(proto, "PACKING_NORMALIZED_BY_CLIENT", 99)  # as in the clients before
    with pytest.raises(errors.ProtocolError, match="'image' is packed in a way that this client does not know: update it"):
        bulkhead.Loader(spec, service.target, transport=transport)


def test_it_must_be_last_and_the_message_says_where(folder):
    spec = folder / "s.yaml"
    spec.write_text(
        "source: {image_folder: {path: photos}}\nstages:\n- decode_image\n- resize: {size: 8}\n"
        "- normalize: {divide: 255, at: trainer}\n- random_horizontal_flip\nbatch: {size: 2}\n")
    message = tool("validate", spec, code=1)
    assert "s.yaml:6:3: stages[3].random_horizontal_flip" in message and "only layout and cast may follow" in message
    spec.write_text(spec.read_text().replace("- random_horizontal_flip\n", "batch_stages: [mixup]\n"))
    assert "batch_stages[0].mixup" in tool("validate", spec, code=1)


def test_tools_say_what_travels_and_what_the_trainer_gets(folder, photos):
    spec = photos_spec(folder, photos, "trainer", behind=LAYOUTS["nchw"])
    assert "uint8, float32 in the trainer (NCHW)" in tool("validate", spec)
    assert "uint8 [40,56,3], float32 in the trainer (NCHW)" in tool("explain", spec, "--samples", 8)
    tool("preview", spec, "--out", folder / "sheet.png")
    assert (folder / "sheet.png").stat().st_size > 1000
