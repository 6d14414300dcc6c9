"""Mixtures through the real service: two TFRecord sets of different size, with own orders and own stages."""

import json
import subprocess

import numpy as np
import pytest

import bulkhead
from conftest import BIN, Service, write_spec

FEW, MANY = 2000, 8000  # records: part-4.tfrecord, the other four files
MARK = 100_000  # what the rare source's own stage adds to its numbers


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synth") / "faces"
    subprocess.run(
        [BIN / "bulkhead", "synth", folder, "--schema", "face", "--count", "120", "--size", "64x48"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder


def number_source(files, weight, order, subtract):
    return {
        "weight": weight,
        "source": {"tfrecord": {"files": files}},
        "features": {"var": "int64"},
        "order": order,
        "stages": [{"normalize": {"input": "var", "divide": 1, "subtract": subtract}}],
    }


def number_spec(numbers, name, batch=50, rare="sequential", **mixture):
    return write_spec(
        numbers / f"{name}.yaml",
        source={
            "mixture": {
                "sources": [
                    number_source("part-[0123].tfrecord", 0.9, "global", 0),
                    number_source("part-4.tfrecord", 0.1, rare, -MARK),
                ],
                **mixture,
            }
        },
        stages=[{"cast": {"input": "var", "dtype": "int64"}}],
        batch={"size": batch},
        seed=11,
        epochs=4,
    )


def records(batches):
    """(source, number) of every sample, the rare source's mark taken off again."""
    found = []
    for batch in batches:
        valid = batch.valid_count if hasattr(batch, "valid_count") else len(batch["var"])
        for var, source in zip(batch["var"][:valid].tolist(), batch["source_id"][:valid].tolist()):
            assert source in (0, 1)
            assert (var >= MARK) == (source == 1), "each source's own stage was applied"
            found.append((source, var - MARK * source))
    return found


def epoch_of(numbers, folder, **spec):
    with bulkhead.Loader(number_spec(numbers, folder.name, **spec), workers=2) as loader:
        return records(loader), loader.samples_per_epoch


def test_first_exhausted_goes_through_the_large_set_once(numbers, folder):
    found, samples = epoch_of(numbers, folder)
    # 0.9 × 8888 = 7999.2; the next one, 0.9 × 8889 = 8000.1, is still the 8000th.
    assert samples == len(found) == 8889
    many = [number for source, number in found if source == 0]
    few = [number for source, number in found if source == 1]
    assert sorted(many) == list(range(MANY)) and many != sorted(many)
    assert few == list(range(MANY, MANY + 889)), "the rare source comes in its own, sequential order"


def test_proportions_hold_in_every_stretch(numbers, folder):
    found, _ = epoch_of(numbers, folder)
    sources = np.array([source for source, _ in found])
    for begin in range(0, len(sources) - 40, 40):  # blocks: 40 positions for a share of 0.1
        assert sources[begin : begin + 40].sum() == 4, begin
    drawn = np.cumsum(sources)
    expected = 0.1 * np.arange(1, len(sources) + 1)
    assert np.abs(drawn - expected).max() <= 4
    # Nor are they a fixed pattern: the rare source stands at any place of ten.
    assert len(set((np.flatnonzero(sources) % 10).tolist())) == 10


def test_sources_wrap_around_into_their_next_order(numbers, folder):
    spec = number_spec(numbers, folder.name, stop="never", samples_per_epoch=6000, rare="global")
    with bulkhead.Loader(spec, workers=2) as loader:
        found = records(loader.stream())
    assert len(found) == 4 * 6000
    for source, first, size in ((0, 0, MANY), (1, MANY, FEW)):
        drawn = [number for s, number in found if s == source]
        rounds = [drawn[i : i + size] for i in range(0, len(drawn) - size + 1, size)]
        # 21,600 of the one: two whole rounds across the borders of epochs; 2,400 of the other.
        assert len(rounds) == (2 if source == 0 else 1)
        for numbers_of_round in rounds:
            assert sorted(numbers_of_round) == list(range(first, first + size))
        assert len({tuple(r) for r in rounds}) == len(rounds), "another order every round"
        assert drawn[size : size + 50] != drawn[:50]


def test_all_exhausted_goes_through_every_set(numbers, folder):
    found, samples = epoch_of(numbers, folder, stop="all_exhausted")
    # 0.1 × 19,995 = 1999.5 and the half goes to the heavier one.
    assert samples == len(found) == 19_996
    assert [number for source, number in found if source == 1] == list(range(MANY, MANY + FEW))
    assert {number for source, number in found if source == 0} == set(range(MANY))


def test_each_source_may_be_selected_from(numbers, folder):
    spec = number_spec(numbers, folder.name)
    whole = json.loads(spec.read_text())
    many, few = whole["source"]["mixture"]["sources"]
    many["filter"] = {"feature": "var", "min": 1000, "max": 2999}
    few.update(skip=100, take=50)
    spec.write_text(json.dumps(whole))
    with bulkhead.Loader(spec, workers=2) as loader:
        found = records(loader)
    # The rare source has 50 left: 0.1 × 504 = 50.4 is still 50, 0.1 × 505 = 50.5 as well (the half goes to the other).
    assert len(found) == 505
    assert [number for source, number in found if source == 1] == list(range(MANY + 100, MANY + 150))
    drawn = [number for source, number in found if source == 0]
    assert len(set(drawn)) == 455 and set(drawn) <= set(range(1000, 3000))
    said = subprocess.run([BIN / "bulkhead", "order", "--json", "--spec", spec], capture_output=True, text=True)
    assert json.loads(said.stdout)["records"] == 2050
    few["skip"] = FEW
    spec.write_text(json.dumps(whole))
    with pytest.raises(bulkhead.errors.BulkheadError, match=r"source.mixture.sources\[1\].*leaves out 2000"):
        bulkhead.Loader(spec)


def test_resume_in_mid_epoch_with_other_batches(numbers, folder):
    whole, _ = epoch_of(numbers, folder)
    with bulkhead.Loader(number_spec(numbers, folder.name), workers=2) as loader:
        head = records(loader.next_batch() for _ in range(37))
        cursor = json.loads(json.dumps(loader.state_dict()))
    assert cursor["consumed"] == 37 * 50
    other = number_spec(numbers, folder.name + "-other", batch=64)
    with bulkhead.Loader(other, workers=1, cursor=cursor) as loader:
        tail = records(loader)
    assert head + tail == whole


def test_world_sizes_see_one_global_order(numbers, folder):
    whole, _ = epoch_of(numbers, folder)
    service = Service(folder, "--root", numbers)
    try:
        for world_size in (2, 3):
            spec = number_spec(numbers, f"{folder.name}-{world_size}", batch=20)
            loaders = [
                bulkhead.Loader(spec, target=service.target, rank=rank, world_size=world_size)
                for rank in range(world_size)
            ]
            found = {}
            for loader in loaders:
                for batch in loader:
                    for position, sample in zip(batch.positions, records([batch])):
                        found[position] = sample
                loader.close()
            assert [found[position] for position in sorted(found)] == whole[: len(found)]
            assert len(found) > len(whole) - world_size
    finally:
        assert service.stop() == 0


def test_a_cursor_of_other_weights_is_refused(numbers, folder):
    with bulkhead.Loader(number_spec(numbers, folder.name)) as loader:
        cursor = loader.state_dict()
    spec = number_spec(numbers, folder.name)
    spec.write_text(spec.read_text().replace("0.9", "0.8"))
    with pytest.raises(bulkhead.errors.BulkheadError, match="the cursor belongs to other data"):
        bulkhead.Loader(spec, cursor={**cursor, "samples_per_epoch": cursor["samples_per_epoch"]})


def face_spec(faces, path):
    def one(files, weight, stages):
        return {
            "weight": weight,
            "source": {"tfrecord": {"files": files}},
            "features": {
                "image": {"key": "img_raw", "bytes": {}},
                "label": "int64",
                "bbox": {"tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}},
            },
            "order": "global",
            "stages": stages,
        }

    return write_spec(
        path,
        source={
            "mixture": {
                "sources": [
                    one(str(faces / "pos-*.tfrecord"), 0.9, ["decode_image", {"random_resized_crop": {"size": 32}}]),
                    one(str(faces / "neg-*.tfrecord"), 0.1, ["decode_image", {"center_crop": {"size": 32}}]),
                ],
                "stop": "all_exhausted",
            }
        },
        stages=["random_horizontal_flip", {"normalize": {"divide": 127.5, "subtract": 1}}],
        batch={"size": 16},
        seed=5,
        epochs=1,
    )


def test_positives_and_negatives_share_a_batch(faces, folder):
    spec = face_spec(faces, folder / "faces.yaml")

    def stream(workers):
        with bulkhead.Loader(spec, workers=workers) as loader:
            return [{name: np.array(array) for name, array in batch.items()} for batch in loader]

    batches = stream(1)
    assert set(batches[0]) == {"bbox", "bbox_count", "image", "label", "source_id"}
    assert batches[0]["image"].shape == (16, 32, 32, 3)
    for batch in batches:
        negative = batch["source_id"] == 1
        assert (batch["label"] == np.where(negative, 0, 1)).all()
        assert (batch["bbox_count"][negative] == 0).all()
        assert (batch["bbox_count"][~negative] > 0).all()
    share = np.concatenate([batch["source_id"] for batch in batches]).mean()
    assert abs(share - 0.1) < 0.01
    for one, other in zip(batches, stream(3)):
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_tools_know_mixtures(numbers, folder):
    spec = number_spec(numbers, folder.name)
    said = subprocess.run([BIN / "bulkhead", "validate", spec], capture_output=True, text=True)
    assert said.returncode == 0 and "source_id" in said.stdout
    said = subprocess.run([BIN / "bulkhead", "order", "--json", "--spec", spec], capture_output=True, text=True)
    assert json.loads(said.stdout)["samples_per_epoch"] == 8889
    with bulkhead.Loader(spec) as loader:
        batches = [loader.next_batch() for _ in range(3)]
    (folder / "cursor.json").write_text(json.dumps(batches[1].cursor))
    replay = [BIN / "bulkhead", "replay", "--spec", spec, "--cursor", folder / "cursor.json", "--out", folder / "out"]
    subprocess.run(replay, check=True, capture_output=True)
    assert np.array_equal(np.load(folder / "out/epoch0-pos100-var.npy"), batches[2]["var"])


def test_a_top_level_order_is_refused_with_its_place(numbers, folder):
    spec = folder / "bad.yaml"
    spec.write_text(
        "source:\n  mixture:\n    sources:\n"
        "      - {weight: 1, source: {range: {size: 5}}}\n"
        "      - {weight: 1, source: {range: {size: 7}}}\n"
        "batch: {size: 2}\norder: global\n"
    )
    said = subprocess.run([BIN / "bulkhead", "validate", spec], capture_output=True, text=True)
    assert said.returncode == 1
    assert "bad.yaml:7:1: order: stands on each source of a mixture" in said.stderr
    with pytest.raises(bulkhead.errors.BulkheadError, match="bad.yaml:7:1: order"):
        bulkhead.Loader(spec)
