"""The `bulkhead` command as people and scripts run it: what it prints, and what it refuses."""

import json

import pytest

import bulkhead
from conftest import Service, digest_of, tool, write_spec

MIB = 1 << 20


def bench(*words):
    return json.loads(tool("bench", *words, "--json"))


def numbers_spec(folder, **more):
    return write_spec(folder / "numbers.yaml", source={"range": {"size": 1000}}, batch={"size": 10}, **more)


def test_bench_run_says_what_it_promises(photos, folder):
    spec = photos / "tfrecord.yaml"
    report = bench("run", "--spec", spec, "--workers", 1, "--threads", 1)
    figures = {
        name: report[name]
        for name in (
            "samples_per_second", "bytes_per_second", "client_cpu_seconds", "service_cpu_seconds",
            "first_batch_seconds", "elapsed_seconds", "batches",
        )
    }
    figures.update({f"batch_gap_seconds.{name}": report["batch_gap_seconds"][name] for name in ("p50", "p99", "max")})
    memory = report["memory_bytes"]
    figures.update({f"memory_bytes.{name}": memory[name] for name in ("supervisor", "workers", "arena", "client")})
    assert not [name for name, value in figures.items() if not value > 0], figures
    # 150 photos in whole batches of 64, each with an int64 label.
    assert (report["batches"], report["samples"], report["bytes"]) == (2, 128, 128 * (224 * 224 * 3 + 8))
    assert report["elapsed_seconds"] >= report["first_batch_seconds"]
    assert memory["supervisor"] <= 48 * MIB
    assert 0 < memory["largest_worker"] <= 64 * MIB
    assert report["digest"] == digest_of("cpp", spec)


def test_bench_run_leaves_the_digest_out_when_told(folder):
    assert "digest" not in bench("run", "--spec", numbers_spec(folder), "--no-digest")


def test_one_batch_has_no_rate(folder):
    report = bench("run", "--spec", numbers_spec(folder), "--batches", 1)
    assert report["batches"] == 1
    assert report["samples_per_second"] is None
    assert report["bytes_per_second"] is None
    assert report["batch_gap_seconds"] == {"p50": None, "p99": None, "max": None}
    assert "one batch only: no rate" in tool("stream", numbers_spec(folder), "--batches", 1)


def test_the_arena_of_a_stream_that_is_over_at_once_is_known(folder):
    spec = write_spec(folder / "two.yaml", source={"range": {"size": 2}}, batch={"size": 1})
    for _ in range(5):
        assert bench("run", "--spec", spec)["memory_bytes"]["arena"] > 0


def test_workers_of_other_streams_do_not_count(photos, folder):
    service = Service(folder, "--root", photos, "--workers", 1)
    try:
        # Photos take megabytes in a worker that stays when its stream is over; numbers take none.
        big = bench("run", "--spec", photos / "tfrecord.yaml", "--target", service.target)["memory_bytes"]
        # So long that the stream is surely there when it is looked for.
        small = bench(
            "run", "--spec", numbers_spec(folder), "--target", service.target, "--batches", 20000)["memory_bytes"]
    finally:
        service.stop()
    assert small["workers"] == small["largest_worker"]
    assert big["workers"] == big["largest_worker"]
    assert 0 < small["arena"] < big["arena"]


def test_decode_limit_counts_and_names_what_it_cannot_read(photos, tmp_path):
    limit = bench("decode-limit", photos / "folder", "--repeat", 2)
    assert limit["images"] == 300
    assert limit["images_per_second"] > 0
    (tmp_path / "e.jpg").touch()
    assert f"{tmp_path}/e.jpg: " in tool("bench", "decode-limit", tmp_path, code=1)


@pytest.mark.parametrize("data", ["folder", "list.txt", "records-*.tfrecord"])
def test_stream_takes_data_without_a_spec(photos, folder, data):
    text = tool("stream", photos / data, "--batch", 50, "--size", 32)
    assert "3 batches, 150 samples" in text
    assert "samples/s" in text


def test_a_guessed_spec_that_is_refused_is_called_so(photos, folder):
    text = tool("stream", photos / "folder", "--batch", 65536, "--size", 4096, code=1)
    assert "guessed (see --print-spec) spec:" in text


