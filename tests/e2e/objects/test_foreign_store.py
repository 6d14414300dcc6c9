"""A server of S3 that others wrote: `scripts/s3_servers.sh` starts each of them, makes the bucket `bulkhead` there, and runs
this with AWS_ENDPOINT_URL and credentials set. Objects are uploaded by boto3, of the interpreter $BULKHEAD_S3_PYTHON.
"""

import json
import os
import subprocess

import object_sets
import pytest
from conftest import digest_of, tool, write_spec
from object_sets import NAMES, SHARDS, spec_of

SERVER = os.environ.get("BULKHEAD_S3_SERVER", "")
BUCKET = "bulkhead"
# Signatures and listings have to agree on how these are written.
STRANGE = "a folder/ü+&=%41,;~@$'(1)!"
MANY = 1003  # keys: more than one page of a listing

pytestmark = pytest.mark.skipif(not SERVER, reason="scripts/s3_servers.sh runs it")


UPLOAD = """
import boto3, json, sys
store = boto3.client("s3")
for key, path in json.load(sys.stdin).items():
    store.upload_file(path, sys.argv[1], key)
"""


def upload(paths):
    """`paths`: by key."""
    subprocess.run([os.environ["BULKHEAD_S3_PYTHON"], "-c", UPLOAD, BUCKET], check=True, text=True,
                   input=json.dumps({key: str(path) for key, path in paths.items()}))


@pytest.fixture(scope="module")
def shards(photos, tmp_path_factory):
    """The shards as files, and in the bucket."""
    root = tmp_path_factory.mktemp("foreign")
    object_sets.write_shards(photos, root / BUCKET)
    upload({str(path.relative_to(root / BUCKET)): path for path in (root / BUCKET).rglob("*.t*") if path.is_file()})
    return root


def local_and_remote(folder, shards, kind, **more):
    pattern = f"{BUCKET}/{kind}/{NAMES[kind].format('*')}"
    return [write_spec(folder / f"{kind}-{name}.json", **spec_of(kind, start + pattern, **more))
            for name, start in (("local", f"{shards}/"), ("remote", "s3://"))]


@pytest.mark.parametrize("kind", ["train", "tar"])
def test_an_epoch_is_that_of_local_files(folder, shards, kind):
    local, remote = local_and_remote(folder, shards, kind)
    digest = digest_of("cpp", local)
    assert digest_of("cpp", remote) == digest
    assert digest_of("python", remote) == digest


@pytest.mark.parametrize("kind", ["train", "tar"])
def test_indexes_are_published_and_read(folder, shards, monkeypatch, kind):
    local, remote = local_and_remote(folder, shards, kind)
    published = json.loads(tool("index", remote, "--publish", "--json"))
    assert (published["objects"], published["published"]) == (SHARDS, SHARDS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "another"))
    assert json.loads(tool("index", remote, "--publish", "--json"))["published"] == 0
    assert digest_of("cpp", remote) == digest_of("cpp", local)


def test_keys_with_strange_characters(folder, shards):
    path = shards / BUCKET / "train" / NAMES["train"].format(0)
    copy = shards / STRANGE / "part-0.tfrecord"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes())
    upload({f"{STRANGE}/part-0.tfrecord": path})
    specs = [write_spec(folder / f"{number}.json", **spec_of("train", f"{start}/part-*"))
             for number, start in enumerate((shards / STRANGE, f"s3://{BUCKET}/{STRANGE}"))]
    assert digest_of("cpp", specs[0]) == digest_of("cpp", specs[1])


def test_a_listing_of_several_pages(folder, shards):
    record = next(object_sets.frames((shards / BUCKET / "train" / NAMES["train"].format(0)).read_bytes()))
    (shards / "one.tfrecord").write_bytes(record)
    upload({f"many/{number:04}.tfrecord": shards / "one.tfrecord" for number in range(MANY)})
    spec = write_spec(folder / "s.json", **spec_of("train", f"s3://{BUCKET}/many/*.tfrecord"))
    assert json.loads(tool("order", spec, "--json"))["records"] == MANY


def test_a_wrong_secret(folder, shards, monkeypatch):
    """Of servers that check signatures: what they say of a wrong one."""
    if os.environ.get("BULKHEAD_S3_SIGNED") != "1":
        pytest.skip(f"{SERVER} checks no signatures")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "another"))
    _, remote = local_and_remote(folder, shards, "train")
    said = tool("order", remote, code=1)
    assert "SignatureDoesNotMatch" in said and "AWS_ACCESS_KEY_ID" in said, said
