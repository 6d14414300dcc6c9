"""Image folders and lists in an object store: the samples of the same folder and list on disk, one object for each image."""

import json
import shutil

import bulkhead
import object_sets
import pytest
from conftest import digest_of, finish_digest, go_on, start_digest, tool, wait_for_pause, write_spec
from object_images import FOLDER, error_of, images, result, size_of, spec_of, start  # noqa: F401  (images and start are fixtures)
from object_sets import PATIENCE, again_and_again, blocks_folder, disk_use, kill_all, spares


@pytest.mark.parametrize("options", [{}, {"unlabeled": True}, {"extensions": ["jpg"]}])
def test_a_folder_of_objects_is_the_folder_on_disk(folder, images, own_store, start, options):
    (images / "folder/notes.txt").write_text("no image")
    (images / "folder/.hidden").mkdir()
    shutil.copy(next((images / "folder").rglob("*.jpg")), images / "folder/.hidden/a.jpg")
    if options.get("unlabeled"):
        shutil.copy(next((images / "folder").rglob("*.jpg")), images / "folder/loose.jpg")
    service = start()
    split = {"split": {"parts": {"a": 0.7, "b": 0.3}, "use": "a"}}
    for more in ({}, split, {"order": {"block": {"block_size": 7, "window": 3}}}):
        local = result(folder, {"image_folder": {"path": str(images / "folder"), **options}}, service, **more)
        assert local["samples"] > 0
        for url in ("s3://bucket/folder", "gs://bucket/folder/"):
            assert result(folder, {"image_folder": {"path": url, **options}}, service, **more) == local
    assert own_store.count("LIST", "folder/") > 0 and own_store.count("LIST", ".hidden") == 0


@pytest.mark.parametrize("client", ["cpp", "python"])
def test_an_embedded_service_reads_images_of_a_store(folder, images, client):
    local = digest_of("cpp", write_spec(folder / "l.json", **spec_of({"image_folder": {"path": str(images / "folder")}})))
    assert digest_of(client, write_spec(folder / "s.json", **spec_of(FOLDER)), workers=2) == local


def test_class_names_are_those_of_the_folders(images, start):
    with bulkhead.Loader(spec_of(FOLDER), start().target, timeout=PATIENCE) as loader:
        assert list(loader.classes) == sorted(path.name for path in (images / "folder").iterdir())


def test_a_cursor_of_a_folder_goes_on_with_its_objects(folder, images, start):
    service = start()
    local = spec_of({"image_folder": {"path": str(images / "folder")}})
    half = finish_digest(start_digest("cpp", write_spec(folder / "l.json", **local), target=service.target, batches=8))
    cursor = json.dumps(half["cursor"])
    rest = digest_of("cpp", folder / "l.json", target=service.target, cursor=cursor)
    assert digest_of("cpp", write_spec(folder / "r.json", **spec_of(FOLDER)), target=service.target, cursor=cursor) == rest


@pytest.mark.parametrize("where", ["list in the store", "http", "list of URLs", "entries", "mixed"])
def test_a_list_of_objects_is_the_list_on_disk(folder, images, start, own_store, where):
    """Those of URLs have other paths, and so another identity, but the same bytes."""
    service = start(roots=("s3://bucket", own_store.url))
    local = result(folder, {"image_list": {"path": str(images / "list.txt")}}, service)
    lines = [line for line in (images / "list.txt").read_text().splitlines() if line and line[0] != "#"]
    if where == "list in the store":
        assert result(folder, {"image_list": {"path": "s3://bucket/list.txt"}}, service) == local
    elif where == "http":
        own_store.check = None
        assert result(folder, {"image_list": {"path": f"{own_store.url}/bucket/list.txt"}}, service) == local
    else:
        urls = [f"s3://bucket/{line}" for line in lines]
        if where == "mixed":
            urls[::2] = [str(images / line) for line in lines[::2]]
        (folder / "store/urls.txt").write_text("\n".join(urls))
        source = {"entries": urls} if where == "entries" else {"path": str(folder / "store/urls.txt")}
        # All outputs but `path`.
        these = {"outputs": ["image", "label"]}
        local = result(folder, {"image_list": {"path": str(images / "list.txt")}}, service, **these)
        found = result(folder, {"image_list": source}, service, **these)
        assert (found["digest"], found["samples"]) == (local["digest"], local["samples"])


