"""What goes wrong with an object store is said with a reason, a place and a cure, in finite time, and without secrets."""

import json
import os
import shutil
import subprocess

import bulkhead
import object_sets
import pytest
from conftest import BIN, tool, write_spec
from object_sets import PATIENCE, spec_of

TRAIN = "s3://bucket/train/part-*"


@pytest.fixture
def start(services, folder):
    """A service that says all it has to say, whose log has no secret in the end."""
    started = []

    def start_one(*options, roots=("s3://bucket",), name="service"):
        words = [word for root in roots for word in ("--root", root)]
        (folder / name).mkdir(exist_ok=True)
        started.append(services(folder / name, *words, "--workers", "1", "--log-level", "debug", *options))
        started[-1].told = folder / name / "service.log"
        return started[-1]

    yield start_one
    environment = dict(os.environ)
    for service in started:
        service.stop()
        assert not object_sets.secrets_in(service.told.read_text(), environment)


def error_of(spec, service, **options):
    """Of a stream that has to fail."""
    with pytest.raises(bulkhead.BulkheadError) as caught:
        with bulkhead.Loader(spec, service.target, timeout=PATIENCE, **options) as loader:
            for _ in loader.stream():
                pass
    error = caught.value
    print(error.code, error.reason, error, error.metadata)
    assert not object_sets.secrets_in(f"{error} {error.metadata}", dict(os.environ))
    assert "\n" not in str(error)
    return error


@pytest.mark.parametrize("files, named", [
    ("s3://nowhere/train/part-0.tfrecord", "s3://nowhere/train/part-0.tfrecord"),
    ("s3://nowhere/train/part-*", "s3://nowhere/train/part-*"),
    ("s3://bucket/train/none.tfrecord", "s3://bucket/train/none.tfrecord"),
    ("s3://bucket/train/none-*", "s3://bucket/train/none-*"),
    ("gs://bucket/train/none-*", "gs://bucket/train/none-*"),
])
def test_what_does_not_exist_is_named(store, start, files, named):
    error = error_of(spec_of("train", files), start(roots=("s3://bucket", "s3://nowhere", "gs://bucket")))
    assert (error.code, error.reason) == ("NOT_FOUND", "FILE_NOT_FOUND")
    assert named in str(error)
    if "nowhere" in files:
        assert "no such bucket" in str(error)


def test_a_missing_object_of_http_is_named(store, start):
    store.check = None
    error = error_of(spec_of("train", f"{store.url}/bucket/train/none"), start(roots=[store.url]))
    assert (error.code, error.reason) == ("NOT_FOUND", "FILE_NOT_FOUND")
    assert f"{store.url}/bucket/train/none" in str(error)


def test_a_wrong_secret_says_where_it_comes_from(store, start, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "quite/another+secret")
    error = error_of(spec_of("train", TRAIN), start())
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "FILE_UNREADABLE")
    assert TRAIN in str(error) and "SignatureDoesNotMatch" in str(error) and "AWS_ACCESS_KEY_ID" in str(error)


def test_no_right_says_what_is_needed(store, start):
    store.fail(None, 403)
    error = error_of(spec_of("train", TRAIN), start())
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "FILE_UNREADABLE")
    assert TRAIN in str(error) and "403 AccessDenied" in str(error) and "right to read" in str(error)


def test_no_credentials_says_which_to_set(store, start, monkeypatch):
    for name in list(store.environment()):
        if "KEY" in name:
            monkeypatch.delenv(name)
    error = error_of(spec_of("train", TRAIN), start())
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "FILE_UNREADABLE")
    assert "AWS_ACCESS_KEY_ID" in str(error)


def test_credentials_that_expire_during_a_stream_say_so(store, start):
    service = start("--block-cache-bytes", "0")
    spec = spec_of("train", TRAIN, batch={"size": 2}, epochs=None)
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        batches = loader.stream()
        next(batches)
        store.expire_credentials()
        with pytest.raises(bulkhead.BulkheadError) as caught:
            for _ in batches:
                pass
    error = caught.value
    print(error)
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "FILE_UNREADABLE")
    assert "s3://bucket/train/part-" in str(error) and "Expired" in str(error)
    assert "AWS_" in str(error), "where they come from"


