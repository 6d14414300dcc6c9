"""Real workers of a real service and the limits of their cgroups."""

import errno
import os
import pathlib
import re
import subprocess

import pytest

import bulkhead
from conftest import Service, write_spec

LEAK = 256 << 10


def leaf_of(pid):
    """The folder of the worker's group that limits memory, and the names of its files for limit and usage."""
    groups = [line.split(":", 2) for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup" in line]
    for _, controllers, path in groups:
        names = ("memory.max", "memory.current") if not controllers else (
            "memory.limit_in_bytes", "memory.usage_in_bytes")
        for mount in mounts:
            folder = pathlib.Path(mount[4] + path)
            if "bulkhead-" in path and (folder / names[0]).exists():
                return folder, *names
    return None


def test_the_kernel_ends_the_worker_and_nothing_is_lost(folder):
    spec = write_spec(
        folder / "leak.json",
        source={"range": {"size": 600}},
        stages=[{"fault": {"leak": "256KiB"}}],
        batch={"size": 20},
        epochs=1,
    )
    service = Service(
        folder, "--workers", 1, "--worker-quota", "256MiB", "--recycle-growth", "false", "--allow-fault-stages")
    try:
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            batches = iter(loader)
            indices = next(batches)["index"].tolist()
            [worker] = [w for w in bulkhead.service_status(service.target)["workers"] if w["role"] == "pipeline"]
            if worker["quota_level"] != "kernel-total":
                pytest.skip("no cgroup is to be had: " + worker["quota_level"])
            # The worker is far from its quota; its leaf has room for 16 samples more. It cannot be ahead by all.
            leaf, limit, usage = leaf_of(worker["pid"])
            while True:
                try:
                    (leaf / limit).write_text(str(int((leaf / usage).read_text()) + 16 * LEAK))
                    break
                except OSError as error:
                    assert error.errno == errno.EBUSY  # it got ahead by more than that, since its usage was read
            for batch in batches:
                indices += batch["index"].tolist()
        status = bulkhead.service_status(service.target)
    finally:
        service.stop()
    assert indices == list(range(600))
    [death] = [end for end in status["recent_exits"] if end["cause"] != "EXIT_CAUSE_TOLD"]
    assert death["cause"] == "EXIT_CAUSE_CGROUP", death
    [held] = re.findall(r"it met the limit of its cgroup; before, it held up to ([\d.]+)MiB", death["reason"])
    assert 1 < float(held) < 256, death
    assert death["outcome"] == "signaled"
    assert death["pid"] == worker["pid"]
    assert int(status["limit_events"]) == 1
    assert int(status["leases_redone"]) >= 1


def cached_share(files):
    """The share of the files' bytes that the kernel has in its page cache."""
    told = subprocess.run(["fincore", "--bytes", "--raw", "--noheadings", "--output", "RES,SIZE", *files], check=True, stdout=subprocess.PIPE)
    sizes = [list(map(int, line.split())) for line in told.stdout.splitlines()]
    return sum(cached for cached, _ in sizes) / sum(size for _, size in sizes)


def test_more_of_the_data_stays_in_memory_than_a_worker_may_have(folder):
    """The page cache of what workers read counts for the service: else the next epoch would come from the disk again."""
    files = [folder / f"images/{number:03}.ppm" for number in range(320)]
    files[0].parent.mkdir()
    for file in files:
        file.write_bytes(b"P6 600 600 255\n" + os.urandom(600 * 600 * 3))
    for file in files:
        fd = os.open(file, os.O_RDWR)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    if cached_share(files) > 0.05:
        pytest.skip("the page cache of this file system cannot be emptied")
    spec = write_spec(
        folder / "large.json",
        source={"image_folder": {"path": "images", "unlabeled": True}},
        stages=["decode_image", {"resize": {"size": 8}}],
        batch={"size": 16},
        order="global",
        epochs=1,
    )
    service = Service(folder, "--root", folder, "--workers", 1, "--worker-quota", "64MiB")
    try:
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            assert sum(len(batch["image"]) for batch in loader) == 320
            [worker] = [w for w in bulkhead.service_status(service.target)["workers"] if w["role"] == "pipeline"]
    finally:
        service.stop()
    if worker["quota_level"] != "kernel-total":
        pytest.skip("no cgroup is to be had: " + worker["quota_level"])
    # 330 MiB, of which the worker's group has room for 128 MiB with all that it holds.
    assert cached_share(files) > 0.7
