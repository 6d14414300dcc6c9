"""The workers of a running service are in their sandbox, and the service says what holds them."""

import gzip
import os
import pathlib
import subprocess
import time

import pytest

import bulkhead
from conftest import AUGMENTED, BIN, Service, write_spec

SETS = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]


def status_of(pid):
    """The fields of /proc/PID/status."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def open_files_of(pid):
    for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max open files"):
            return line.split()[3:5]
    raise AssertionError("no limit of open files")


@pytest.fixture
def spec(folder, photos):
    return write_spec(folder / "s.json", source={"image_folder": {"path": str(photos / "folder")}},
                      stages=AUGMENTED, batch={"size": 8}, epochs=1)


def workers_and_status(folder, spec, photos, *options):
    """Of every worker of a service in the middle of a stream; and what the service says."""
    service = Service(folder, "--root", photos, "--workers", 2, *options)
    try:
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            loader.next_batch()
            # A batch may come before the second worker is bound.
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                status = bulkhead.service_status(service.target)
                workers = [worker for worker in status["workers"] if worker["role"] == "pipeline"]
                if len(workers) == 2 and not any("STARTING" in w["state"] for w in workers):
                    break
                time.sleep(0.01)
            pids = [worker["pid"] for worker in workers]
            assert len(pids) == 2
            return [(status_of(pid), open_files_of(pid)) for pid in pids], status
    finally:
        service.stop()


def test_a_worker_has_no_rights_to_lose(folder, spec, photos):
    found, _ = workers_and_status(folder, spec, photos)
    for status, open_files in found:
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        assert [int(status[name], 16) for name in SETS[:3]] == [0, 0, 0]
        # 128 of its own, 128 for data, and 2 for each of 64 segments of its 3 caches, with one more to write each.
        assert open_files == ["643", "643"]
        if os.geteuid() == 0:  # others may not empty their bounding set, and cannot use it either
            assert [int(status[name], 16) for name in SETS] == [0] * 5


def test_parts_can_be_switched_off(folder, spec, photos):
    ours = status_of(os.getpid())
    for options, seccomp, capabilities in [
        ("none", "0", ours["CapEff"]),
        ("landlock", "0", ours["CapEff"]),
        ("seccomp,landlock", "2", ours["CapEff"]),
        ("capabilities", "0", "0" * 16),
    ]:
        found, _ = workers_and_status(folder, spec, photos, "--sandbox", options)
        for status, _ in found:
            assert (status["Seccomp"], status["CapEff"]) == (seccomp, capabilities), options


def test_the_service_says_what_holds_its_workers(folder, spec, photos):
    _, status = workers_and_status(folder, spec, photos)
    containment = status["containment"]
    if containment["quota_level"] == "kernel-total":
        assert not containment.get("quota_level_reason")
    else:
        assert containment["quota_level"] == "kernel-private"
        assert containment["quota_level_reason"]
    parts = {part["name"]: part for part in containment["sandbox"]}
    assert set(parts) == {"no_new_privs", "file-limit", "capabilities", "landlock", "seccomp"}
    for part in parts.values():
        assert part["active"] != bool(part.get("reason")), part
    assert parts["seccomp"]["active"]


@pytest.fixture
def without_cgroups(folder):
    """A folder whose bulkheadd runs in a mount namespace that shows no cgroups."""
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no mount namespace of its own is to be had")
    programs = folder / "bin"
    programs.mkdir()
    script = programs / "bulkheadd"
    script.write_text(f"""#!/bin/sh
[ -n "$HIDDEN" ] || HIDDEN=1 exec unshare --mount "$0" "$@"
cut -d' ' -f5 /proc/self/mountinfo | grep '^/sys/fs/cgroup' | sort -r | xargs -n1 umount
exec {BIN}/bulkheadd "$@"
""")
    script.chmod(0o755)
    return programs


def test_without_the_cgroup_that_is_required_it_does_not_start(folder, without_cgroups):
    run = subprocess.run(
        [without_cgroups / "bulkheadd", "--listen", f"unix:{folder}/s.sock", "--quota-enforcement", "require_cgroup"],
        capture_output=True, text=True, timeout=20)
    assert run.returncode == 1, run.stderr
    assert "require_cgroup" in run.stderr and "no cgroup with a memory controller" in run.stderr


@pytest.mark.parametrize("parts, level", [("all", "kernel-private"), ("none", "watchdog")])
def test_without_a_cgroup_the_level_is_what_holds_indeed(folder, spec, photos, without_cgroups, parts, level):
    service = Service(folder, "--root", photos, "--workers", 1, "--sandbox", parts, programs=without_cgroups)
    try:
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            loader.next_batch()
            status = bulkhead.service_status(service.target)
    finally:
        service.stop()
    assert status["containment"]["quota_level"] == level
    assert {worker["quota_level"] for worker in status["workers"]} == {level}


def labels_of(spec, data):
    """All labels that a sandboxed service delivers."""
    service = Service(data, "--root", data)
    try:
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            return [label for batch in loader for label in batch["label"].tolist()]
    finally:
        service.stop()


def test_rare_formats_are_decoded_inside(folder, photos):
    # Their decoder is a plugin that loads more than a hundred libraries, once the sandbox is closed.
    cv2 = pytest.importorskip("cv2")
    pixels = cv2.imread(str(next(photos.glob("folder/*/*.jpg"))))
    names = ["0.tiff", "1.bmp", "2.ppm", "3.png", "4.webp"]
    for name in names:
        assert cv2.imwrite(str(folder / name), pixels)
    (folder / "list.txt").write_text("".join(f"{name} {i}\n" for i, name in enumerate(names)))
    spec = write_spec(folder / "s.json", source={"image_list": {"path": "list.txt"}},
                      stages=AUGMENTED, order={"sequential": {}}, batch={"size": 5}, epochs=1)
    assert labels_of(spec, folder) == [0, 1, 2, 3, 4]


def test_compressed_records_and_selections_are_read_inside(folder, photos):
    for i, plain in enumerate(sorted(photos.glob("*.tfrecord*"))):
        (folder / f"{i}.tfrecord.gz").write_bytes(gzip.compress(plain.read_bytes()))
    spec = write_spec(folder / "s.json", source={"tfrecord": {"files": "*.tfrecord.gz"}},
                      features={"image": {"bytes": {}}, "label": {"int64": {}}}, stages=AUGMENTED,
                      filter=[{"feature": "label", "max": 2}], order={"sequential": {}},
                      batch={"size": 1}, epochs=1)
    labels = labels_of(spec, folder)
    assert labels and set(labels) <= {0, 1, 2}