def test_an_object_that_is_replaced_during_a_stream_is_named(folder, own_store, start):
    """Of the same size, so that the ETag alone tells."""
    service = start("--block-cache-bytes", "0")
    path = folder / "store/bucket/train/part-1.tfrecord"
    with bulkhead.Loader(spec_of("train", TRAIN, batch={"size": 2}, epochs=None), service.target, timeout=PATIENCE) as loader:
        batches = loader.stream()
        next(batches)
        other = b"".join(reversed(list(object_sets.frames(path.read_bytes()))))
        (folder / "new").write_bytes(other)
        os.replace(folder / "new", path)
        with pytest.raises(bulkhead.BulkheadError) as caught:
            for _ in batches:
                pass
    assert (caught.value.code, caught.value.reason) == ("FAILED_PRECONDITION", "FILE_CHANGED")
    assert "s3://bucket/train/part-1.tfrecord" in str(caught.value)
    with bulkhead.Loader(spec_of("train", TRAIN), service.target, timeout=PATIENCE) as loader:
        taken = sum(len(batch["label"]) for batch in loader.stream())
    assert taken == 2 * object_sets.SAMPLES, "between runs it is taken as it is"


def test_a_replaced_object_of_a_full_cache_is_read_anew(folder, own_store, start):
    """What was kept belongs to the object that was there then."""
    service = start()

    def labels():
        spec = spec_of("train", TRAIN, order="sequential", epochs=1)
        with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
            return [int(label) for batch in loader.stream() for label in batch["label"]]

    before = labels()
    path = folder / "store/bucket/train/part-0.tfrecord"
    (folder / "new").write_bytes(b"".join(reversed(list(object_sets.frames(path.read_bytes())))))
    os.replace(folder / "new", path)
    first = object_sets.SAMPLES // object_sets.SHARDS
    assert labels() == before[:first][::-1] + before[first:]


@pytest.mark.parametrize("moment", ["at the opening", "during the stream"])
def test_a_store_that_is_gone_for_good_is_an_error(store, start, moment):
    service = start("--block-cache-bytes", "0")
    spec = spec_of("train", TRAIN, batch={"size": 2}, epochs=None)
    if moment == "at the opening":
        store.die()
        error = error_of(spec, service)
    else:
        with bulkhead.Loader(spec, service.target, timeout=2 * PATIENCE) as loader:
            batches = loader.stream()
            next(batches)
            store.die()
            with pytest.raises(bulkhead.BulkheadError) as caught:
                for _ in batches:
                    pass
        error = caught.value
    print(error)
    assert (error.code, error.reason) == ("UNAVAILABLE", "FILE_UNREADABLE")
    assert "s3://bucket/train/part-" in str(error) and "connect" in str(error)


def test_a_wildcard_of_http_is_refused(store, start):
    error = error_of(spec_of("train", f"{store.url}/bucket/train/part-*"), start(roots=[store.url]))
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "SPEC_INVALID")
    assert f"{store.url}/bucket/train/part-*" in str(error) and "list" in str(error)


@pytest.mark.parametrize("url", ["http://user:tr0ub4dor@HOST/bucket/train/part-0.tfrecord", "s3://user:tr0ub4dor@bucket/train/x",
                                 "http://user:tr0ub/4dor@HOST/x", "https://tr0ub4dor@HOST/x"])
def test_a_password_in_a_url_is_refused_and_not_repeated(folder, store, start, url):
    service = start(roots=[store.url, "s3://bucket"])
    url = url.replace("HOST", store.url.partition("//")[2])
    spec = spec_of("train", url)
    error = error_of(spec, service)
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "SPEC_INVALID")
    assert "password" in str(error) and "tr0ub" not in f"{error} {error.metadata}"
    refused = tool("validate", write_spec(folder / "s.json", **spec), code=1)
    assert "password" in refused and "tr0ub" not in refused
    service.stop()
    assert "tr0ub" not in service.told.read_text()


