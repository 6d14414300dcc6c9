"""A damaged cache costs time, not an error, and not the data set."""

import bulkhead
import pytest
from conftest import Service, write_spec


@pytest.fixture
def service(folder, photos):
    service = Service(folder, "--root", photos, "--workers", "1")
    yield service
    service.stop()


@pytest.mark.parametrize("ending", ["index", "selection"])
def test_a_damaged_index_is_built_anew(service, folder, photos, ending):
    spec = write_spec(
        folder / "s.json",
        source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"label": {"int64": {}}},
        filter=[{"feature": "label", "min": 0}],
        batch={"size": 10}, epochs=1,
    )

    def labels():
        with bulkhead.Loader(spec, service.target) as loader:
            return [label for batch in loader for label in batch["label"].tolist()]

    expected = labels()
    damaged = next((folder / "cache").glob(f"*.{ending}"))
    content = bytearray(damaged.read_bytes())
    content[128 + 3] ^= 1  # behind the header, which would be noticed when it is looked up
    damaged.unlink()  # workers that have it mapped keep what they have
    damaged.write_bytes(content)
    damaged.chmod(0o600)
    service.stop()
    again = Service(folder, "--root", photos, "--workers", "1")
    service.process, service.log = again.process, again.log
    assert labels() == expected
    assert damaged.read_bytes() != content
    assert labels() == expected
