"""What a spec selects is a matter of the spec alone: how, from where and over which roots a service was started changes nothing.

Random trees of data and random specs over them, each opened in several ways: from the folder of the data, from a folder
below it and from one far away, with relative and absolute paths, through a symbolic link, embedded and behind several data
roots, and from a copy of the data elsewhere. The parts of a split are together what Python finds in the files, member by
member; `bulkhead pack` writes the same members, `bulkhead validate` and `bulkhead order` count them.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import tarfile

import bulkhead
import pytest
from conftest import BIN, tool, write_spec
from tars import write_tar

SPECS_A_SEED = 10
FRAMES_A_FILE = 20


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """TFRecord frames whose `var` counts from 0."""
    folder = tmp_path_factory.mktemp("synth") / "numbers"
    subprocess.run([BIN / "bulkhead", "synth", folder, "--schema", "range"], check=True, stdout=subprocess.DEVNULL)
    return cut((folder / "part-0.tfrecord").read_bytes())


def cut(content):
    """The frames of a TFRecord file."""
    found, at = [], 0
    while at < len(content):
        size = 16 + int.from_bytes(content[at : at + 8], "little")
        found.append(content[at : at + size])
        at += size
    return found


@dataclasses.dataclass
class Way:
    """One way to open a spec."""

    name: str
    data: pathlib.Path  # the tree, as absolute paths spell it
    folder: pathlib.Path  # where the spec lies
    absolute: bool
    target: object  # of a service; None: embedded

    def spelt(self, path):
        """`path`, which is relative to the tree, as this way's spec names it."""
        if self.absolute:
            return f"{self.data}/{path}"
        below = os.path.relpath(self.data, self.folder)
        return path if below == "." else f"{below}/{path}"


def make_tree(dice, top, frames):
    """Folders of records and tars, a list and a folder of images; the bytes of images are nobody's business here."""
    numbers = iter(range(len(frames)))
    for folder in ("pos", "neg", "deep/a", "deep/b"):
        (top / folder).mkdir(parents=True)
        for file in dice.sample(range(4), 2):
            records = [next(numbers) for _ in range(FRAMES_A_FILE)]
            (top / folder / f"f-{file}.tfrecord").write_bytes(b"".join(frames[number] for number in records))
            write_tar(top / folder / f"f-{file}.tar", [(f"{number}.cls", b"%d" % number) for number in records])
    lines = []
    for number in range(40):
        image = top / "images" / "ab"[number % 2] / f"{number}.jpg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(b"x")
        lines.append(f"{image.relative_to(top)} {number}\n")
    (top / "list.txt").write_text("".join(lines))


def random_patterns(dice, top, ending):
    """Patterns that name no file twice."""
    kinds = [
        lambda: f"{dice.choice(['pos', 'neg', 'deep/a'])}/*.{ending}",
        lambda: f"{dice.choice(['*', 'deep/*', 'd*/?', '[np]*'])}/f-*.{ending}",
        lambda: f"{dice.choice(['p*', 'neg', 'deep/[ab]'])}/f-{dice.choice(['?', '[01]', '[23]'])}.{ending}",
        lambda: str(dice.choice(sorted(top.rglob(f"*.{ending}"))).relative_to(top)),
        lambda: "./" + str(dice.choice(sorted(top.rglob(f"*.{ending}"))).relative_to(top)),
    ]
    while True:
        patterns = [dice.choice(kinds)() for _ in range(dice.randint(1, 3))]
        found = [[path.resolve() for path in top.glob(pattern)] for pattern in patterns]
        every = [path for paths in found for path in paths]
        if all(found) and len(every) == len(set(every)):
            return patterns


def numbers_in(file, frames):
    if file.suffix == ".tfrecord":
        return [frames.index(frame) for frame in cut(file.read_bytes())]
    with tarfile.open(file) as tar:
        return [int(name.removesuffix(".cls")) for name in tar.getnames()]


def random_source(dice, top, frames):
    """What makes a spec's source of a way, its features, and by `var` or `path` the records that Python finds."""
    kind = dice.choice(["tfrecord"] * 4 + ["tar"] * 3 + ["image_list", "image_folder"])
    if kind.startswith("image"):
        path = "list.txt" if kind == "image_list" else dice.choice(["images", "images/.", "images/a/.."])
        named_from = top if kind == "image_list" else top / "images"
        images = [str(image.relative_to(named_from)).encode() for image in (top / "images").rglob("*.jpg")]
        return lambda way: {kind: {"path": way.spelt(path)}}, {}, images
    patterns = random_patterns(dice, top, kind)
    numbers = [number for pattern in patterns for file in top.glob(pattern) for number in numbers_in(file, frames)]
    features = {"var": {"int64": {}, **({"key": "cls"} if kind == "tar" else {})}}
    members = [number.to_bytes(8, "little") for number in numbers]
    return lambda way: {kind: {"files": [way.spelt(pattern) for pattern in patterns]}}, features, members


def seen(spec, name, target=None):
    """The records of an epoch in their order, the order's fingerprint, and a digest of the stream."""
    with bulkhead.Loader(spec, target, timeout=60) as loader:
        fingerprint = loader.state_dict()["order_fingerprint"]
        digest, records = hashlib.sha256(), []
        for batch in loader:
            digest.update(batch[name].tobytes())
            records += [row.tobytes() for row in batch[name]]
    return records, fingerprint, digest.hexdigest()