def test_a_list_may_lead_upwards_and_name_an_image_twice(folder, images, start):
    lines = [line for line in (images / "list.txt").read_text().splitlines() if line and line[0] != "#"]
    (images / "lists").mkdir()
    (images / "lists/train.txt").write_text("\n".join(f"../lists/.././{line}" for line in [*lines, *lines[:20]]))
    service = start()
    local = result(folder, {"image_list": {"path": str(images / "lists/train.txt")}}, service)
    assert result(folder, {"image_list": {"path": "s3://bucket/lists/train.txt"}}, service) == local


def test_lists_and_folders_in_a_mixture(folder, images, start):
    def mixture(place):
        sources = [{"image_folder": {"path": f"{place}/folder"}}, {"image_list": {"path": f"{place}/list.txt"}}]
        return {"mixture": {"sources": [{"weight": weight, "source": source, "order": "global"}
                                        for weight, source in zip((0.6, 0.4), sources)]}}

    service = start()
    local = result(folder, mixture(images), service, order=None)
    assert result(folder, mixture("s3://bucket"), service, order=None) == local


def test_each_image_is_fetched_once_and_a_second_run_fetches_nothing(folder, images, own_store, start):
    service = start()
    local = result(folder, {"image_folder": {"path": str(images / "folder")}}, service)
    assert result(folder, FOLDER, service) == local
    first = own_store.bytes_sent("folder/")
    assert size_of(images) <= first <= 1.3 * size_of(images), "with the listings"
    asked = own_store.count("GET", "folder/")
    assert service.stop() == 0
    assert result(folder, FOLDER, start()) == local
    assert own_store.count("GET", "folder/") == asked
    kept = {path.suffix for path in blocks_folder(folder / "cache").iterdir()}
    assert kept == {".data", ".blocks", ".table"}
    assert len(list(blocks_folder(folder / "cache").iterdir())) == 3, "however many images there are"


def test_two_services_share_what_they_fetch(services, folder, images, own_store, start):
    one, two = (services(folder / name, "--root", "s3://bucket", "--workers", "1", "--cache-dir", folder / "cache")
                for name in ("a", "b"))
    first = result(folder, FOLDER, one)
    asked = own_store.count("GET", "folder/")
    assert result(folder, FOLDER, two) == first
    assert own_store.count("GET", "folder/") == asked


@pytest.mark.parametrize("cache", ["0", "300KiB"])
def test_a_cache_smaller_than_the_epoch(folder, images, own_store, start, cache):
    """Batches of one image, since 64 batches are fetched ahead."""
    service = start(cache=cache)
    more = {"batch": {"size": 1}, "epochs": 4}
    local = result(folder, {"image_folder": {"path": str(images / "folder")}}, service, **more)
    assert result(folder, FOLDER, service, **more) == local
    asked = [own_store.count("GET", str(path.relative_to(images))) for path in (images / "folder").rglob("*.jpg")]
    once = sum(count == 1 for count in asked)
    print("images that were fetched once:", once, "requests:", sum(asked))
    used = disk_use(blocks_folder(folder / "cache"))
    tables = 64 << 10
    assert used <= (300 << 10) + tables
    assert sum(asked) >= 2 * len(asked)
    if cache != "0":  # what came first stays
        assert used > 100 << 10 and once >= 8
    assert sum(disk_use(spare) for spare in spares(folder / "cache")) < size_of(images) / 2
    assert service.stop() == 0 and not spares(folder / "cache")


def test_another_data_set_takes_the_room_of_one_that_is_not_in_use(folder, images, start):
    room = f"{(size_of(images) * 3 // 2) >> 10}KiB"
    service = start(cache=room)
    first = result(folder, FOLDER, service)
    [table] = blocks_folder(folder / "cache").glob("*.table")
    assert service.stop() == 0
    shutil.copytree(images / "folder", images / "other")
    service = start(cache=room)
    assert result(folder, {"image_folder": {"path": "s3://bucket/other"}}, service)["digest"] == first["digest"]
    assert not table.exists()
    assert len(list(blocks_folder(folder / "cache").iterdir())) == 3


@pytest.mark.parametrize("kind", ["folder", "shards"])
def test_what_no_stream_uses_any_more_makes_room_in_the_same_service(folder, images, start, kind):
    """As when a folder gets another image each day: the service lives on, and the table of yesterday goes."""
    used = size_of(images) if kind == "folder" else sum(path.stat().st_size for path in (images / "train").iterdir())
    service = start(cache=f"{(used * 3 // 2) >> 10}KiB")

    def stream(name):
        if kind == "folder":
            shutil.copytree(images / "folder", images / name)
            return result(folder, {"image_folder": {"path": f"s3://bucket/{name}"}}, service)
        shutil.copytree(images / "train", images / name)
        files = f"s3://bucket/{name}/part-*"
        values = {key: value for key, value in object_sets.spec_of("train", files).items() if value is not None}
        return finish_digest(start_digest("cpp", write_spec(folder / "spec.json", **values), target=service.target, timeout=PATIENCE))

    def files():
        return {path.name for path in blocks_folder(folder / "cache").iterdir()}

    first = stream("one")
    yesterday = files()
    for name in ("two", "three"):
        assert stream(name)["digest"] == first["digest"]
    assert not yesterday & files()


