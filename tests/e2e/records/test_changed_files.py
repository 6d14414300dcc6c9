"""Files that change, or go stale, while a stream reads them."""

import os
import shutil
import subprocess
import sys

import bulkhead
import pytest
from conftest import HERE, Service, write_spec


@pytest.fixture
def service(folder):
    service = Service(folder, "--root", folder, "--workers", "2")
    yield service
    assert service.stop() == 0


def frames(data):
    at = 0
    while at < len(data):
        size = 16 + int.from_bytes(data[at : at + 8], "little")
        yield data[at : at + size]
        at += size


def label_spec(folder, files, **more):
    return write_spec(folder / "spec.json", source={"tfrecord": {"files": str(files)}},
                      features={"label": {"int64": {}}}, batch={"size": 4}, **more)


@pytest.mark.parametrize("how", ["in place", "by another file"])
def test_a_tfrecord_of_another_content_and_the_same_size_ends_the_stream(photos, folder, service, how):
    path = folder / "a.tfrecord"
    shutil.copy(sorted(photos.glob("records-*.tfrecord"))[0], path)
    other = b"".join(reversed(list(frames(path.read_bytes()))))
    assert len(other) == path.stat().st_size
    with bulkhead.Loader(label_spec(folder, path), service.target, timeout=60) as loader:
        batches = loader.stream()
        next(batches)
        if how == "in place":
            path.write_bytes(other)
        else:
            before = path.stat()
            (folder / "b").write_bytes(other)
            os.utime(folder / "b", ns=(before.st_atime_ns, before.st_mtime_ns))
            os.replace(folder / "b", path)
            # What is open stays the file that was indexed: others open it now.
            for _ in range(2):
                while not service.kill_worker():
                    pass
        with pytest.raises(bulkhead.BulkheadError) as caught:
            for _ in range(1000):
                next(batches)
    assert caught.value.reason == "FILE_CHANGED", caught.value
    assert "a.tfrecord" in str(caught.value)


def test_a_listed_image_of_another_content_and_the_same_size_ends_the_stream(photos, folder, service):
    photo = sorted(photos.glob("folder/*/*.jpg"))[0].read_bytes()
    for i in range(8):
        (folder / f"{i}.jpg").write_bytes(photo)
    (folder / "list.txt").write_text("".join(f"{i}.jpg {i}\n" for i in range(8)))
    spec = write_spec(folder / "spec.json", source={"image_list": {"path": "list.txt"}},
                      stages=["decode_image", {"resize": {"size": 32}}], batch={"size": 4})
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        batches = loader.stream()
        next(batches)
        changed = bytearray(photo)
        changed[-100] ^= 1
        (folder / "2.jpg").write_bytes(changed)
        with pytest.raises(bulkhead.BulkheadError) as caught:
            for _ in range(100):
                next(batches)
    assert caught.value.reason == "FILE_CHANGED"
    assert "2.jpg" in str(caught.value)
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        next(loader.stream())  # between runs it is taken as it is


def test_the_advice_for_a_replaced_photo_leads_to_a_stream(photos, folder, service):
    photo, other = (path.read_bytes() for path in sorted(photos.glob("folder/*/*.jpg"))[:2])
    assert len(photo) != len(other)
    (folder / "photos" / "cats").mkdir(parents=True)
    for i in range(8):
        (folder / "photos" / "cats" / f"{i}.jpg").write_bytes(photo)
    spec = write_spec(folder / "spec.json", source={"image_folder": {"path": "photos"}},
                      stages=["decode_image", {"resize": {"size": 32}}], batch={"size": 4})

    def read(cursor=None):
        with bulkhead.Loader(spec, service.target, timeout=60, cursor=cursor) as loader:
            next(loader.stream())

    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        batches = loader.stream()
        cursor = next(batches).cursor
        (folder / "other").write_bytes(other)
        os.replace(folder / "other", folder / "photos" / "cats" / "2.jpg")
        with pytest.raises(bulkhead.BulkheadError, match=r"position 2: (cats/2.jpg: stages\[0\] decode_image: )?cats/2.jpg: changed since it was .*; open the stream without a cursor .* put the earlier file back"):
            for _ in range(100):
                next(batches)
    with pytest.raises(bulkhead.CursorMismatch, match="put back what the cursor was made with, or begin anew without it"):
        read(cursor)
    read()
    (folder / "photos" / "cats" / "2.jpg").write_bytes(photo)
    read(cursor)


@pytest.mark.skipif(not os.path.exists("/dev/fuse") or os.geteuid() != 0, reason="needs FUSE")
@pytest.mark.parametrize("error", ["ESTALE", "EIO"])
def test_a_descriptor_that_reads_no_more_is_replaced(photos, folder, error):
    mirrored, mount = folder / "mirrored", folder / "mount"
    mirrored.mkdir()
    mount.mkdir()
    shutil.copy(sorted(photos.glob("records-*.tfrecord"))[0], mirrored / "a.tfrecord")
    files = subprocess.Popen([sys.executable, HERE / "stale_folder.py", mirrored, mount, error])
    try:
        while not os.path.ismount(mount):
            assert files.poll() is None
        service = Service(folder, "--root", folder, "--workers", "1")
        spec = label_spec(folder, mount / "a.tfrecord", epochs=40)
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            batches = loader.stream()
            expected = [label for _ in range(3) for label in next(batches)["label"].tolist()]
            (mirrored / ".stale").touch()
            for batch in batches:
                expected += batch["label"].tolist()
        assert service.stop() == 0
        size = len(expected) // 40
        assert len(expected) == 40 * size and expected[-size:] == expected[:size]
    finally:
        subprocess.run(["umount", "-l", mount], check=True)
        files.kill()  # whoever still reads there gets an error
        files.wait()
