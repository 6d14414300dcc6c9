"""`bulkhead scan`: every record of a spec that cannot be used, from real workers."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time

import pytest

import bulkhead
from conftest import BIN, tool, write_spec
from test_command_line import on_terminal

CROPPED = ["decode_image", {"random_resized_crop": {"size": [16, 16]}}, "random_horizontal_flip"]


def scan(spec, *options, code=1):
    """What it prints as JSON."""
    run = subprocess.run([BIN / "bulkhead", "scan", spec, "--json", *map(str, options)], capture_output=True, text=True, timeout=120)
    assert run.returncode == code, run.stderr
    return json.loads(run.stdout)


def reasons(found, key="file"):
    return {finding[key]: finding["reason"] for finding in found["findings"]}


@pytest.fixture
def damaged(photos, folder):
    """A spec of a list of 40 photos; of those in lines 3 to 26 one is missing, one empty, one text, and the others lack their last rows, which only a decoder notices."""
    files = sorted((photos / "folder").rglob("*.jpg"))[:40]
    lines = ["# photos"]
    for i, path in enumerate(files, 2):
        data = path.read_bytes()
        if 3 <= i <= 26:
            data = {3: None, 4: b"", 5: b"this is no image"}.get(i, data[:-60] + data[-2:])
        if data is not None:
            (folder / f"{i}.jpg").write_bytes(data)
        lines.append(f"{i}.jpg {i % 3}")
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    return write_spec(folder / "spec.yaml", source={"image_list": {"path": "train.txt"}}, stages=CROPPED,
                      batch={"size": 8}, order={"global": {}})


def test_every_bad_line_of_a_list_is_found_also_many_in_a_row_and_below_the_crop(damaged):
    found = scan(damaged)
    assert found["records"] == 40 and found["bad"] == 24
    assert reasons(found, "line") == {
        3: "FILE_NOT_FOUND", 4: "TRUNCATED_IMAGE", 5: "UNSUPPORTED_IMAGE", **{i: "CORRUPT_IMAGE" for i in range(6, 27)}}
    assert {finding["list"] for finding in found["findings"]} == {"train.txt"}
    said = subprocess.run([BIN / "bulkhead", "scan", damaged], capture_output=True, text=True, timeout=120)
    assert said.returncode == 1
    assert said.stdout.startswith("train.txt:3: 3.jpg: there was no such file") and said.stdout.count("\n") == 24
    assert "40 records read, 24 bad: 21 CORRUPT_IMAGE, 1 FILE_NOT_FOUND, 1 TRUNCATED_IMAGE, 1 UNSUPPORTED_IMAGE" in said.stderr


def test_the_list_without_the_bad_lines_is_good(damaged, folder):
    scan(damaged, "--exclude-list", folder / "good.txt")
    assert (folder / "good.txt").read_text().splitlines()[:3] == ["# photos", "2.jpg 2", "27.jpg 0"]
    spec = json.loads(damaged.read_text())
    spec["source"]["image_list"]["path"] = "good.txt"
    assert scan(write_spec(folder / "good.yaml", **spec), code=0)["records"] == 16


def test_the_list_without_the_bad_lines_lies_beside_the_list(damaged, folder):
    (folder / "elsewhere").mkdir()
    said = tool("scan", damaged, "--exclude-list", folder / "elsewhere/good.txt", code=1)
    assert f"another file of {folder}" in said and f"write --exclude-list {folder}/good.txt" in said


def test_the_list_itself_is_not_written_over(damaged, folder):
    said = tool("scan", damaged, "--exclude-list", folder / "train.txt", code=1)
    assert f"--exclude-list {folder}/train.txt: is the list train.txt of the spec itself" in said
    assert f"write --exclude-list {folder}/good-train.txt" in said


def test_good_data_need_no_advice(photos, folder):
    run = subprocess.run([BIN / "bulkhead", "scan", photos / "tfrecord.yaml", "--exclude-list", folder / "bad.txt"],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and "bad.txt: empty, as no record has to be left out" in run.stderr
    assert "quarantine" not in run.stderr and (folder / "bad.txt").read_text() == ""


def test_good_data_are_found_good(photos):
    for kind in ("folder", "list", "tfrecord"):
        run = subprocess.run([BIN / "bulkhead", "scan", photos / f"{kind}.yaml"], capture_output=True, text=True, timeout=120)
        assert (run.returncode, run.stdout) == (0, ""), run
        assert "150 records read, 0 bad" in run.stderr


def record_offsets(data):
    """Where the records of an uncompressed TFRecord file begin, and how long each is."""
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        yield at, length
        at += 16 + length


def test_bad_records_and_bad_files_of_records_are_found_and_excluded(photos, folder):
    part = folder / "part-0"
    part.mkdir()
    files = [shutil.copy(path, part / path.name) for path in sorted(photos.glob("*.tfrecord"))]
    one = bytearray(open(files[0], "rb").read())
    (second, length), *_ = list(record_offsets(one))[1:]
    one[second + 12 + length // 2] ^= 0xFF  # the record's own checksum tells
    open(files[0], "wb").write(one)
    open(part / "empty.tfrecord", "wb").close()
    (part / "junk.tfrecord").write_bytes(b"junk" * 100)
    spec = yaml_of(photos, folder)
    found = scan(spec, "--exclude-list", folder / "bad.txt")
    name = f"part-0/{os.path.basename(files[0])}"  # as in the spec, although two of the files were left out
    bad = f"{name}@{second}"
    assert reasons(found) == {name: "CORRUPT_RECORD", "part-0/empty.tfrecord": "FILE_EMPTY", "part-0/junk.tfrecord": "CORRUPT_RECORD"}
    assert any(finding["message"].startswith(bad) for finding in found["findings"])
    assert not any(" log " in finding["message"] for finding in found["findings"])
    assert found["records"] == 150
    assert [finding["record"] for finding in found["findings"] if finding["record"]] == [bad]
    lines = (folder / "bad.txt").read_text().splitlines()
    assert bad in lines and sorted(lines)[:2] == ["# leave out the file part-0/empty.tfrecord", "# leave out the file part-0/junk.tfrecord"]


def test_many_bad_files_are_found_by_one_service(photos, folder):
    (folder / "part-0").mkdir()
    shutil.copy(next(photos.glob("*.tfrecord")), folder / "part-0")
    junk = [f"part-0/junk-{i}.tfrecord" for i in range(30)]
    for name in junk:
        (folder / name).write_bytes(b"junk" * 100)
    found = scan(yaml_of(photos, folder))
    assert reasons(found) == dict.fromkeys(junk, "CORRUPT_RECORD") and found["records"] > 0
    assert len(list((folder / "cache").rglob("embedded-*.log"))) == 1, "each service has a log"


def deliver(spec):
    """How many samples a Loader makes of the spec, with its policy `fail`."""
    with bulkhead.Loader(spec, timeout=60) as loader:
        return sum(batch.valid_count for batch in loader)


def test_the_spec_without_bad_records_and_files_streams(photos, folder):
    part = folder / "part-0"
    part.mkdir()
    first, *_ = [shutil.copy(path, part / path.name) for path in sorted(photos.glob("*.tfrecord"))]
    one = bytearray(open(first, "rb").read())
    (second, length), *_ = list(record_offsets(one))[1:]
    one[second + 12 + length // 2] ^= 0xFF
    open(first, "wb").write(one)
    (part / "junk.tfrecord").write_bytes(b"junk" * 100)
    text = """# mine