@pytest.fixture
def ways(folder, request, frames, services):
    """Makes the tree; the ways to open a spec over it."""
    dice = random.Random(request.param)
    top, link, copy, far = (folder / name for name in ("top/data", "link", "else/where", "far"))
    make_tree(dice, top, frames)
    link.symlink_to(top)
    shutil.copytree(top, copy)
    for made in (top / "specs/mine", far, copy / "specs"):
        made.mkdir(parents=True)
    behind = {
        root: services(folder / f"service-{number}", "--root", root, "--workers", 1).target
        for number, root in enumerate((top, folder, copy))
    }
    return dice, top, [
        Way("embedded, beside the data", top, top, False, None),
        Way("embedded, below the data", top, top / "specs/mine", False, None),
        Way("embedded, far away, absolute", top, far, True, None),
        Way("embedded, far away", top, far, False, None),
        Way("embedded, through a link", link, far, True, None),
        Way("root at the data, beside them", top, top, False, behind[top]),
        Way("root at the data, absolute", top, far, True, behind[top]),
        Way("root above, beside the data", top, top, False, behind[folder]),
        Way("root above, far away", top, far, False, behind[folder]),
        Way("root above, through a link", link, far, True, behind[folder]),
        Way("a copy, root at it", copy, copy / "specs", False, behind[copy]),
        Way("a copy, root above, absolute", copy, far, True, behind[folder]),
    ]


@pytest.mark.parametrize("ways", range(6), indirect=True)
def test_a_spec_selects_the_same_records_however_it_is_opened(folder, ways, frames):
    dice, top, ways = ways
    for number in range(SPECS_A_SEED):
        source, features, members = random_source(dice, top, frames)
        name = "var" if features else "path"
        part, rest = dice.sample(["train", "validation"], 2)
        split = {"parts": {"train": 0.7, "validation": 0.3}, "salt": dice.randrange(100)}
        more = {
            "features": features,
            "outputs": [name],
            "split": {**split, "use": part},
            "order": dice.choice(["sequential", "global", {"interleave": {"cycle_length": 2}},
                                  {"sequential": {"shuffle_files": True}}]),
            "seed": dice.randrange(1000),
            "batch": {"size": 7, "last": "partial"},
            "epochs": 1,
        }
        chosen = [dice.choice(ways[:5]), *dice.sample(ways[5:10], 2), dice.choice(ways[10:])]
        specs = [
            write_spec(way.folder / f"spec-{number}-{ways.index(way)}.yaml", source=source(way), **more)
            for way in chosen
        ]
        found = [seen(spec, name, way.target) for spec, way in zip(specs, chosen)]
        for way, (records, fingerprint, digest) in zip(chosen, found):
            told = f"{source(way)}: {way.name} against {chosen[0].name}"
            assert sorted(records) == sorted(found[0][0]), f"other members: {told}"
            assert fingerprint == found[0][1], f"another fingerprint: {told}"
            assert (records, digest) == (found[0][0], found[0][2]), f"another stream: {told}"
        way = chosen[0]
        others = write_spec(way.folder / f"rest-{number}.yaml", source=source(way), **{**more, "split": {**split, "use": rest}})
        assert sorted(found[0][0] + seen(others, name, way.target)[0]) == sorted(members), f"the parts of {source(way)}"
        # The tools look at the data by themselves.
        packed = folder / f"packed-{number}"
        tool("pack", dice.choice(specs), packed)
        told = {"source": {"tfrecord": {"files": "part-*"}}, "features": {name: "int64" if features else {"bytes": {"max_bytes": 64}}}}
        again = write_spec(packed / "all.yaml", **told, outputs=[name], batch=more["batch"], epochs=1)
        assert sorted(seen(again, name)[0]) == sorted(found[0][0]), f"packed: {source(way)}"
        for report in json.loads(tool("validate", "--data", "--json", *specs)):
            assert report["samples_per_epoch"] == len(found[0][0])
        assert json.loads(tool("order", "--json", "--spec", dice.choice(specs)))["records"] == len(found[0][0])


def test_a_file_that_is_named_twice_is_refused_by_service_and_tools(folder, frames, services):
    data = folder / "data"
    data.mkdir()
    for name in ("a", "b"):
        (data / f"{name}.tfrecord").write_bytes(b"".join(frames[:5]))
    spec = write_spec(data / "spec.yaml", source={"tfrecord": {"files": ["a.tfrecord", "*.tfrecord"]}},
                      features={"var": "int64"}, batch={"size": 2})
    said = "source.tfrecord.files names a.tfrecord twice"
    for target in (None, services(folder / "service", "--root", data).target):
        with pytest.raises(bulkhead.BulkheadError, match=said) as refused:
            bulkhead.Loader(spec, target)
        assert refused.value.reason == "SPEC_INVALID"
    assert said in tool("validate", "--data", spec, code=1)
    assert said in tool("order", "--spec", spec, code=1)


def test_a_cursor_of_the_old_names_is_refused_in_words(folder):
    spec = write_spec(folder / "spec.yaml", source={"range": {"size": 10}}, batch={"size": 2})
    with bulkhead.Loader(spec) as loader:
        cursor = {**loader.state_dict(), "version": 1}
    with pytest.raises(bulkhead.BulkheadError, match="version 1.*finish the run with the release that wrote") as refused:
        bulkhead.Loader(spec, cursor=cursor)
    assert refused.value.reason == "CURSOR_MISMATCH"
