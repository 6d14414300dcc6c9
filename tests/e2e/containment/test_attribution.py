"""A stage that leaks costs workers, which are replaced, and no byte of a batch."""

import pytest
from conftest import Service, digest_of, write_spec

import bulkhead

STAGES = ["decode_image", {"random_resized_crop": {"size": 32}}, "random_horizontal_flip"]


@pytest.fixture
def spec_with(folder, photos):
    def write(fault, **more):
        return write_spec(folder / "spec.yaml", source={"image_folder": {"path": str(photos / "folder")}},
                          stages=[*STAGES, {"fault": fault}], batch={"size": 10}, order={"global": {}}, **more)
    return write


@pytest.fixture(params=["on", "off"])
def service(folder, photos, request):
    service = Service(folder, "--root", photos, "--workers", 2, "--worker-quota", "48MiB", "--allow-fault-stages",
                      "--attribution", request.param)
    yield service
    assert service.stop() == 0


def replaced(service):
    """How many workers took the place of others so far."""
    return sum(worker["generation"] - 1 for worker in bulkhead.service_status(service.target)["workers"])


@pytest.mark.parametrize("fault", ["leak", "leak_mmap"])
def test_a_leak_costs_workers_and_no_byte(service, spec_with, fault):
    # Another fault makes another pipeline, with workers of its own.
    clean = digest_of("python", spec_with({"touch": "1MiB"}, epochs=2), target=service.target)
    # A busy machine may make a stage slow, which replaces its worker; memory gives no reason to.
    status = bulkhead.service_status(service.target)
    assert [one["reason"] for one in status.get("recent_recyclings", []) if one["cause"] != "RECYCLE_CAUSE_SLOWDOWN"] == []
    assert status.get("limit_events", 0) == 0 and not status.get("recent_exits")
    leaking = digest_of("python", spec_with({fault: "1MiB"}, epochs=2), target=service.target)
    assert leaking == clean
    # 300 samples leak 300 MiB; one worker holds less than 48.
    assert replaced(service) >= 5