def test_a_spec_that_is_no_text_is_refused_by_place(folder):
    (folder / "latin.yaml").write_bytes(b"source:\n  range: {size: 8}  # na\xefve\nbatch: {size: 4}\n")
    said = tool("stream", folder / "latin.yaml", code=1)
    assert "latin.yaml:2:25: the byte 0xef is not text; save the file as UTF-8" in said and "protobuf" not in said


def test_synthetic_faces_are_read_back(folder):
    tool("synth", folder / "faces", "--schema", "face", "--count", 32, "--size", "64x64")
    with bulkhead.Loader(folder / "faces/face.yaml") as loader:
        [batch] = loader
    assert batch["image"].shape == (32, 224, 224, 3)
    assert sorted(batch["label"].ravel().tolist()) == [0] * 16 + [1] * 16


def test_synthetic_numbers_are_read_back(folder):
    tool("synth", folder / "numbers", "--schema", "range")
    with bulkhead.Loader(folder / "numbers/range.yaml") as loader:
        numbers = [value for batch in loader for value in batch["var"].ravel().tolist()]
    assert numbers == list(range(10000))


@pytest.mark.parametrize(
    "words, problem",
    [
        (["foo"], "unknown subcommand 'foo'; there are: "),
        (["bench", "foo"], "unknown subcommand 'foo'; there are: run"),
        (["synth", "x", "--schema", "foo"], "--schema: 'foo' is none of photos, face, range"),
        (["synth", "x", "--schema", "range", "--count", "5"], "--count: "),
        (["synth", "x", "--schema", "range", "--size", "9x9"], "--size: "),
        (["synth", "x", "--schema", "range", "--classes", "5"], "--classes: "),
        (["stream", "x.yaml", "--batch", "5"], "--batch: the spec sets this"),
        (["stream", "x.yaml", "--size", "5"], "--size: the spec sets this"),
        (["stream", "x.yaml", "--feature", "image=a"], "--feature: the spec sets this"),
        (["stream", "x", "--batches", "0"], "--batches: '0' is not a whole number of at least 1"),
        (["bench", "run", "--spec", "x", "--batches", "-1"], "--batches: '-1' is not a whole number of at least 1"),
        (["bench", "run", "--spec", "x", "--workers", "0"], "--workers: '0' is not a whole number of at least 1"),
        (["bench", "run", "--spec", "x", "--threads", "0"], "--threads: '0' is not a whole number of at least 1"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_why(tmp_path, monkeypatch, words, problem):
    monkeypatch.chdir(tmp_path)
    assert problem in tool(*words, code=2)
    assert not list(tmp_path.iterdir())


def test_validate_writes_its_keys_in_order(folder):
    text = tool("validate", "--json", numbers_spec(folder))
    reports = json.loads(text)
    assert reports[0]["valid"]
    assert text == json.dumps(reports, indent=2, sort_keys=True) + "\n"


def test_validate_has_the_fingerprint_of_cursors_or_none(photos, folder):
    [image, *_] = sorted((photos / "folder").rglob("*.jpg"))
    (folder / "list.txt").write_text(f"{image} emu\n")
    (folder / "names.txt").write_text("emu\ncat\n")

    def report(classes, *words):
        source = {"image_list": {"path": "list.txt", **classes}}
        spec = write_spec(folder / "s.yaml", source=source, stages=["decode_image", {"resize": {"size": 8}}], batch={"size": 1})
        with bulkhead.Loader(spec) as loader:
            cursor = loader.state_dict()
        return json.loads(tool("validate", "--json", spec, *words))[0].get("bytes_fingerprint"), cursor["bytes_fingerprint"]

    told, real = report({"classes": ["emu", "cat"]})
    assert told == real
    assert report({"classes_file": "names.txt"}) == (None, real), "the file is not read"
    assert report({"classes_file": "names.txt"}, "--data") == (real, real)


def test_the_version_is_told_whatever_follows():
    assert tool("--version", "x") == tool("--version") and tool("--version").startswith("bulkhead ")
    assert "--version" in tool("--help")