def test_two_streams_of_one_folder_share_it_until_the_last_one_ends(folder, images, own_store, start):
    service = start()
    spec = spec_of(FOLDER, batch={"size": 2})
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as one:
        batches = one.stream()
        next(batches)
        local = result(folder, {"image_folder": {"path": str(images / "folder")}}, service)
        assert result(folder, FOLDER, service) == local
        assert 2 * 150 - 2 == sum(len(batch["label"]) for batch in batches)
    assert size_of(images) <= own_store.bytes_sent("folder/") <= 1.3 * size_of(images), "with the listings"


def test_a_full_index_cache_does_not_take_the_urls_away(folder, images, start):
    """Of which a quarter is for indexes: less than this list's."""
    lines = [line for line in (images / "list.txt").read_text().splitlines() if line and line[0] != "#"]
    (folder / "store/urls.txt").write_text("\n".join(f"s3://bucket/{line}" for line in lines))
    service = start("--cache-bytes", "4KiB")
    assert result(folder, {"image_list": {"path": str(folder / "store/urls.txt")}}, service)["samples"] > 0


@pytest.mark.parametrize("cache", ["0", "64MiB"])
@pytest.mark.parametrize("program", ["bulkhead-fetch", "bulkhead-worker"])
def test_kill_9_again_and_again(folder, images, own_store, start, program, cache):
    service = start(cache=cache)
    small = {"batch": {"size": 2}}
    local = result(folder, {"image_folder": {"path": str(images / "folder")}}, service, **small)
    own_store.rate(4 << 20)
    spec = write_spec(folder / "s.json", **spec_of(FOLDER, **small))
    process = start_digest("cpp", spec, target=service.target, pause_after=3, timeout=PATIENCE)
    wait_for_pause(process)
    assert kill_all(service.process.pid, program) > 0
    with again_and_again(lambda: kill_all(service.process.pid, program), 0.3):
        go_on(process)
        assert finish_digest(process)["digest"] == local["digest"]


def test_bulkhead_fetch_dies_while_it_lists(folder, images, own_store, start):
    service = start()
    local = result(folder, {"image_folder": {"path": str(images / "folder")}}, service)
    own_store.delay(0.05)
    own_store.page_size = 2
    kills = []  # more would leave no listing the time to end

    def kill():
        if sum(kills) < 2:
            kills.append(kill_all(service.process.pid, "bulkhead-fetch"))

    with again_and_again(kill, 0.4):
        assert result(folder, FOLDER, service) == local
    assert sum(kills) == 2


def test_kill_9_of_the_service(folder, images):
    local = digest_of("cpp", write_spec(folder / "l.json", **spec_of({"image_folder": {"path": str(images / "folder")}})))
    spec = write_spec(folder / "s.json", **spec_of(FOLDER))
    process = start_digest("cpp", spec, workers=2, pause_after=5)
    wait_for_pause(process)
    assert kill_all(process.pid, "bulkheadd") == 1
    go_on(process)
    assert finish_digest(process)["digest"] == local


@pytest.mark.parametrize("client", ["cpp", "python"])
def test_a_cache_folder_that_is_removed_in_mid_stream_is_made_again(folder, images, own_store, start, client):
    service = start()
    small = {"batch": {"size": 2}}
    local = result(folder, {"image_folder": {"path": str(images / "folder")}}, service, **small)
    own_store.rate(4 << 20)
    spec = write_spec(folder / "s.json", **spec_of(FOLDER, **small))
    process = start_digest(client, spec, target=service.target, pause_after=3, timeout=PATIENCE)
    wait_for_pause(process)
    shutil.rmtree(folder / "cache/objects")
    go_on(process)
    assert finish_digest(process)["digest"] == local["digest"]


