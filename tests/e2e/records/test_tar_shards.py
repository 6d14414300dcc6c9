"""Tar shards as WebDataset writes them: what Python's tarfile finds in them is what a trainer gets, in every order and through every failure."""

import io
import json
import random
import re
import subprocess
import tarfile

import numpy as np
import pytest

import bulkhead
from bulkhead import Feature, Pipeline, errors
from conftest import AUGMENTED, BIN, Service, digest_of, finish_digest, go_on, kill_embedded_workers, start_digest, tool, wait_for_pause, write_spec
from tars import npy, write_tar

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def sample_members(number):
    """The members of a sample that has every form."""
    boxes = [[number, 1.5, 2, 3]] * (number % 3)
    told = {"size": {"width": 100 + number}, "boxes": boxes, "name": f"n\u00e9 \U0001f600 {number}", "good": number % 2 == 0}
    return {
        "txt": f"caption {number}\n".encode(),
        "cls": f"{number}\n".encode(),
        "json": json.dumps(told, ensure_ascii=number % 2 == 0).encode(),
        "vec.npy": npy(np.arange(4, dtype=np.float32) + number),
    }


EVERY_FORM = {
    "caption": Feature.bytes(key="text;txt", max_bytes=40),
    "label": Feature.int64(key="cls"),
    "width": Feature.int64(key="json:size/width"),
    "good": Feature.int64(key="json:good"),
    "name": Feature.bytes(key="json:name", max_bytes=40, length="name_size"),
    "boxes": Feature.tensor(key="json:boxes", dtype="float32", shape=[-1, 4], max_count=3),
    "vector": Feature.tensor(key="vec.npy", dtype="float32", shape=[4]),
    "key": Feature.bytes(key="__key__", max_bytes=300),
}


