"""The cache folder may lose files, or go, or hold what others put there: streams go on, with the same bytes."""

import os
import shutil
import signal

import bulkhead
import pytest
from conftest import AUGMENTED, Service, write_spec


def records_spec(folder, photos, **more):
    return write_spec(
        folder / "records.json", source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"label": {"int64": {}}}, filter=[{"feature": "label", "min": 0}], batch={"size": 10}, **more)


def list_spec(folder, photos, lines, **more):
    """A list of so many lines whose labels count them."""
    photo = sorted(photos.glob("folder/*/*.jpg"))[0]
    shutil.copy(photo, folder / "one.jpg")
    (folder / "list.txt").write_text("".join(f"one.jpg {i}\n" for i in range(lines)))
    return write_spec(folder / "list.json", source={"image_list": {"path": str(folder / "list.txt")}},
                      outputs=["label"], stages=[{"decode_image": {}}, {"resize": {"size": 8}}],
                      batch={"size": 10}, **more)


def end_workers(service, how=signal.SIGKILL):
    """Ends every worker that there is by that signal."""
    while not service.kill_worker(how=how):
        pass
    for number in range(1, 4):
        service.kill_worker(number, how)


@pytest.fixture
def start(folder, photos):
    started = []

    def start(*options):
        started.append(Service(folder, "--root", photos, "--root", folder, "--workers", "2", *options))
        return started[-1]

    yield start
    for service in started:
        if service.process.poll() is None:
            assert service.stop() == 0


# A crash makes the record a suspect, which is then done alone.
@pytest.mark.parametrize("lost, how", [("indexes", signal.SIGKILL), ("folder", signal.SIGKILL), ("folder", signal.SIGABRT)])
def test_streams_go_on_and_others_open_when_the_cache_is_lost(start, folder, photos, lost, how):
    service = start()
    spec = records_spec(folder, photos)
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        batches = loader.stream()
        epoch = [next(batches)["label"].tolist() for _ in range(15)]
        for _ in range(6):
            if lost == "folder":
                shutil.rmtree(folder / "cache", ignore_errors=True)
            else:
                for path in (folder / "cache").glob("*.*"):
                    path.unlink()
            end_workers(service, how)
            assert [next(batches)["label"].tolist() for _ in range(15)] == epoch
        assert loader.stats.reconnects == 0
        with bulkhead.Loader(records_spec(folder, photos, epochs=1), service.target, timeout=60) as other:
            assert [batch["label"].tolist() for batch in other] == epoch
    assert (folder / "cache").stat().st_mode & 0o777 == 0o700


def test_an_index_that_is_cut_while_it_is_read_is_built_anew(start, folder, photos):
    service = start()
    lines = 20_000  # of which the workers have seen a part
    with bulkhead.Loader(list_spec(folder, photos, lines, epochs=1), service.target, timeout=120) as loader:
        labels = []
        for number, batch in enumerate(loader):
            labels += batch["label"].tolist()
            if number == 3:
                [index] = (folder / "cache").glob("list-*.index")
                os.truncate(index, 128)
    assert labels == list(range(lines))
    assert "signal 7" not in (folder / "service.log").read_text()


def test_segments_that_are_cut_are_misses_and_nobodys_fault(start, folder, photos):
    spec = write_spec(folder / "photos.json", source={"image_folder": {"path": str(photos / "folder")}},
                      stages=AUGMENTED, batch={"size": 10}, seed=3)

    def epochs(service, damage):
        result = []
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            for number, batch in zip(range(60), loader.stream()):
                result.append(batch["image"].tobytes())
                if number in (20, 40):
                    damage()
        return result

    def cut():
        segments = list((folder / "cache").glob("*.segment"))
        assert segments
        for segment in segments:
            os.truncate(segment, 65536)

    service = start()
    expected = epochs(service, lambda: None)
    assert epochs(service, cut) == expected
    assert "signal" not in (folder / "service.log").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("ending", ["index", "selection"])
@pytest.mark.parametrize("forgery", ["another user's", "open to others", "a link"])
def test_what_others_put_into_the_folder_is_not_read(start, folder, photos, ending, forgery):
    service = start()
    spec = records_spec(folder, photos, epochs=1)

    def labels():
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            return [label for batch in loader for label in batch["label"].tolist()]

    expected = labels()
    assert service.stop() == 0
    for path in (folder / "cache").glob(f"*.{ending}"):
        if forgery == "another user's":
            os.chown(path, 65534, 65534)
        elif forgery == "open to others":
            path.chmod(0o666)
        else:
            path.rename(folder / path.name)
            path.symlink_to(folder / path.name)
    service = start()
    assert labels() == expected
    for path in (folder / "cache").glob(f"*.{ending}"):
        info = path.lstat()
        assert info.st_uid == os.geteuid() and info.st_mode & 0o170777 == 0o100600
    assert "it is ignored and built again" in (folder / "service.log").read_text()


def test_indexes_that_nobody_uses_any_more_are_removed(start, folder, photos):
    service = start("--cache-bytes", "16MiB")  # of which indexes get 4 MiB
    first = list_spec(folder, photos, 60_000, epochs=1)
    with bulkhead.Loader(first, service.target, timeout=120) as loader:
        next(iter(loader))
        [old] = (folder / "cache").glob("list-*.index")
        assert old.stat().st_size > 3 << 20
        with bulkhead.Loader(list_spec(folder, photos, 60_001, epochs=1), service.target, timeout=120) as other:
            next(iter(other))
        assert old.exists(), "it is in use"
    service.stop()
    service = start("--cache-bytes", "16MiB")
    with bulkhead.Loader(list_spec(folder, photos, 60_002, epochs=1), service.target, timeout=120) as loader:
        next(iter(loader))
    indexes = list((folder / "cache").glob("*.index"))
    assert len(indexes) == 1 and old not in indexes


def test_a_folder_that_others_may_write_to_later_is_not_used_until_it_is_closed(start, folder, photos):
    service = start()
    cache = folder / "cache"

    def epoch(spec):
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            return [batch["label"].tolist() for batch in loader]

    spec = records_spec(folder, photos, epochs=1)
    expected = epoch(spec)
    with bulkhead.Loader(records_spec(folder, photos), service.target, timeout=60) as loader:
        batches = loader.stream()
        cache.chmod(0o777)
        # What is open goes on, with new workers, too.
        assert [next(batches)["label"].tolist() for _ in range(15)] == expected
        end_workers(service)
        assert [next(batches)["label"].tolist() for _ in range(15)] == expected
    with pytest.raises(bulkhead.BulkheadError, match="open to other users.*chmod go= "):
        epoch(records_spec(folder, photos, epochs=1))
    cache.chmod(0o700)
    assert epoch(spec) == expected