def test_the_query_of_a_url_is_in_no_message_and_no_log(stored, folder, store, start):
    store.check = None
    secret = "X-Amz-Signature=0123abcdef&X-Amz-Credential=AKIASOMEBODY"
    service = start("--block-cache-bytes", "0", roots=[store.url])
    files = [f"{store.url}/bucket/train/part-{shard}.tfrecord?{secret}" for shard in range(3)]
    said = []
    with bulkhead.Loader(spec_of("train", files), service.target, timeout=PATIENCE) as loader:
        for batch in loader.stream():
            said.append(json.dumps(batch.cursor))
        said.append(json.dumps(loader.status()))
    said.append(str(error_of(spec_of("train", [files[0], files[1].replace("part-1", "none")]), service)))
    store.fail(None, 403)
    error = error_of(spec_of("train", files), service)
    said += [str(error), json.dumps(error.metadata)]
    service.stop()
    said.append(service.told.read_text())
    said += [path.name for path in (folder / "service").rglob("*")]
    assert not [text for text in said if "0123abcdef" in text or "AKIASOMEBODY" in text]


PRIVATE = "s3://bucket/training-other/part-*"


@pytest.mark.parametrize("roots, files, allowed", [
    ((), TRAIN, False),
    (("/",), TRAIN, False),
    (("s3://bucket/train",), TRAIN, True),
    (("s3://bucket/train/",), TRAIN, True),
    (("s3://bucket",), TRAIN, True),
    (("s3://bucket/",), TRAIN, True),
    (("s3://bucket/train/part-0.tfrecord",), "s3://bucket/train/part-0.tfrecord", True),
    (("s3://bucket/train",), PRIVATE, False),
    (("s3://bucket/train",), "s3://bucket/train*/part-*", False),
    (("s3://bucket/train",), "s3://bucket/train?ng-other/part-*", False),
    (("s3://bucket/train",), "s3://bucket/*", False),
    (("s3://bucket/train",), "s3://bucket/train-1/part-0", False),
    (("s3://bucket/train",), "gs://bucket/train/part-*", False),
    (("s3://buck",), TRAIN, False),
    (("s3://bucket/train/part",), TRAIN, False),
])
def test_roots_of_urls_allow_what_lies_below_them(folder, own_store, start, roots, files, allowed):
    shutil.copytree(folder / "store/bucket/train", folder / "store/bucket/training-other")
    service = start(roots=roots)
    spec = spec_of("train", files)
    if allowed:
        with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
            loader.next_batch()
        assert "may not read it" not in service.told.read_text()  # as of folders
        return
    error = error_of(spec, service)
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "PATH_NOT_ALLOWED")
    assert files in str(error) and "--root" in str(error)
    assert own_store.count() == 0, "nothing is asked of the store"


@pytest.mark.parametrize("files", ["s3://bucket/train/../training-other/part-*", "s3://bucket/train/*/../../training-other/x",
                                   "HTTP/bucket/train/../training-other/part-0.tfrecord",
                                   "HTTP/bucket/train/%2e%2e/training-other/part-0.tfrecord",
                                   "HTTP/bucket/train/..%2ftraining-other/part-0.tfrecord"])
def test_no_key_leads_upwards(store, start, files):
    files = files.replace("HTTP", store.url)
    error = error_of(spec_of("train", files), start(roots=("s3://bucket/train", f"{store.url}/bucket/train")))
    assert error.reason in ("SPEC_INVALID", "PATH_NOT_ALLOWED") and ".." in str(error)
    assert store.count() == 0


