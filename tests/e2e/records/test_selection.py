"""filter, split, skip and take through the real service: what a trainer gets is what the spec selects, everywhere."""

import json
import subprocess

import pytest

import bulkhead
from conftest import BIN, Service, write_spec

RECORDS = 10_000  # of `bulkhead synth --schema range`: five files of 2,000, `var` counts through all
SPLIT = {"train": 0.8, "validation": 0.15, "test": 0.05}


def numbers_spec(numbers, folder, **more):
    spec = {
        "source": {"tfrecord": {"files": str(numbers / "part-*.tfrecord")}},
        "features": {"var": "int64"},
        "batch": {"size": 64},
        "epochs": 1,
    }
    return write_spec(folder / "spec.yaml", **{**spec, **more})


def values(spec, name="var", **options):
    with bulkhead.Loader(spec, **options) as loader:
        return [int(value) for batch in loader.stream() for value in batch[name]]


def tool(*arguments, check=True):
    return subprocess.run(
        [BIN / "bulkhead", *map(str, arguments)], check=check, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("order", ["sequential", {"global": {}}, {"interleave": {"cycle_length": 3}}])
def test_the_parts_of_a_split_are_disjoint_and_together_everything(numbers, folder, order):
    parts = {
        use: values(numbers_spec(numbers, folder, order=order, split={"parts": SPLIT, "use": use})) for use in SPLIT
    }
    everything = [value for part in parts.values() for value in part]
    assert sorted(everything) == list(range(RECORDS))
    for use, share in SPLIT.items():
        assert abs(len(parts[use]) - share * RECORDS) < 200, use


def test_a_split_does_not_depend_on_seed_epoch_or_order(numbers, folder):
    split = {"parts": SPLIT, "use": "validation"}
    plain = values(numbers_spec(numbers, folder, split=split))
    both = values(numbers_spec(numbers, folder, split=split, seed=9, order="global", epochs=2))
    assert sorted(both[: len(plain)]) == sorted(both[len(plain) :]) == plain
    assert both[: len(plain)] != both[len(plain) :]
    assert values(numbers_spec(numbers, folder, split={**split, "salt": 1})) != plain


def test_a_part_keeps_its_records_when_files_are_added(numbers, folder):
    data = folder / "data"
    data.mkdir()
    spec = {"source": {"tfrecord": {"files": "data/*.tfrecord"}}, "split": {"parts": SPLIT, "use": "train"}}
    for part in (1, 2):
        (data / f"part-{part}.tfrecord").write_bytes((numbers / f"part-{part}.tfrecord").read_bytes())
    before = values(numbers_spec(numbers, folder, **spec))
    for part in (0, 4):
        (data / f"part-{part}.tfrecord").write_bytes((numbers / f"part-{part}.tfrecord").read_bytes())
    after = values(numbers_spec(numbers, folder, **spec))
    assert [value for value in after if 2000 <= value < 6000] == before
    assert len(after) > len(before)


def test_a_filter_keeps_what_meets_every_condition(numbers, folder):
    conditions = [{"feature": "var", "min": 1990, "max": 6009, "not_in": [2000, 6009]}, {"feature": "var", "max": 6005}]
    expected = [value for value in range(1990, 6006) if value != 2000]
    spec = numbers_spec(numbers, folder, filter=conditions)
    assert values(spec, workers=2) == expected
    assert sorted(values(numbers_spec(numbers, folder, filter=conditions, order="global"))) == expected


@pytest.mark.parametrize("kind", ["tfrecord", "image_list", "image_folder"])
def test_a_filter_on_the_label_keeps_its_class(photos, folder, kind):
    source = {
        "tfrecord": {"tfrecord": {"files": str(photos / "*.tfrecord")}},
        "image_list": {"image_list": {"path": str(next(photos.glob("*.txt")))}},
        "image_folder": {"image_folder": {"path": str(photos / "folder")}},
    }[kind]
    more = {"features": {"label": "int64"}} if kind == "tfrecord" else {}
    base = {"source": source, "outputs": ["label"], "batch": {"size": 7}, "epochs": 1, **more}
    everything = values(write_spec(folder / "all.yaml", **base), "label")
    label = everything[len(everything) // 2]
    kept = values(write_spec(folder / "some.yaml", **base, filter={"feature": "label", "in": label}), "label")
    assert 0 < len(kept) < len(everything)
    assert kept == [value for value in everything if value == label]
    others = values(write_spec(folder / "rest.yaml", **base, filter={"feature": "label", "not_in": label}), "label")
    assert others == [value for value in everything if value != label]


def test_skip_and_take_cut_what_is_left_in_source_order(numbers, folder):
    kept = [value for value in range(RECORDS) if value >= 1500]
    more = {"filter": {"feature": "var", "min": 1500}, "skip": 700, "take": 4000}
    assert values(numbers_spec(numbers, folder, **more)) == kept[700:4700]
    assert sorted(values(numbers_spec(numbers, folder, **more, order="global"))) == kept[700:4700]
    # Files go one after the other, each in its own order: those of which something is left, as far as it is.
    shuffled = values(numbers_spec(numbers, folder, **more, order={"sequential": {"shuffle_files": True}}))
    assert sorted(shuffled) == kept[700:4700]
    runs = [value for i, value in enumerate(shuffled) if i == 0 or shuffled[i - 1] + 1 != value]
    assert set(runs) <= {2200, 4000, 6000}
    # Two slots: files 0 and 1 first, but nothing is left of file 0, so its slot goes on with file 2.
    turns = values(numbers_spec(numbers, folder, **more, order={"interleave": {"cycle_length": 2}}))
    assert sorted(turns) == kept[700:4700]
    assert turns[:6] == [2200, 4000, 2201, 4001, 2202, 4002]


def test_skip_and_take_of_a_range_and_a_folder_need_no_selection(photos, folder):
    spec = write_spec(folder / "r.yaml", source={"range": {"size": 100}}, batch={"size": 8}, skip=90, take=20, epochs=1)
    assert values(spec, "index") == list(range(90, 100))
    base = {"source": {"image_folder": {"path": str(photos / "folder")}}, "batch": {"size": 8}, "epochs": 1}
    everything = values(write_spec(folder / "a.yaml", **base, outputs="label"), "label")
    assert values(write_spec(folder / "b.yaml", **base, outputs="label", skip=3, take=10), "label") == everything[3:13]
    assert not list((folder / "cache").rglob("*.selection"))


def test_a_filtered_range(folder):
    base = {"source": {"range": {"size": 5000}}, "batch": {"size": 32}, "epochs": 1, "order": "global"}
    seen = {}
    for use in SPLIT:
        spec = write_spec(folder / "s.yaml", **base, filter={"feature": "index", "max": 2999}, split={"parts": SPLIT, "use": use})
        seen[use] = values(spec, "index")
    assert sorted(value for part in seen.values() for value in part) == list(range(3000))


def test_a_stream_goes_on_from_a_cursor_with_another_batch_and_world_size(numbers, folder):
    more = {"filter": {"feature": "var", "not_in": list(range(0, 3000, 2))}, "take": 5003, "order": "global"}
    whole = values(numbers_spec(numbers, folder, **more))
    assert len(set(whole)) == 5003
    with bulkhead.Loader(numbers_spec(numbers, folder, **more)) as loader:
        head = [int(value) for _ in range(20) for value in loader.next_batch()["var"]]
        cursor = loader.state_dict()
    assert head == whole[:1280]
    spec = numbers_spec(numbers, folder, **more, batch={"size": 10})
    ranks = []
    for rank in range(3):
        with bulkhead.Loader(spec, rank=rank, world_size=3, cursor=cursor) as loader:
            ranks.append([[int(value) for value in batch["var"]] for batch in loader.stream()])
    assert len({len(batches) for batches in ranks}) == 1, "every rank has the same number of batches"
    tail = [value for batches in zip(*ranks) for batch in batches for value in batch]
    assert tail == whole[1280:]


def test_a_cursor_of_another_selection_is_refused(numbers, folder):
    base = {"split": {"parts": {"a": 0.5, "b": 0.5}, "use": "a"}}
    with bulkhead.Loader(numbers_spec(numbers, folder, **base, take=100)) as loader:
        loader.next_batch()
        cursor = loader.state_dict()
    # As many samples, but others.
    for other in ({**base, "skip": 1}, {"split": {**base["split"], "use": "b"}}, {"split": {**base["split"], "salt": 1}}):
        with pytest.raises(bulkhead.BulkheadError, match="filter, split, skip, take"):
            bulkhead.Loader(numbers_spec(numbers, folder, **other, take=100), cursor=cursor)


def test_selections_are_made_once_and_again_when_the_file_changes(numbers, folder):
    data = folder / "data.tfrecord"
    data.write_bytes((numbers / "part-0.tfrecord").read_bytes())
    more = {"source": {"tfrecord": {"files": str(data)}}, "filter": {"feature": "var", "max": 99}}
    service = Service(folder, "--root", folder)
    try:
        made = {}
        for round_ in range(2):
            assert values(numbers_spec(numbers, folder, **more), target=service.target) == list(range(100))
            made[round_] = {path: path.stat().st_ino for path in (folder / "cache").rglob("*.selection")}
        assert len(made[0]) == 1
        assert made[0] == made[1]
        # A damaged one is not believed.
        path = next(iter(made[0]))
        path.write_bytes(b"")
        assert values(numbers_spec(numbers, folder, **more), target=service.target) == list(range(100))
        data.write_bytes((numbers / "part-1.tfrecord").read_bytes())
        with pytest.raises(bulkhead.BulkheadError, match="the filter keeps 0 of 2000 records"):
            values(numbers_spec(numbers, folder, **more), target=service.target)
    finally:
        service.stop()


@pytest.mark.parametrize(
    "selection, message",
    [
        ({"filter": {"feature": "var", "in": 10_000}}, "filter: the filter keeps 0 of 10000 records"),
        (
            {"split": {"parts": {"most": 1 - 1e-9, "none": 1e-9}, "use": "none"}},
            "split: the part `none` has 0 of 10000 records",
        ),
        ({"skip": 10_000}, "skip: leaves out 10000 records, and there are 10000"),
        (
            {"filter": {"feature": "var", "max": 9}, "skip": 12},
            r"skip: leaves out 12 records, and there are 10 \(of 10000\) that filter and split keep",
        ),
    ],
)
def test_nothing_left_is_an_error_with_counts(numbers, folder, selection, message):
    with pytest.raises(bulkhead.BulkheadError, match=message) as failure:
        bulkhead.Loader(numbers_spec(numbers, folder, **selection))
    assert failure.value.reason == "NO_SAMPLES"


def test_a_record_that_the_filter_cannot_read_fails_or_is_substituted(numbers, folder):
    data = folder / "data.tfrecord"
    content = bytearray((numbers / "part-0.tfrecord").read_bytes())
    size = len(content) // 2000
    content[7 * size + size - 5] ^= 1  # data of the eighth record
    data.write_bytes(content)
    more = {"source": {"tfrecord": {"files": str(data)}}, "filter": {"feature": "var", "max": 9}}
    with pytest.raises(bulkhead.BulkheadError, match=f"data.tfrecord@{7 * size}: .*`filter` cannot tell") as failure:
        bulkhead.Loader(numbers_spec(numbers, folder, **more))
    assert failure.value.reason == "CORRUPT_RECORD"
    spec = numbers_spec(numbers, folder, **more, errors={"policy": "substitute", "max_fraction": 0.5})
    with bulkhead.Loader(spec) as loader:
        got = [int(value) for batch in loader.stream() for value in batch["var"]]
        assert got == [0, 1, 2, 3, 4, 5, 6, 8, 8, 9]
        assert [(event.position, event.substitute_position) for event in loader.substitutions] == [(7, 8)]


def test_the_tools_say_what_is_kept(numbers, folder):
    spec = numbers_spec(
        numbers, folder, filter={"feature": "var", "max": 4999}, split={"parts": SPLIT, "use": "train"}, skip=10, order="global"
    )
    kept = len(values(spec))
    said = tool("validate", "--data", spec).stdout
    assert f"samples an epoch: {kept} of {RECORDS} records: " in said
    assert f"in the part `train`, {kept + 10} that the filter keeps, 10 skipped" in said
    report = json.loads(tool("validate", "--data", "--json", spec).stdout)[0]
    assert (report["records"], report["records_kept"], report["samples_per_epoch"]) == (RECORDS, kept + 10, kept)
    assert "samples an epoch" not in tool("validate", spec).stdout, "without --data no data is read"
    order = json.loads(tool("order", "--json", "--spec", spec).stdout)
    assert (order["records"], order["records_of_source"], order["records_kept"]) == (kept, RECORDS, kept + 10)
    assert f"selected: {kept} of {RECORDS} records" in tool("order", "--spec", spec).stdout
    refused = tool("validate", "--data", numbers_spec(numbers, folder, filter={"feature": "var", "in": -1}), check=False)
    assert (refused.returncode, "the filter keeps 0 of 10000 records" in refused.stderr) == (1, True)