source: {tfrecord: {files: "part-*/*.tfrecord"}}
features: {image: {bytes: {}}, label: int64}
stages: [decode_image, resize: {size: 8}]
batch: {size: 16}
epochs: 1
"""
    (folder / "train.yaml").write_text(text)
    with pytest.raises(bulkhead.errors.DataError, match="junk.tfrecord"):
        deliver(folder / "train.yaml")
    said = tool("scan", folder / "train.yaml", "--write-spec", folder / "good.yaml", code=1)
    assert "good.yaml: the spec, without what is bad (`exclude`: 2 names)" in said
    good = (folder / "good.yaml").read_text()
    assert good.startswith(text + "exclude:")
    assert set(good[len(text):].splitlines()[1:]) == {f'- "part-0/{os.path.basename(first)}@{second}"', '- "part-0/junk.tfrecord"'}
    assert deliver(folder / "good.yaml") == 149
    assert scan(folder / "good.yaml", code=0)["records"] == 149
    assert json.loads(tool("stream", folder / "good.yaml", "--json"))["samples"] == 149
    said = tool("validate", "--data", folder / "good.yaml")
    assert "149 of 150 records: 149 that `exclude` leaves" in said


def test_the_spec_of_a_folder_without_bad_images_streams(photos, folder):
    for number, path in enumerate(sorted((photos / "folder").rglob("*.jpg"))[:6]):
        (folder / "set/cats").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / f"set/cats/{number}.jpg")
    (folder / "set/cats/2.jpg").write_bytes(b"")
    (folder / "set/cats/4.jpg").unlink()
    (folder / "set/cats/4.jpg").symlink_to("gone.jpg")
    spec = write_spec(folder / "spec.json", source={"image_folder": {"path": "set"}}, stages=CROPPED, batch={"size": 2}, epochs=1,
                      exclude=["cats/0.jpg"])
    with pytest.raises(bulkhead.errors.DataError, match="cats/2.jpg: .*`bulkhead scan SPEC --write-spec FILE` finds"):
        deliver(spec)
    tool("scan", spec, "--write-spec", folder / "good.yaml", code=1)
    assert deliver(folder / "good.yaml") == 3, "two are bad, and one was left out before"


def test_names_of_a_mixture_begin_with_their_source(photos, folder):
    files = sorted((photos / "folder").rglob("*.jpg"))[:8]
    for name in "ab":
        (folder / name).mkdir()
        for i, path in enumerate(files):
            shutil.copy(path, folder / name / f"{i}.jpg")
    (folder / "b/3.jpg").write_bytes(b"")
    sources = [{"weight": 1, "source": {"image_folder": {"path": name, "unlabeled": True}}} for name in "ab"]
    spec = write_spec(folder / "spec.json", source={"mixture": {"sources": sources}}, stages=CROPPED, batch={"size": 2}, epochs=1)
    tool("scan", spec, "--write-spec", folder / "good.yaml", code=1)
    assert "1:3.jpg" in (folder / "good.yaml").read_text()
    assert deliver(folder / "good.yaml") == 15, "one after the other, until the second would start again"


def test_the_written_spec_lies_beside_the_other(damaged, folder):
    (folder / "elsewhere").mkdir()
    for path in (folder / "elsewhere/good.yaml", damaged):
        said = tool("scan", damaged, "--write-spec", path, code=1)
        assert f"another file of {folder}" in said and f"write --write-spec {folder}/good-spec.yaml" in said


def test_what_no_spec_can_leave_out_is_said(photos, folder):
    shutil.copy(next((photos / "folder").rglob("*.jpg")), folder / "a.jpg")
    (folder / "train.txt").write_text("a.jpg,cat\na.jpg\nb.jpg,cat\n")
    spec = write_spec(folder / "spec.json", source={"image_list": {"path": "train.txt"}}, stages=CROPPED, batch={"size": 4})
    said = tool("scan", spec, "--write-spec", folder / "good.yaml", code=1)
    assert "`exclude`: 1 name); 1 malformed line or pattern without files must be mended by hand" in said
    assert "b.jpg" in (folder / "good.yaml").read_text()


def yaml_of(photos, folder):
    return write_spec(folder / "records.yaml", source={"tfrecord": {"files": "part-*/*.tfrecord"}},
                      features={"image": {"bytes": {}}, "label": {"int64": {}}}, stages=CROPPED, batch={"size": 16})


def test_of_a_mixture_each_source_is_read_whole(photos, folder):
    files = sorted((photos / "folder").rglob("*.jpg"))[:9]
    for name, members in (("a", files[:8]), ("b", files[8:])):
        for i, path in enumerate(members):
            shutil.copy(path, folder / f"{name}{i}.jpg")
        (folder / f"{name}.txt").write_text("".join(f"{name}{i}.jpg 0\n" for i in range(len(members))))
    (folder / "a7.jpg").write_bytes(b"")
    sources = [{"weight": 1, "source": {"image_list": {"path": f"{name}.txt"}}} for name in "ab"]
    spec = write_spec(folder / "spec.yaml", source={"mixture": {"sources": sources}}, stages=CROPPED, batch={"size": 4})
    found = scan(spec)
    assert found["records"] == 9
    assert [(finding["record"], finding["line"]) for finding in found["findings"]] == [("0:a7.jpg", 8)]


def test_validate_says_that_it_decodes_nothing(damaged, folder):
    (folder / "3.jpg").write_bytes(b"")
    said = tool("validate", "--data", damaged)
    assert f"the data were indexed, not decoded; `bulkhead scan {damaged}` tries every record" in said


def test_a_stage_that_refuses_a_record_is_found(photos, folder):
    shutil.copy(next((photos / "folder").rglob("*.jpg")), folder / "a.jpg")
    (folder / "train.txt").write_text("a.jpg 2\na.jpg 3\n")
    spec = write_spec(folder / "spec.yaml", source={"image_list": {"path": "train.txt"}},
                      stages=[*CROPPED, {"one_hot": {"input": "label", "classes": 3}}], batch={"size": 4})
    [finding] = scan(spec)["findings"]
    assert finding["line"] == 2 and "stages[3] one_hot" in finding["message"]


def test_malformed_lines_are_found_with_the_others_but_end_a_training(photos, folder):
    shutil.copy(next((photos / "folder").rglob("*.jpg")), folder / "a.jpg")
    (folder / "train.txt").write_text('a.jpg,cat\na.jpg\na.jpg,"dog\nb.jpg,dog\na.jpg,7\na.jpg,dog\n')
    spec = {"source": {"image_list": {"path": "train.txt"}}, "stages": CROPPED, "batch": {"size": 4}, "errors": {"policy": "substitute"}}
    # Also where nobody can know on which side of a split or a filter the line lies.
    more = {"split": {"parts": {"a": 0.001, "b": 0.999}, "use": "b"}, "filter": [{"feature": "label", "in": [0, 1]}]}
    for name, one in (("spec.yaml", spec), ("part.yaml", {**spec, **more})):
        found = scan(write_spec(folder / name, **one), "--exclude-list", folder / "good.txt")
        assert found["records"] == 6
        assert reasons(found, "line") == {2: "LIST_INVALID", 3: "LIST_INVALID", 4: "FILE_NOT_FOUND", 5: "LIST_INVALID"}
        messages = {finding["line"]: finding["message"] for finding in found["findings"]}
        assert messages[2].startswith("train.txt:2: has 1 column")
        assert messages[3].startswith("train.txt:3: column 2 begins with a quote that is not closed")
        assert messages[5].startswith("train.txt:5: label `7` is a number")
        assert (folder / "good.txt").read_text() == "a.jpg,cat\na.jpg,dog\n"
    with pytest.raises(bulkhead.errors.DataError, match="train.txt:2: has 1 column"):
        bulkhead.Loader(folder / "spec.yaml")


def test_a_file_of_names_joins_the_quarantine(folder):
    from conftest import Service

    service = Service(folder)
    (folder / "bad.txt").write_text("# leave out the file x.tfrecord\na.tfrecord@17\nb.jpg\n")
    said = tool("quarantine", "add", "--from", folder / "bad.txt", "--target", service.target)
    assert [line.split()[0] for line in said.splitlines()] == ["a.tfrecord@17", "b.jpg"]
    assert service.stop() == 0


def test_images_that_may_not_be_read_are_left_out(folder, photos):
    """By a worker: root's capabilities are not its."""
    images = folder / "images/one"
    images.mkdir(parents=True)
    for number, photo in enumerate(sorted((photos / "folder").rglob("*.jpg"))[:12]):
        shutil.copy(photo, images / f"{number:02}.jpg")
    for number in (3, 8):
        (images / f"{number:02}.jpg").chmod(0)
    spec = write_spec(folder / "spec.json", source={"image_folder": {"path": str(folder / "images")}}, batch={"size": 4},
                      stages=["decode_image", {"resize": {"size": 8}}])
    found = scan(spec, "--write-spec", folder / "good.yaml")
    assert reasons(found) == {"one/03.jpg": "FILE_UNREADABLE", "one/08.jpg": "FILE_UNREADABLE"}
    assert scan(folder / "good.yaml", code=0)["records"] == 10


