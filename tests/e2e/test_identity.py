"""What a spec selects is a matter of the spec alone: how, from where and over which roots a service was started changes nothing.

Random trees of data and random specs over them, each opened in several ways: from the folder of the data, from a folder
below it and from one far away, with relative and absolute paths, through a symbolic link, embedded and behind several data
roots, and from a copy of the data elsewhere. `bulkhead validate` and `bulkhead order` count the same records.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess

import bulkhead
import pytest
from conftest import BIN, Service, tool, write_spec

SPECS_A_SEED = 10
FRAMES_A_FILE = 20


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """TFRecord frames whose `var` counts from 0."""
    folder = tmp_path_factory.mktemp("synth") / "numbers"
    subprocess.run([BIN / "bulkhead", "synth", folder, "--schema", "range"], check=True, stdout=subprocess.DEVNULL)
    content = (folder / "part-0.tfrecord").read_bytes()
    cut, at = [], 0
    while at < len(content):
        size = 16 + int.from_bytes(content[at : at + 8], "little")
        cut.append(content[at : at + size])
        at += size
    return cut


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
    """Folders of records, two lists and a folder of images; the bytes of images are nobody's business here."""
    numbers = iter(range(len(frames)))
    for folder in ("pos", "neg", "deep/a", "deep/b"):
        (top / folder).mkdir(parents=True)
        for number in dice.sample(range(4), 2):
            records = b"".join(frames[next(numbers)] for _ in range(FRAMES_A_FILE))
            (top / folder / f"f-{number}.tfrecord").write_bytes(records)
    lines = []
    for number in range(40):
        image = top / "images" / "ab"[number % 2] / f"{number}.jpg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(b"x")
        lines.append(f"{image.relative_to(top)} {number}\n")
    (top / "list.txt").write_text("".join(lines))


def random_patterns(dice, top):
    """Patterns that name no file twice."""
    kinds = [
        lambda: f"{dice.choice(['pos', 'neg', 'deep/a'])}/*.tfrecord",
        lambda: f"{dice.choice(['*', 'deep/*', 'd*/?', '[np]*'])}/f-*.tfrecord",
        lambda: f"{dice.choice(['p*', 'neg', 'deep/[ab]'])}/f-{dice.choice(['?', '[01]', '[23]'])}.tfrecord",
        lambda: str(dice.choice(sorted(top.rglob("*.tfrecord"))).relative_to(top)),
        lambda: "./" + str(dice.choice(sorted(top.rglob("*.tfrecord"))).relative_to(top)),
    ]
    while True:
        patterns = [dice.choice(kinds)() for _ in range(dice.randint(1, 3))]
        found = [[path.resolve() for path in top.glob(pattern)] for pattern in patterns]
        every = [path for paths in found for path in paths]
        if all(found) and len(every) == len(set(every)):
            return patterns


def random_source(dice, top):
    """What makes a spec's source of a way, and the output that tells its records apart."""
    kind = dice.choice(["tfrecord"] * 4 + ["image_list", "image_folder"])
    if kind == "image_list":
        return lambda way: {"image_list": {"path": way.spelt("list.txt")}}, "path"
    if kind == "image_folder":
        name = dice.choice(["images", "images/.", "images/a/.."])
        return lambda way: {"image_folder": {"path": way.spelt(name)}}, "path"
    patterns = random_patterns(dice, top)
    return lambda way: {"tfrecord": {"files": [way.spelt(pattern) for pattern in patterns]}}, "var"


def seen(spec, name, way):
    """The records of an epoch in their order, the order's fingerprint, and a digest of the stream."""
    with bulkhead.Loader(spec, way.target, timeout=60) as loader:
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
def test_a_spec_selects_the_same_records_however_it_is_opened(folder, ways):
    dice, top, ways = ways
    for number in range(SPECS_A_SEED):
        source, name = random_source(dice, top)
        more = {
            "features": {"var": "int64"} if name == "var" else {},
            "outputs": [name],
            "split": {"parts": {"train": 0.7, "validation": 0.3}, "use": dice.choice(["train", "validation"]),
                      "salt": dice.randrange(100)},
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
        found = [seen(spec, name, way) for spec, way in zip(specs, chosen)]
        for way, (records, fingerprint, digest) in zip(chosen, found):
            told = f"{source(way)}: {way.name} against {chosen[0].name}"
            assert sorted(records) == sorted(found[0][0]), f"other members: {told}"
            assert fingerprint == found[0][1], f"another fingerprint: {told}"
            assert (records, digest) == (found[0][0], found[0][2]), f"another stream: {told}"
        # The tools look at the data by themselves.
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
