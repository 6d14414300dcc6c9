"""A damaged cache costs time, not an error, and not the data set."""

import bulkhead
import pytest
from conftest import Service, digest_of, write_spec


@pytest.fixture
def service(folder, photos):
    service = Service(folder, "--root", photos, "--workers", "1")
    yield service
    service.stop()


def damage(path):
    content = bytearray(path.read_bytes())
    content[128 + 3] ^= 1  # behind the header, which would be noticed when it is looked up
    path.unlink()  # workers that have it mapped keep what they have
    path.write_bytes(content)
    path.chmod(0o600)
    return content


def restart(service, folder, photos):
    service.stop()
    again = Service(folder, "--root", photos, "--workers", "1")
    service.process, service.log = again.process, again.log


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
    content = damage(damaged)
    restart(service, folder, photos)
    assert labels() == expected
    assert damaged.read_bytes() != content
    assert labels() == expected


@pytest.mark.parametrize("client", ["cpp", "python"])
def test_clients_open_again_by_themselves(service, folder, photos, client):
    spec = write_spec(
        folder / "s.json",
        source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"label": {"int64": {}}}, batch={"size": 10}, epochs=1,
    )
    expected = digest_of(client, spec, target=service.target)
    damage(next((folder / "cache").glob("*.index")))
    restart(service, folder, photos)
    assert digest_of(client, spec, target=service.target) == expected
