"""pack_rows and multi_scale through real services: what trainers get, and that nothing changes a byte of it."""

import itertools
import json
import subprocess

import cv2
import numpy as np
import pytest

import bulkhead
from bulkhead import errors
from conftest import BIN, HERE, PYTHON, digest_of, read, tool, write_spec

SIZES = [32, 40, 48, 64]


@pytest.fixture
def start(services, folder, photos):
    homes = (folder / f"service{number}" for number in itertools.count())

    def start_one(*options, workers=1, threads=1):
        return services(next(homes), "--root", photos, "--workers", workers, "--threads", threads, "--python", PYTHON,
                        "--python-path", HERE, *options)

    return start_one


def detection(folder, photos, *batch_stages, name=None, stages=(), **more):
    """150 photos of 48 x 64 with their boxes; batches of 40."""
    spec = {
        "source": {"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        "features": {"image": {"bytes": {}}, "label": {"int64": {}},
                     "boxes": {"tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}}},
        "stages": ["decode_image", {"boxes": {"format": "xyxy"}}, "random_horizontal_flip", {"resize": {"size": [48, 64]}},
                   *stages],
        "batch": {"size": 40},
        "order": "global",
        "seed": 3,
        "epochs": 2,
        "batch_stages": list(batch_stages),
    }
    path = folder / f"{name or 'spec' + str(len(list(folder.glob('*.json'))))}.json"
    return write_spec(path, **{**spec, **more})


def filled(batch, name="boxes"):
    rows = batch[name]
    return rows[np.arange(rows.shape[1]) < batch[f"{name}_count"][:, None]]


def by_sample(batch, name="boxes"):
    offsets = batch[f"{name}_offsets"]
    return [batch[name][a:b] for a, b in zip(offsets, offsets[1:])]


# Rows.


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_packed_rows_are_the_padded_ones_without_the_padding(start, folder, photos, transport):
    service = start(workers=2, threads=2)
    padded = read(service, detection(folder, photos), transport=transport)
    packed = read(service, detection(folder, photos, "pack_rows"), transport=transport)
    assert [len(batch["image"]) for batch in packed] == [40, 40, 40, 30] * 2
    totals = set()
    for one, other in zip(padded, packed, strict=True):
        assert np.array_equal(one["image"], other["image"]) and np.array_equal(one["boxes_count"], other["boxes_count"])
        assert other["boxes"].shape == (one["boxes_count"].sum(), 4) and np.array_equal(other["boxes"], filled(one))
        assert other["boxes_offsets"].tolist() == [0, *np.cumsum(one["boxes_count"])]
        assert [len(rows) for rows in by_sample(other)] == one["boxes_count"].tolist()
        totals.add(len(other["boxes"]))
    assert len(totals) > 2, "batches have as many rows as they need"


@pytest.mark.parametrize("last", ["partial", "drop", "pad"])
def test_workers_threads_transport_and_client_change_no_byte(start, folder, photos, last):
    spec = detection(folder, photos, {"multi_scale": {"sizes": SIZES}}, "pack_rows", batch={"size": 40, "last": last})
    one = start()
    expected = digest_of("python", spec, target=one.target)
    assert digest_of("cpp", spec, target=one.target) == expected
    many = start(workers=3, threads=3)
    assert digest_of("python", spec, target=many.target, transport="shm") == expected
    assert digest_of("cpp", spec, target=many.target, transport="grpc") == expected
    if last == "partial":
        assert json.loads(tool("bench", "run", "--spec", spec, "--in-process", "--json"))["digest"] == expected


def test_a_cursor_goes_on_and_another_batch_size_keeps_the_rows(start, folder, photos):
    service = start(workers=2)
    spec = detection(folder, photos, "pack_rows", epochs=1)
    whole = read(service, spec)
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        cursor = loader.next_batch().cursor
    rest = read(service, spec, cursor=cursor)
    assert [batch["boxes"].tobytes() for batch in rest] == [batch["boxes"].tobytes() for batch in whole[1:]]
    other = read(service, detection(folder, photos, "pack_rows", epochs=1, batch={"size": 7}), cursor=cursor)
    assert np.array_equal(np.concatenate([batch["boxes"] for batch in other]),
                          np.concatenate([batch["boxes"] for batch in rest]))


def test_unordered_batches_have_the_same_rows(start, folder, photos):
    service = start(workers=3, threads=2)
    ordered = read(service, detection(folder, photos, "pack_rows", batch={"size": 10}))
    free = read(service, detection(folder, photos, "pack_rows", batch={"size": 10}, deterministic=False))
    def found(batches):
        return sorted(batch["boxes"].tobytes() for batch in batches)
    assert found(free) == found(ordered) and len(free) == 30


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_killed_workers_change_no_byte(start, folder, photos, transport):
    stages = [{"multi_scale": {"sizes": SIZES}}, "pack_rows",
              {"python": {"function": "batch_functions:slowly", "inputs": ["label"],
                          "outputs": [{"name": "label", "dtype": "int64"}]}}]
    spec = detection(folder, photos, *stages, batch={"size": 10}, epochs=4)
    expected = read(start(), spec)
    service = start(workers=2, threads=2)
    killed, number = 0, 0
    with bulkhead.Loader(spec, service.target, timeout=120, transport=transport) as loader:
        for number, batch in enumerate(loader.stream()):
            for name in batch:
                assert np.array_equal(batch[name], expected[number][name]), (number, name)
            if number in (5, 15, 30):
                killed += service.kill_worker()
    assert killed == 3 and number == 59
    assert int(bulkhead.service_status(service.target)["leases_redone"]) >= 1


def test_rows_of_any_type(start, folder):
    outputs = [{"name": "a", "dtype": "uint32", "shape": [-1], "max_count": 3},
               {"name": "b", "dtype": "complex128", "shape": [-1], "max_count": 3}]
    spec = write_spec(folder / "types.json", source={"range": {"size": 20}}, batch={"size": 8}, epochs=1, stages=[
        {"python": {"function": "batch_functions:two_types", "inputs": ["index"], "outputs": outputs}}],
        batch_stages=["pack_rows"])
    service = start()
    batches = read(service, spec)
    index = np.repeat(np.arange(20), np.arange(20) % 4)
    rows = np.concatenate([np.arange(i % 4) for i in range(20)])
    a = np.concatenate([batch["a"] for batch in batches])
    assert a.dtype == np.uint32 and np.array_equal(a, 4_000_000_000 + rows)
    assert np.array_equal(np.concatenate([batch["b"] for batch in batches]), rows - 1j * index)
    assert digest_of("cpp", spec, target=service.target) == digest_of("python", spec, target=service.target)


def test_pieces_of_a_batch(start, folder, photos):
    with bulkhead.Loader(detection(folder, photos, "pack_rows"), start().target, timeout=60) as loader:
        batch = loader.next_batch()
        pieces = batch.split(3)
        assert [piece.sample_count for piece in pieces] == [14, 13, 13]
        assert np.array_equal(np.concatenate([piece["boxes"] for piece in pieces]), batch["boxes"])
        assert [len(rows) for piece in pieces for rows in by_sample(piece)] == batch["boxes_count"].tolist()
        assert all(np.shares_memory(piece["boxes"], batch["boxes"]) for piece in pieces)


def test_a_batch_function_may_change_what_is_packed(start, folder, photos):
    service = start()
    more = {"python": {"function": "batch_functions:one_more", "inputs": ["boxes"],
                       "outputs": [{"name": "boxes", "dtype": "float32", "shape": [16, 4]}]}}
    plain = read(service, detection(folder, photos, "pack_rows"))
    changed = read(service, detection(folder, photos, more, "pack_rows"))
    for one, other in zip(plain, changed, strict=True):
        assert np.array_equal(other["boxes"], one["boxes"] + np.float32(1)), "its padding is left behind"


def test_spec_errors_have_their_place(start, folder, photos):
    for stages, words in [
        (["pack_rows", {"pack_rows": {"inputs": ["boxes"]}}], "batch_stages[1].pack_rows.inputs: `boxes` was packed by"),
        ([{"pack_rows": {"inputs": ["label"]}}], "batch_stages[0].pack_rows.inputs: `label` is int64 []"),
        ([{"multi_scale": {"sizes": [65]}}], "batch_stages[0].multi_scale.sizes[0]: is 65"),
        (["pack_rows", {"multi_scale": {"sizes": [32]}}], "batch_stages[1].multi_scale: `boxes` was packed by"),
    ]:
        with pytest.raises(errors.SpecError) as caught:
            read(start(), detection(folder, photos, *stages))
        assert words in str(caught.value)


# Sizes.


def test_every_batch_has_a_size_of_its_own(start, folder, photos):
    service = start(workers=2, threads=2)
    plain = read(service, detection(folder, photos, batch={"size": 10}))
    scaled = read(service, detection(folder, photos, {"multi_scale": {"sizes": SIZES}}, batch={"size": 10}))
    widths = set()
    for one, other in zip(plain, scaled, strict=True):
        height, width = other["image_size"][0]
        assert (other["image_size"] == [height, width]).all() and 4 * height == 3 * width and width in SIZES
        assert other["image"].shape == (10, height, width, 3)
        for before, after in zip(one["image"], other["image"]):
            assert np.array_equal(cv2.resize(before, (int(width), int(height))), after)
        assert np.allclose(other["boxes"], one["boxes"] * (width / 64), atol=1e-4)
        widths.add(int(width))
    assert widths == set(SIZES)


def test_floats_with_channels_first(start, folder, photos):
    stages = [{"normalize": {"divide": 127.5, "subtract": 1}}, {"layout": {"to": "nchw"}}]
    service = start(workers=2)
    plain = read(service, detection(folder, photos, stages=stages, epochs=1, outputs=["image"]))
    scaled = read(service, detection(folder, photos, {"multi_scale": {"sizes": [40]}}, stages=stages, epochs=1,
                                     outputs=["image"]), transport="grpc")
    for one, other in zip(plain, scaled, strict=True):
        assert other["image"].shape == (len(one["image"]), 3, 30, 40) and other["image"].dtype == np.float32
        for before, after in zip(one["image"], other["image"]):
            expected = cv2.resize(before.transpose(1, 2, 0), (40, 30)).transpose(2, 0, 1)
            assert np.abs(expected - after).max() < 1e-5


def test_the_draw_depends_on_the_position_alone(start, folder, photos):
    service = start(workers=2)
    def sizes(size):
        spec = detection(folder, photos, {"multi_scale": {"sizes": SIZES}}, batch={"size": size}, epochs=1)
        return [batch["image_size"][0][1] for batch in read(service, spec)]
    assert sizes(20)[::1] != sizes(10)[: len(sizes(20))]
    assert sizes(10)[::2] == sizes(20)


# Tools.


def test_tools_know_packed_outputs(folder, photos):
    spec = detection(folder, photos, {"multi_scale": {"sizes": SIZES}}, "pack_rows", batch={"size": 40, "last": "pad"})
    said = json.loads(tool("validate", "--json", spec))[0]
    assert {output["name"]: output["packing"] for output in said["outputs"]} == {
        "boxes": "rows", "boxes_count": "samples", "image": "extents", "image_size": "samples", "label": "samples"}
    assert said["random_stages"] == ["stages[2].random_horizontal_flip", "batch_stages[0].multi_scale"]
    assert not any("batch.last: pad" in warning for warning in said["warnings"]), "nothing is mixed"
    table = " ".join(tool("validate", spec).split())
    assert "boxes float32 [<=640,4]" in table and "boxes_offsets int64 [41]" in table
    assert "image uint8 [40,<=48,<=64,3]" in table
    explained = json.loads(tool("explain", "--spec", spec, "--samples", 80, "--json"))
    scale, pack = explained["stages"][-2:]
    assert [made["name"] for made in scale["gives"]] == ["image"]
    assert pack["gives"] == [{"name": "boxes", "what": "up to float32 [16,4], without padding", "sample_bytes": 256}]
    assert "pure" in tool("validate", "--purity", 60, spec)
    printed = subprocess.run([BIN / "bulkhead", "stream", spec], capture_output=True, text=True, timeout=120)
    assert "boxes float32[16,4] (rows)" in printed.stderr and "image uint8[48,64,3] (extents)" in printed.stderr


def test_replay_writes_packed_outputs(folder, photos):
    spec = detection(folder, photos, {"multi_scale": {"sizes": SIZES}}, "pack_rows")
    with bulkhead.Loader(spec, timeout=60) as loader:
        cursor = loader.next_batch().cursor
        batch = {name: np.array(array) for name, array in loader.next_batch().items()}
    (folder / "cursor.json").write_text(json.dumps(cursor))
    said = tool("replay", "--spec", spec, "--cursor", folder / "cursor.json", "--out", folder / "out")
    assert f"boxes  float32[{len(batch['boxes'])},4]  min" in said
    for name, array in batch.items():
        assert np.array_equal(np.load(folder / "out" / f"epoch0-pos40-{name}.npy"), array), name
    assert cv2.imread(str(folder / "out/epoch0-pos40-image.png")) is not None


def test_preview_draws_packed_boxes(folder, photos):
    def sheet(*batch_stages, outputs=("image", "boxes")):
        spec = detection(folder, photos, *batch_stages, batch={"size": 4}, outputs=outputs, name="preview")
        tool("preview", "--spec", spec, "--out", folder / "sheet.png", "--samples", 6, "--cell", 64)
        return cv2.imread(str(folder / "sheet.png"))

    padded = sheet()
    assert np.array_equal(sheet("pack_rows"), padded)
    bare = sheet(outputs=["image"])
    assert not np.array_equal(bare[34:98], padded[34:98]), "boxes are drawn"
    scaled = sheet({"multi_scale": {"sizes": [64]}}, "pack_rows")
    assert np.array_equal(scaled[34:98], padded[34:98])