def test_tools_without_a_service_say_that_they_read_files_only_or_read_it(folder, stored, store):
    spec = write_spec(folder / "s.json", **spec_of("train", TRAIN))
    said = tool("validate", spec)
    assert said
    local = write_spec(folder / "l.json", **spec_of("train", stored / "bucket/train/part-*"))
    assert tool("validate", local)


@pytest.mark.parametrize("root, words", [
    ("s3://", "--root s3://: names no bucket or host; write s3://BUCKET"),
    ("s3://bucket/*", "--root s3://bucket/*: has a wildcard; a root is what the URLs of specs begin with"),
    ("s3://b*", "--root s3://b*: has a wildcard"),
    ("az://bucket", "--root az://bucket: is no URL of an object; it begins with s3://, gs://, https:// or http://"),
    ("s3://bucket/../x", "--root s3://bucket/../x: has a component '..'"),
])
def test_a_root_that_can_hold_nothing_is_refused(folder, root, words):
    run = subprocess.run([BIN / "bulkheadd", "--root", root, "--listen", f"unix:{folder}/s"], capture_output=True, text=True, timeout=60)
    assert run.returncode != 0 and words in run.stderr + run.stdout, run


def test_a_mistyped_profile_is_named(folder, store, start, monkeypatch):
    for name in list(store.environment()):
        if "KEY" in name:
            monkeypatch.delenv(name)
    (folder / ".aws").mkdir()
    (folder / ".aws/credentials").write_text("[lab]\naws_access_key_id = A\naws_secret_access_key = S\n")
    monkeypatch.setenv("AWS_PROFILE", "lba")
    error = error_of(spec_of("train", TRAIN), start())
    assert error.reason == "FILE_UNREADABLE" and "AWS_PROFILE: there is no profile 'lba' in " in str(error)


def test_objects_without_published_indexes_are_said_once_with_the_cure(store, start):
    service = start()
    for _ in range(2):
        with bulkhead.Loader(spec_of("train", TRAIN), service.target, timeout=PATIENCE) as loader:
            next(loader.stream())
    service.stop()
    told = service.told.read_text()
    assert told.count("bulkhead index SPEC --publish") == 1, told
    assert "3 object(s) have no published record index" in told


def folder_of(path):
    return {"source": {"image_folder": {"path": path}}, "features": None}


@pytest.mark.parametrize("path, words", [
    ("s3://bucket/photos/*", "s3://bucket/photos/*: has a wildcard, and an image_folder is one folder"),
    ("s3://bucket/photo?/", "s3://bucket/photo?/: has a wildcard"),
    ("s3://bucket/../photos", "s3://bucket/../photos: has a component '..'"),
    ("S3://bucket/photos", "S3://bucket/photos: write s3:// in small letters"),
    ("az://bucket/photos", "URLs begin with s3://, gs://, https:// or http://"),
])
def test_the_url_of_a_folder_is_shown_as_it_is_written(folder, store, start, path, words):
    spec = {key: value for key, value in spec_of("train", TRAIN, **folder_of(path)).items() if value is not None}
    for said in (str(error_of(spec, start())), tool("validate", write_spec(folder / "s.json", **spec), code=1)):
        assert words in said and f"{path}/x" not in said and f"{path}x" not in said, said
    assert store.count() == 0


def test_a_line_of_a_list_with_an_unknown_scheme_says_which_are_known(store, start):
    source = {"source": {"image_list": {"entries": ["az://bucket/a.jpg 0"]}}, "features": None}
    spec = {key: value for key, value in spec_of("train", TRAIN, **source).items() if value is not None}
    error = error_of(spec, start())
    assert "az://bucket/a.jpg: is no URL of an object; it begins with s3://, gs://, https:// or http://" in str(error)


def test_an_endpoint_without_a_scheme_is_told_with_its_variable(store, start, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.url.partition("//")[2])
    error = error_of(spec_of("train", TRAIN), start())
    assert f"AWS_ENDPOINT_URL: {store.url.partition('//')[2]} has no scheme; write {store.url} or https://" in str(error)