def test_on_a_terminal_the_progress_is_one_line(folder):
    spec = write_spec(folder / "spec.json", source={"range": {"size": 40}}, batch={"size": 8})
    said = on_terminal("scan", spec)
    assert re.fullmatch(r"(\r\d+ of 40 records read, 0 bad\x1b\[K)+\r40 records read, 0 bad\x1b\[K\r\n", said), said
    assert said.startswith("\r8 of 40 "), "the first is shown whatever time it took"


def test_on_a_terminal_a_finding_takes_the_place_of_the_progress(folder):
    (folder / "bad.jpg").write_bytes(b"no image")
    (folder / "list.txt").write_text(20 * "bad.jpg\t1\n")
    spec = write_spec(folder / "spec.json", source={"image_list": {"path": str(folder / "list.txt")}}, batch={"size": 8},
                      stages=["decode_image", {"resize": {"size": 8}}])
    said = on_terminal("scan", spec)
    before = [line.partition("list.txt:")[0] for line in said.split("\r\n") if "list.txt:" in line]
    assert before and all(text == "" or text.endswith("\r\x1b[K") for text in before), said


WAITS = """import os, time


def wait(index, *, marker):
    while index == 0 and not os.path.exists(marker):
        time.sleep(0.01)
    print("read", index, flush=True)
    return index
"""


def test_records_go_to_several_workers(folder):
    (folder / "code.py").write_text(WAITS)
    stage = {"function": "code:wait", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}],
             "arguments": {"marker": str(folder / "marker")}}
    spec = write_spec(folder / "spec.json", source={"range": {"size": 40}}, stages=[{"python": stage}], batch={"size": 4})
    python = ["--python", os.environ.get("BULKHEAD_TEST_PYTHON", sys.executable), "--python-path", folder]
    run = subprocess.Popen([BIN / "bulkhead", "scan", spec, "--workers", "2", "--threads", "1", *map(str, python)],
                           stderr=subprocess.PIPE, text=True)
    try:
        # The worker with record 0 waits, so another one reads this.
        deadline = time.monotonic() + 60
        while not any("read " in log.read_text() for log in (folder / "cache/bulkhead/logs").glob("*")):
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.02)
    finally:
        (folder / "marker").touch()
        said = run.communicate(timeout=120)[1]
    assert run.returncode == 0 and "40 records read, 0 bad" in said
