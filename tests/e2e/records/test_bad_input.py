"""Bad data ends in an error that says what, where and what to do; the service lives on."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import pytest

import bulkhead
import cv2
import numpy
from conftest import BIN, Service, write_spec

DECODE = ["decode_image", {"resize": {"size": 32}}]


@pytest.fixture
def service(folder):
    service = Service(folder, "--root", folder, "--workers", 2)
    yield service
    assert service.process.poll() is None, "the service died"
    assert service.stop() == 0


def jpegs(photos):
    return sorted(photos.glob("folder/*/*.jpg"))


def image_list(folder, photos, damage):
    """A list of eight photos of which the fifth went through `damage` (bytes → bytes)."""
    lines = []
    for i, path in enumerate(jpegs(photos)[:8]):
        data = path.read_bytes()
        (folder / f"{i}.jpg").write_bytes(damage(data) if i == 4 else data)
        lines.append(f"{i}.jpg {i}\n")
    (folder / "list.txt").write_text("".join(lines))


def list_spec(folder, stages=DECODE, **more):
    return write_spec(folder / "spec.yaml", source={"image_list": {"path": "list.txt"}},
                      stages=stages, batch={"size": 4}, epochs=1, **more)


def stream(spec, service):
    """Labels that arrived, and the error that ended it (None: none)."""
    labels = []
    try:
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            for batch in loader:
                labels += batch["label"].tolist()
    except bulkhead.BulkheadError as error:
        return labels, error
    return labels, None


def patch_size(data):
    """The JPEG's frame header says 60,000 × 60,000."""
    at = 2
    while not 0xC0 <= data[at + 1] <= 0xC2:
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return data[: at + 5] + (60000).to_bytes(2, "big") * 2 + data[at + 9 :]


