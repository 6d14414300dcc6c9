"""The photos of the tests as images of an object store, with a service that reads them."""

import bulkhead
import object_sets
import pytest
from conftest import finish_digest, start_digest, write_spec
from object_sets import PATIENCE, put_photos

STAGES = object_sets.STAGES
FOLDER = {"image_folder": {"path": "s3://bucket/folder"}}


@pytest.fixture
def images(photos, folder, own_store):
    """The photos as objects bucket/folder/CLASS/NAME.jpg, bucket/list.txt beside the folder; and a folder of the same."""
    bucket = folder / "store/bucket"
    put_photos(photos, bucket)
    own_store.page_size = 7  # so that folders take several pages
    return bucket


@pytest.fixture
def start(services, folder, images):
    def start_one(*options, cache="64MiB", workers=2, roots=("s3://bucket", "gs://bucket")):
        words = [word for root in (*roots, folder / "store") for word in ("--root", root)]
        return services(folder, *words, "--workers", workers, "--block-cache-bytes", cache, *options)

    return start_one


def spec_of(source, **more):
    spec = {"source": source, "stages": STAGES, "batch": {"size": 10}, "order": "global", "seed": 5, "epochs": 2, **more}
    return {key: value for key, value in spec.items() if value is not None}


def result(folder, source, service, client="cpp", **more):
    spec = write_spec(folder / "spec.json", **spec_of(source, **more))
    found = finish_digest(start_digest(client, spec, target=service.target, timeout=PATIENCE))
    return {name: found[name] for name in ("digest", "batches", "samples", "cursor", "epochs_ended")}


def error_of(source, service, **more):
    with pytest.raises(bulkhead.BulkheadError) as caught:
        with bulkhead.Loader(spec_of(source, **more), service.target, timeout=PATIENCE) as loader:
            for _ in loader.stream():
                pass
    print(caught.value.code, caught.value.reason, caught.value)
    return caught.value


def size_of(images):
    return sum(path.stat().st_size for path in (images / "folder").rglob("*.jpg"))