@pytest.mark.parametrize("place", ["list", "folder", "files and names in the store"])
def test_names_of_classes_in_a_store_are_those_of_the_file(folder, images, own_store, start, place):
    """The names decide, not where they lie: cursors go on when they are moved, and not when they change."""
    service = start()
    names = sorted(path.name for path in (images / "folder").iterdir())[::-1]
    (images / "classes.txt").write_text("\ufeff" + "\r\n".join(names) + "\n\n")
    lines = [f"folder/{path.relative_to(images / 'folder')} {path.parent.name}\n" for path in (images / "folder").rglob("*.jpg")]
    (images / "named.txt").write_text("".join(lines))
    source, kind = {
        "list": ({"path": "s3://bucket/named.txt"}, "image_list"),
        "folder": ({"path": "s3://bucket/folder"}, "image_folder"),
        "files and names in the store": ({"path": str(images / "named.txt")}, "image_list"),
    }[place]
    told = result(folder, {kind: {**source, "classes": names}}, service)
    for classes in (str(images / "classes.txt"), "s3://bucket/classes.txt"):
        assert result(folder, {kind: {**source, "classes_file": classes}}, service) == told
    with bulkhead.Loader(spec_of({kind: {**source, "classes_file": "s3://bucket/classes.txt"}}), service.target, timeout=PATIENCE) as loader:
        assert list(loader.classes) == names
    spec = write_spec(folder / "classes.json", **spec_of({kind: {**source, "classes_file": "s3://bucket/classes.txt"}}))
    assert names[0] in tool("validate", "--data", spec)
    half = finish_digest(start_digest("cpp", spec, target=service.target, batches=8))
    (images / "classes.txt").write_text("".join(f"{name}\n" for name in names[::-1]))
    with pytest.raises(bulkhead.errors.CursorMismatch):
        with bulkhead.Loader(spec, service.target, timeout=PATIENCE, cursor=half["cursor"]) as loader:
            next(iter(loader))
    (images / "classes.txt").write_text("a\na\n")
    assert "classes.txt:2: names `a` again" in str(error_of({kind: {**source, "classes_file": "s3://bucket/classes.txt"}}, service))
    (images / "classes.txt").write_bytes(b"a\n" * (3 << 20))
    before = own_store.bytes_sent("classes.txt")
    assert "at most 1 MiB" in str(error_of({kind: {**source, "classes_file": "s3://bucket/classes.txt"}}, service))
    assert own_store.bytes_sent("classes.txt") == before


def test_a_list_that_may_not_be_listed_is_looked_up_one_by_one(folder, images, own_store, start):
    service = start()
    source = {"image_list": {"path": "s3://bucket/list.txt"}}
    local = result(folder, {"image_list": {"path": str(images / "list.txt")}}, service)
    own_store.fail(None, 403, method="LIST")
    assert result(folder, source, service) == local
    assert own_store.count("HEAD", "folder/") > 100


def test_a_long_list_takes_pages_and_no_questions(folder, images, own_store, start):
    own_store.page_size = 1000
    assert result(folder, {"image_list": {"path": "s3://bucket/list.txt"}}, start())["samples"] == 300
    sizes = [len(list(path.iterdir())) for path in (images / "folder").iterdir()]
    assert own_store.count("HEAD", "folder/") == sum(size for size in sizes if size <= 8)
    assert own_store.count("LIST", "folder/") == sum(size > 8 for size in sizes)


def test_a_daemon_without_a_root_reads_no_entries(services, folder, images):
    image = next((images / "folder").rglob("*.jpg"))
    error = error_of({"image_list": {"entries": [f"{image} 0"]}}, services(folder, "--workers", "1"))
    assert error.reason == "PATH_NOT_ALLOWED" and "--root" in str(error)


def test_commands_read_images_of_a_store(folder, images):
    spec = write_spec(folder / "s.json", **spec_of(FOLDER))
    assert tool("validate", spec)
    local = write_spec(folder / "l.json", **spec_of({"image_folder": {"path": str(images / "folder")}}))
    orders = [json.loads(tool("order", each, "--json")) for each in (spec, local)]
    assert {**orders[0], "spec": ""} == {**orders[1], "spec": ""}
    assert "150" in tool("validate", "--data", spec)
    tool("preview", spec, "--out", folder / "preview.png")
    assert (folder / "preview.png").stat().st_size > 0
    assert tool("explain", spec)
    urls = [f"s3://bucket/folder/{path.relative_to(images / 'folder')} 0" for path in (images / "folder").rglob("*.jpg")]
    (folder / "urls.txt").write_text("\n".join(urls))
    listed = write_spec(folder / "u.json", **spec_of({"image_list": {"path": str(folder / "urls.txt")}}))
    assert "150" in tool("validate", "--data", listed)
    assert tool("order", listed, "--json")
    for each in (spec, listed):
        assert "pure: 2 samples" in tool("validate", "--purity", 2, each)
        tool("order", each, "--feature", "label", "--png", folder / "o.png")
        assert (folder / "o.png").stat().st_size > 0