def scan(spec, *options):
    """What `bulkhead scan` finds wrong, as JSON."""
    run = subprocess.run([BIN / "bulkhead", "scan", spec, "--json", *map(str, options)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 1, run.stderr
    return json.loads(run.stdout)


def rows_of(loader):
    """The columns of all batches, joined."""
    batches = [{name: np.array(batch[name]) for name in batch} for batch in loader]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("order", ["sequential", "global"])
def test_every_form_arrives_as_python_reads_it(folder, format, order):
    long = "d" * 90 + "/" + "k" * 60
    for shard in range(3):
        members = [("README", b"no sample"), ("./dir.d/.hidden", b"none")]
        for i in range(40):
            for ending, data in sample_members(40 * shard + i).items():
                members.append((f"{long if i == 7 else 's'}/{shard}-{i:03}.{ending.upper() if i == 3 else ending}", data))
        write_tar(folder / f"x-{shard}.tar", members, format=FORMATS[format])
    expected = {}
    for shard in range(3):
        with tarfile.open(folder / f"x-{shard}.tar") as tar:
            for info in tar:
                folders, _, name = info.name.rpartition("/")
                if "." in name.lstrip("."):
                    key, _, ending = name.partition(".")
                    expected.setdefault(f"{folders}/{key}", {})[ending.lower()] = tar.extractfile(info).read()
    expected = {key: members for key, members in expected.items() if "cls" in members}
    assert len(expected) == 120
    pipeline = Pipeline.tar("x-*.tar", features=EVERY_FORM, base_dir=folder).batch(16)
    pipeline = pipeline.order_global() if order == "global" else pipeline
    with bulkhead.Loader(pipeline.epochs(1), workers=2) as loader:
        found = rows_of(loader)
    keys = [key.decode() for key in found["key"]]
    assert sorted(keys) == sorted(expected) and (keys == list(expected)) == (order == "sequential")
    for i, key in enumerate(keys):
        members = expected[key]
        told = json.loads(members["json"])
        assert found["caption"][i] == members["txt"]
        assert found["label"][i] == int(members["cls"])
        assert found["width"][i] == told["size"]["width"] and found["good"][i] == told["good"]
        assert found["name"][i].decode() == told["name"] and found["name_size"][i] == len(told["name"].encode())
        assert found["boxes_count"][i] == len(told["boxes"])
        assert found["boxes"][i][: len(told["boxes"])].tolist() == told["boxes"]
        assert np.array_equal(found["vector"][i], np.load(io.BytesIO(members["vec.npy"])))


@pytest.fixture(scope="module")
def shards(photos, tmp_path_factory):
    """The photos in three tars, in the order of the list, and one tar of them all that is compressed."""
    folder = tmp_path_factory.mktemp("shards")
    lines = [line.split() for line in (photos / "list.txt").read_text().splitlines() if line and not line.startswith("#")]
    members = []
    for i, (path, label) in enumerate(lines):
        members += [(f"{i:05}.jpg", (photos / path).read_bytes()), (f"{i:05}.cls", label.encode())]
    for shard in range(3):
        write_tar(folder / f"photos-{shard}.tar", members[100 * shard : 100 * (shard + 1)])
    write_tar(folder / "all.tar.gz", members, mode="w:gz")
    return folder


def photo_spec(shards, **more):
    spec = {"source": {"tar": {"files": "photos-*.tar"}}, "stages": AUGMENTED, "batch": {"size": 16}, "order": "global", "seed": 3, "epochs": 2}
    return write_spec(shards / "spec.yaml", **{**spec, **more})


@pytest.fixture(scope="module")
def reference(shards):
    return digest_of("cpp", photo_spec(shards), workers=1, threads=1)


def test_a_tar_needs_no_declaration_and_holds_what_the_list_holds(photos, shards):
    told = {"stages": ["decode_image", {"resize": {"size": 32}}], "batch": {"size": 10}, "epochs": 1, "outputs": ["image", "label"]}
    digests = {
        digest_of("cpp", write_spec(photos / "told.yaml", source={"image_list": {"path": "list.txt"}}, **told)),
        digest_of("cpp", write_spec(shards / "tar.yaml", source={"tar": {"files": "photos-*.tar"}}, **told)),
        digest_of("cpp", write_spec(shards / "gz.yaml", source={"tar": {"files": "all.tar.gz"}}, **told)),
    }
    assert len(digests) == 1
    with bulkhead.Loader(photo_spec(shards, outputs=["path"], epochs=1, order="sequential")) as loader:
        assert rows_of(loader)["path"].tolist() == [f"{i:05}".encode() for i in range(150)]


def test_samples_of_a_compressed_tar_are_found_from_restart_points(folder):
    rng = np.random.default_rng(1)
    members = [(f"{i}.{ending}", data) for i in range(60) for ending, data in (("npy", npy(rng.integers(0, 256, 200_000, np.uint8))), ("cls", b"%d" % i))]
    write_tar(folder / "x.tar", members)
    write_tar(folder / "x.tar.gz", members, mode="w:gz")
    features = {"label": Feature.int64(key="cls"), "data": Feature.tensor(key="npy", dtype="uint8", shape=[200_000])}
    digests = set()
    for name in ("x.tar", "x.tar.gz"):
        spec = Pipeline.tar(name, features=features).order_global().batch(7).epochs(2)
        (folder / f"{name}.yaml").write_text(spec.to_yaml())
        digests.add(digest_of("cpp", folder / f"{name}.yaml", workers=2))
    assert len(digests) == 1


@pytest.mark.parametrize("client", ["cpp", "python"])
@pytest.mark.parametrize("workers", [1, 2])
def test_kill_9_of_workers_changes_no_byte(shards, reference, client, workers):
    process = start_digest(client, photo_spec(shards), workers=workers, pause_after=3)
    wait_for_pause(process)
    kill_embedded_workers(process.pid, workers)
    go_on(process)
    assert finish_digest(process)["digest"] == reference


@pytest.mark.parametrize("order", ["global", {"block": {"block_size": 8}}, {"interleave": {"cycle_length": 2}}, {"sequential": {"shuffle_files": True}}])
def test_a_cursor_goes_on_where_it_was_taken(shards, order):
    spec = photo_spec(shards, order=order, outputs=["label", "path"], stages=[], epochs=1)
    with bulkhead.Loader(spec) as loader:
        whole = rows_of(loader)["path"].tolist()
    assert sorted(whole) == [f"{i:05}".encode() for i in range(150)]
    with bulkhead.Loader(spec) as loader:
        head = [path for _ in range(4) for path in loader.next_batch()["path"]]
        cursor = loader.state_dict()
    with bulkhead.Loader(spec, cursor=cursor) as loader:
        assert head + rows_of(loader)["path"].tolist() == whole


def paths(spec):
    with bulkhead.Loader(spec) as loader:
        return rows_of(loader)["path"].tolist()


def test_split_filter_skip_take_and_exclude_select_as_of_records(shards):
    told = {"outputs": ["label", "path"], "stages": [], "epochs": 1, "order": "sequential"}
    everything = paths(photo_spec(shards, **told))
    parts = {"train": 0.8, "validation": 0.2}
    halves = [paths(photo_spec(shards, **told, split={"parts": parts, "use": use})) for use in parts]
    assert sorted(halves[0] + halves[1]) == everything and abs(len(halves[1]) - 30) < 25
    assert paths(photo_spec(shards, **told, skip=5, take=60)) == everything[5:65]
    assert paths(photo_spec(shards, **told, filter={"feature": "path", "text_in": ["00007", "00100"]})) == [b"00007", b"00100"]
    assert paths(photo_spec(shards, **told, exclude=["photos-1.tar", "photos-0.tar@0"])) == everything[1:50] + everything[100:]


def test_inspect_shows_the_members_and_a_spec_that_streams(shards, folder):
    members = [(f"{i}.{ending}", data) for i in range(5) for ending, data in {**sample_members(i), "jpg" if i % 2 else "png": photo(shards, i)}.items()]
    write_tar(folder / "x.tar", members)
    shown = tool("inspect", folder / "x.tar", "--out", folder / "spec.yaml")
    assert "1 tar" in shown and "of 5 samples looked at" in shown
    for line in ("cls +int64 +1 +all +0 to 4", "json:size/width +int64 +1 +all +100 to 104", "json:good +int64 +1 +all +0 to 1", "json:name +bytes",
                 r"vec.npy +bytes +1 +all +tensors float32 \[4\]", "txt +bytes", "jpg +bytes +1 +40%"):
        assert re.search(line, shown), line
    text = (folder / "spec.yaml").read_text()
    assert 'image: {key: "jpg;png", bytes: {}}' in text and 'label: {key: "cls", int64: {}}' in text
    text = re.sub(r"(?m)^  # (?=\w+: )", "  ", text).replace("outputs: [image, label]", "outputs: [image, label, width, vec_npy, name, txt]")
    (folder / "all.yaml").write_text(text)
    with bulkhead.Loader(folder / "all.yaml") as loader:
        [batch] = loader
        assert sorted(batch["width"].tolist()) == [100, 101, 102, 103, 104] and batch["vec_npy"].shape == (5, 4)
    lacking = write_spec(folder / "lacking.yaml", source={"tar": {"files": "x.tar"}}, batch={"size": 2}, outputs=["a"],
                         features={"a": {"key": "class;id", "int64": {}}, "b": {"key": "txt", "bytes": {}}, "c": {"key": "__key__", "bytes": {}}})
    told = tool("inspect", lacking, code=1)
    assert "features.a: no sample that was looked at holds `class;id`" in told and "features.b" not in told and "features.c" not in told
    (folder / "cut.tar").write_bytes((folder / "x.tar").read_bytes()[:300])
    assert "cut.tar@0: the file ends in a header" in tool("inspect", folder / "cut.tar", code=1)


def photo(shards, number):
    with tarfile.open(shards / "photos-0.tar") as tar:
        return tar.extractfile(f"{number:05}.jpg").read()


def test_a_mixture_takes_tars_beside_other_sources(photos, shards):
    sources = [{"weight": 1, "source": {"tar": {"files": "photos-*.tar"}}},
               {"weight": 1, "source": {"image_list": {"path": str(photos / "list.txt")}}}]
    spec = write_spec(shards / "mixture.yaml", source={"mixture": {"sources": sources}}, batch={"size": 30}, epochs=1,
                      stages=["decode_image", {"resize": {"size": 16}}], outputs=["image", "label", "source_id"])
    with bulkhead.Loader(spec) as loader:
        found = rows_of(loader)
    first, second = ({image.tobytes() for image, source in zip(found["image"], found["source_id"]) if source == which} for which in (0, 1))
    assert len(first) == 150 and first == second


# Names, and what is wrong with the sample that the middle of three is.
WRONG = {
    "two-members": ([("b.cls", b"1"), ("b.cls", b"2"), ("b.txt", b"t")], "holds two members that end with cls"),
    "missing": ([("b.txt", b"t")], "feature `label`: the sample `b` has no cls, only txt; members of a sample must stand together"),
    "no-number": ([("b.cls", b"cat"), ("b.txt", b"t")], "member `cls`: it holds `cat`, which is no integer"),
    "two-numbers": ([("b.cls", b"1 2"), ("b.txt", b"t")], "the record holds 2 values"),
    "too-long": ([("b.cls", b"1"), ("b.txt", b"t" * 90)], "the string has 90 bytes, max_bytes is 40"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_sample_is_named_and_another_takes_its_place(folder, kind):
    wrong, message = WRONG[kind]
    members = [("a.cls", b"0"), ("a.txt", b"t"), *wrong, ("c.cls", b"2"), ("c.txt", b"t")]
    write_tar(folder / "x.tar", members)
    spec = {"source": {"tar": {"files": "x.tar"}}, "batch": {"size": 3}, "epochs": 1,
            "features": {"label": {"key": "cls", "int64": {}}, "text": {"key": "txt", "bytes": {"max_bytes": 40}}}}
    with pytest.raises(errors.DataError, match=message) as told:
        list(bulkhead.Loader(write_spec(folder / "spec.yaml", **spec)))
    assert "x.tar@2048" in str(told.value)
    with bulkhead.Loader(write_spec(folder / "spec.yaml", **spec, errors={"policy": "substitute", "max_fraction": 1})) as loader:
        [batch] = loader
        assert batch["label"].tolist() == [0, 2, 2]
    assert [finding["record"] for finding in scan(folder / "spec.yaml")["findings"]] == ["x.tar@2048"]


def test_a_sample_that_kills_workers_is_quarantined_by_file_and_offset(folder):
    members = [(f"{i}.cls", b"%d" % i) for i in range(40)]
    write_tar(folder / "x.tar", members)
    spec = write_spec(folder / "spec.yaml", source={"tar": {"files": "x.tar"}}, features={"label": {"key": "cls", "int64": {}}}, batch={"size": 8},
                      stages=[{"fault": {"crash": True, "records": [11]}}], epochs=1, errors={"policy": "substitute", "max_fraction": 0.1})
    service = Service(folder, "--root", folder, "--workers", 2, "--allow-fault-stages")
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        labels = rows_of(loader)["label"].tolist()
        assert labels == [*range(11), 12, *range(12, 40)] and list(loader.quarantined) == [f"x.tar@{11 * 1024}"]
    service.stop()


# What other programs write.
@pytest.mark.parametrize("format", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_tars_of_gnu_tar_are_read_as_tarfile_reads_them(folder, format):
    data = folder / "data"
    names = ["a/" + "n" * 80 + ".cls", "b.cls", "b.txt", "c.json"] + (["d/" * 60 + "long.cls"] if format != "v7" else [])
    for number, name in enumerate(names):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"%d" % number * (1 + 300 * (number == 2)))
    subprocess.run(["tar", f"--format={format}", "--sort=name", "-cf", folder / "x.tar", "-C", data, "."], check=True)
    with tarfile.open(folder / "x.tar") as tar:
        files = {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}
    features = {"label": Feature.bytes(key="cls;json", default="", max_bytes=9), "text": Feature.bytes(key="txt", default="", max_bytes=999),
                "key": Feature.bytes(key="__key__", max_bytes=300)}
    with bulkhead.Loader(Pipeline.tar("x.tar", features=features, base_dir=folder).batch(9).epochs(1)) as loader:
        [batch] = loader
    assert len(batch["key"]) == len(names) - 1
    for key, label, text in zip(batch["key"], batch["label"], batch["text"]):
        key = key.decode()
        assert label == files.get(f"{key}.cls", files.get(f"{key}.json")) and text == files.get(f"{key}.txt", b"")


@pytest.mark.parametrize("options", [["--format=gnu"], ["--format=posix", "--sparse-version=0.1"], ["--format=posix", "--sparse-version=1.0"]])
def test_a_sparse_member_is_refused_in_words(folder, options):
    with open(folder / "hole.cls", "wb") as hole:
        hole.truncate(1 << 20)
        hole.write(b"1")
    subprocess.run(["tar", *options, "--sparse", "-cf", folder / "x.tar", "-C", folder, "hole.cls"], check=True)
    with pytest.raises(errors.BulkheadError, match="x.tar@[0-9]+: the member is a sparse file, which is not read.*write the file again"):
        list(bulkhead.Loader(Pipeline.tar("x.tar", features={"x": Feature.int64(key="cls")}, base_dir=folder).batch(1)))


def test_members_that_do_not_stand_together_lack_each_other(folder):
    write_tar(folder / "x.tar", [(f"{i}.{ending}", b"1") for ending in ("txt", "cls") for i in range(3)])
    with pytest.raises(errors.DataError, match="the sample `0` has no cls, only txt; .* write it sorted by name"):
        list(bulkhead.Loader(Pipeline.tar("x.tar", features={"label": Feature.int64(key="cls")}, base_dir=folder).batch(1).epochs(1)))


def test_names_are_data_and_links_are_passed_over(folder):
    (folder / "secret.cls").write_bytes(b"7")
    with tarfile.open(folder / "x.tar", "w") as tar:
        for name, kind in (("../secret.cls", tarfile.SYMTYPE), ("/etc/passwd.cls", tarfile.LNKTYPE), ("d.cls", tarfile.DIRTYPE), ("f.cls", tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, str(folder / "secret.cls")
            tar.addfile(info)
        for name in ("../../etc/shadow.cls", "/root/a.cls", "a\n\x1b[31mb.cls"):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"3"))
    features = {"label": Feature.int64(key="cls"), "key": Feature.bytes(key="__key__", max_bytes=64)}
    with bulkhead.Loader(Pipeline.tar("x.tar", features=features, base_dir=folder).batch(8).epochs(1)) as loader:
        [batch] = loader
        assert batch["label"].tolist() == [3, 3, 3]
        assert batch["key"].tolist() == [b"../../etc/shadow", b"/root/a", b"a\n\x1b[31mb"]


def test_a_damaged_shard_is_named_with_its_offset_and_can_be_left_out(shards, folder):
    data = bytearray((shards / "photos-1.tar").read_bytes())
    with tarfile.open(shards / "photos-1.tar") as tar:
        offset = tar.getmembers()[10].offset
    data[offset + 20] ^= 1
    (folder / "photos-1.tar").write_bytes(data)
    with tarfile.open(shards / "photos-2.tar") as tar:
        end = tar.getmembers()[60].offset_data + 100
    (folder / "photos-2.tar").write_bytes((shards / "photos-2.tar").read_bytes()[:end])
    (folder / "photos-0.tar").write_bytes((shards / "photos-0.tar").read_bytes())
    (folder / "text.tar").write_bytes(b"this is no tar\n" * 100)
    spec = write_spec(folder / "spec.yaml", source={"tar": {"files": "*.tar"}}, outputs=["path"], batch={"size": 8}, epochs=1)
    with pytest.raises(errors.DataError, match=f"photos-1.tar@{offset}|photos-2.tar@|text.tar@0"):
        list(bulkhead.Loader(spec))
    found = {finding["file"]: finding for finding in scan(spec, "--write-spec", folder / "good.yaml")["findings"]}
    assert set(found) == {"photos-1.tar", "photos-2.tar", "text.tar"}
    assert found["photos-1.tar"]["reason"] == "CORRUPT_RECORD" and f"photos-1.tar@{offset}" in found["photos-1.tar"]["message"]
    assert found["photos-2.tar"]["reason"] == "TRUNCATED_RECORD"
    assert "is not a tar file" in found["text.tar"]["message"]
    assert paths(folder / "good.yaml") == [f"{i:05}".encode() for i in range(50)]


def test_a_random_cut_is_never_a_wrong_sample(folder):
    rng = random.Random(5)
    members = [(f"{i}.{ending}", bytes(rng.randrange(1, 900)) if ending == "bin" else b"%d" % i) for i in range(12) for ending in ("bin", "cls")]
    write_tar(folder / "whole.tar", members)
    whole = (folder / "whole.tar").read_bytes()
    features = {"label": Feature.int64(key="cls"), "data": Feature.bytes(key="bin", max_bytes=1000, length="size")}
    for cut in [rng.randrange(len(whole)) for _ in range(6)]:
        (folder / "cut.tar").write_bytes(whole[:cut])
        try:
            with bulkhead.Loader(Pipeline.tar("cut.tar", features=features, base_dir=folder).batch(4).epochs(1)) as loader:
                found = rows_of(loader)
        except errors.BulkheadError:
            continue
        assert found["label"].tolist() == list(range(len(found["label"])))
        assert found["size"].tolist() == [len(data) for name, data in members if name.endswith(".bin")][: len(found["size"])]