DAMAGES = {
    "cut": (lambda data: data[: len(data) * 7 // 10], "TRUNCATED_IMAGE"),
    "no image": (lambda data: b"this is text, not an image", "UNSUPPORTED_IMAGE"),
    "empty": (lambda data: b"", "TRUNCATED_IMAGE"),
    "huge": (patch_size, "IMAGE_TOO_LARGE"),
    "no marker": (lambda data: data[:2] + b"\0\0" + data[4:], "CORRUPT_IMAGE"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_image_fails_the_stream_behind_the_good_batches(photos, folder, service, name):
    damage, reason = DAMAGES[name]
    image_list(folder, photos, damage)
    labels, error = stream(list_spec(folder), service)
    assert labels == [0, 1, 2, 3]
    assert isinstance(error, bulkhead.DataError)
    assert error.reason == reason, error
    assert "4.jpg" in str(error) and "decode_image" in str(error)
    assert error.metadata["position"] == "4"


@pytest.mark.parametrize("name", ["cut", "huge"])
def test_a_damaged_image_is_substituted_and_counted(photos, folder, service, name):
    image_list(folder, photos, DAMAGES[name][0])
    errors = {"policy": "substitute", "max_fraction": 0.2}
    with bulkhead.Loader(list_spec(folder, errors=errors), service.target, timeout=60) as loader:
        labels = [label for batch in loader for label in batch["label"].tolist()]
    assert labels == [0, 1, 2, 3, 5, 5, 6, 7]


def test_too_many_substitutions(photos, folder, service):
    image_list(folder, photos, DAMAGES["cut"][0])
    shutil.copy(folder / "4.jpg", folder / "6.jpg")
    spec = list_spec(folder, errors={"policy": "substitute", "max_fraction": 0.1})
    labels, error = stream(spec, service)
    assert labels == [0, 1, 2, 3]
    assert error.reason == "TOO_MANY_SUBSTITUTIONS"


def test_a_list_line_without_a_label(photos, folder, service):
    image_list(folder, photos, lambda data: data)
    (folder / "list.txt").write_text("0.jpg 0\n1.jpg\n2.jpg 2\n")
    _, error = stream(list_spec(folder), service)
    assert error.reason == "LIST_INVALID"
    assert "list.txt:2" in str(error)


def test_an_empty_list(photos, folder, service):
    (folder / "list.txt").write_text("# nothing yet\n")
    _, error = stream(list_spec(folder), service)
    assert error.reason in ("NO_SAMPLES", "FILE_EMPTY")
    assert "list.txt" in str(error)


def test_a_list_that_names_a_missing_image(photos, folder, service):
    image_list(folder, photos, lambda data: data)
    os.remove(folder / "3.jpg")
    _, error = stream(list_spec(folder), service)
    assert error.reason == "FILE_NOT_FOUND"
    assert "list.txt:4" in str(error) and "3.jpg" in str(error)


def test_a_missing_image_of_a_list_is_substituted_and_listed(photos, folder, service):
    image_list(folder, photos, lambda data: data)
    os.remove(folder / "3.jpg")
    spec = list_spec(folder, errors={"policy": "substitute", "max_fraction": 0.2})
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        labels = [label for batch in loader for label in batch["label"].tolist()]
        [substituted] = loader.substitutions
    assert labels == [0, 1, 2, 4, 4, 5, 6, 7]
    assert (substituted.position, substituted.substitute_position) == (3, 4)
    assert "list.txt:4: 3.jpg: there was no such file" in substituted.message


def test_an_image_that_changes_while_it_streams(photos, folder, service):
    image_list(folder, photos, lambda data: data)
    spec = write_spec(folder / "spec.yaml", source={"image_list": {"path": "list.txt"}},
                      stages=DECODE, batch={"size": 4})
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        batches = loader.stream()
        next(batches)
        (folder / "2.jpg").write_bytes(b"other")
        with pytest.raises(bulkhead.BulkheadError) as caught:
            for _ in range(100):
                next(batches)
    assert caught.value.reason == "FILE_CHANGED"
    assert "2.jpg" in str(caught.value)


@pytest.fixture
def nobodys_service(monkeypatch):
    """A service of a user who may not read everything; root, who runs CI, may."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bulkhead-test-"))
    folder.chmod(0o755)
    user = {}
    if os.geteuid() == 0:
        user = {"user": 65534, "group": 65534, "extra_groups": []}
        os.chown(folder, 65534, 65534)
        monkeypatch.setenv("BULKHEAD_SOCKET_USER", "65534")
    for program in ("bulkheadd", "bulkhead-worker"):
        shutil.copy(BIN / program, folder)
    service = Service(folder, "--root", folder, "--workers", 1, programs=folder, **user)
    service.folder = folder
    yield service
    assert service.stop() == 0
    shutil.rmtree(folder)


@pytest.mark.parametrize("victim", ["3.jpg", "list.txt"])
def test_an_unreadable_file(photos, nobodys_service, victim):
    folder = nobodys_service.folder
    image_list(folder, photos, lambda data: data)
    (folder / victim).chmod(0)
    _, error = stream(list_spec(folder), nobodys_service)
    assert error.reason == "FILE_UNREADABLE"
    assert victim in str(error)


def test_an_unreadable_tfrecord(photos, nobodys_service):
    folder = nobodys_service.folder
    shutil.copy(next(photos.glob("records-*.tfrecord")), folder / "a.tfrecord")
    (folder / "a.tfrecord").chmod(0)
    spec = write_spec(folder / "spec.yaml", source={"tfrecord": {"files": "a.tfrecord"}},
                      features={"label": {"int64": {}}}, batch={"size": 4})
    _, error = stream(spec, nobodys_service)
    assert error.reason == "FILE_UNREADABLE"
    assert "a.tfrecord" in str(error)


def test_a_worker_that_needs_more_than_its_quota(photos, folder):
    # 72 MB of pixels; what a photo takes is known when it comes, not before.
    cv2.imwrite(str(folder / "large.png"), numpy.zeros((4000, 6000, 3), numpy.uint8))
    (folder / "large.txt").write_text("large.png 0\n" * 8)
    large = write_spec(folder / "large.json", source={"image_list": {"path": "large.txt"}}, stages=[*DECODE],
                       batch={"size": 4}, epochs=1, outputs=["label"])
    image_list(folder, photos, lambda data: data)
    service = Service(folder, "--root", folder, "--workers", 1, "--worker-quota", "64MiB")
    _, error = stream(large, service)
    assert error.reason == "POISON_SAMPLE"
    assert error.metadata["cause"].startswith("out of memory under its quota in stages[0] decode_image")
    assert "raise --worker-quota, now 64MiB" in str(error)
    assert error.metadata["record"] == "large.png"
    labels, error = stream(list_spec(folder), service)  # the service serves others all the same
    assert error is None and len(labels) == 8
    assert service.stop() == 0


def test_declared_sizes_that_no_worker_could_hold(photos, folder):
    image_list(folder, photos, lambda data: data)
    stages = ["decode_image", {"resize": {"size": [9000, 9000]}}, {"resize": {"size": 32}}]
    service = Service(folder, "--root", folder, "--workers", 1, "--worker-quota", "64MiB")
    _, error = stream(list_spec(folder, stages), service)
    service.stop()
    assert error.reason == "BUDGET_EXCEEDED"
    assert error.metadata["path"].startswith("stages[1]")
    assert "one sample takes 231.7MiB" in str(error) and "64MiB" in str(error)


def test_a_label_outside_the_classes(photos, folder, service):
    image_list(folder, photos, lambda data: data)
    _, error = stream(list_spec(folder, [*DECODE, {"one_hot": {"classes": 6}}]), service)
    assert error.reason == "LABEL_OUT_OF_RANGE"
    assert "6" in str(error)


def test_a_batch_larger_than_the_budget(folder, service):
    spec = write_spec(folder / "spec.yaml", source={"range": {"size": 10}},
                      batch={"size": 1 << 24})
    small = subprocess.run(
        [BIN / "bulkheadd", "--listen", f"unix:{folder}/other.sock", "--memory-budget", "1MiB"],
        capture_output=True, text=True)
    assert small.returncode == 1 and "memory-budget" in small.stderr
    other = Service_with_budget(folder)
    _, error = stream(spec, other)
    other.stop()
    assert error.reason == "BUDGET_EXCEEDED"
    assert "5 slots × 128MiB = 640MiB" in str(error)
    assert "supervisor 48MiB + arenas 0B + workers 0B + one replacement 64MiB = 112MiB" in str(error)


def Service_with_budget(folder):
    (folder / "small").mkdir()
    return Service(folder / "small", "--root", folder, "--worker-quota", "64MiB",
                   "--memory-budget", "256MiB")


def test_a_taken_socket(folder, service):
    second = subprocess.run([BIN / "bulkheadd", "--listen", service.target],
                            capture_output=True, text=True)
    assert second.returncode == 1
    assert "another service listens" in second.stderr


def test_a_taken_port(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        second = subprocess.run(
            [BIN / "bulkheadd", "--listen", f"127.0.0.1:{port}", "--insecure-tcp",
             "--cache-dir", folder],
            capture_output=True, text=True)
    assert second.returncode == 1
    assert f"127.0.0.1:{port}" in second.stderr


@pytest.mark.parametrize("options, words", [
    (["--listen", "0.0.0.0:7077"], "TLS"),
    (["--listen", "127.0.0.1:0"], "--insecure-tcp"),
    (["--listen", "127.0.0.1", "--insecure-tcp"], "port"),
    (["--listen", "127.0.0.1:99999", "--insecure-tcp"], "65535"),
    (["--listen", "unix:/does/not/exist/s.sock"], "/does/not/exist"),
    (["--log-level", "loud"], "loud"),
    (["--worker-quota", "1MiB"], "at least"),
    (["--root", "/dev/null"], "not a folder"),
    (["--listen", "unix:" + "/x" * 60], "allows"),
    (["--worker-quota", "512"], "512MiB"),
    (["--memory-budget", "900000GiB"], "memory limit"),
    (["--root", "/does/not/exist"], "--root /does/not/exist: No such file"),
    (["--worker-program", "/does/not/exist"], "worker"),
    (["--cache-dir", "/dev/null/x"], "cache"),
    (["--sandbox", "seccomp,lndlock"], "'lndlock'"),
    (["--quota-enforcement", "hard"], "require_cgroup"),
    (["--wrkers", "2"], "--wrkers"),
])
def test_a_wrong_command_line(folder, options, words):
    base = [] if "--listen" in options else ["--listen", f"unix:{folder}/s.sock"]
    run = subprocess.run([BIN / "bulkheadd", *base, *options], capture_output=True, text=True,
                         timeout=20)
    assert run.returncode in (1, 2)
    assert words in run.stderr


def test_fault_stages_are_refused_unless_the_service_allows_them(service, folder, photos):
    image_list(folder, photos, lambda data: data)
    faulty = list_spec(folder, stages=[*DECODE, {"fault": {"touch": "1MiB"}}])
    _, error = stream(faulty, service)
    assert error.reason == "SPEC_INVALID"
    assert "stages[2].fault" in str(error)
    assert "--allow-fault-stages" in str(error)
    (folder / "allowing").mkdir()
    allowing = Service(folder / "allowing", "--root", folder, "--workers", 1, "--allow-fault-stages")
    labels, error = stream(faulty, allowing)
    assert allowing.stop() == 0
    assert error is None
    assert labels == list(range(8))
