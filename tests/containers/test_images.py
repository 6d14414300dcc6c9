"""What is in the images, and what they say about themselves."""

import json
import os
import pathlib
import stat

import pytest
from conftest import ROOT, USER, VERSION, inspected, limits, measured, podman

MAX_BYTES = {"": 120_000_000, "-python": 450_000_000}
VARIANTS = list(MAX_BYTES)


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request):
    return request.param


@pytest.fixture(scope="module")
def image(variant):
    return inspected(f"bulkhead:{VERSION}{variant}", "image")


@pytest.fixture(scope="module")
def files(image):
    yield pathlib.Path(podman("image", "mount", image["Id"]).stdout.strip())
    podman("image", "unmount", image["Id"])


def test_it_is_small(image, variant):
    measured.append(f"{image['Size'] / 1e6:.1f} MB: bulkhead:{VERSION}{variant}")
    assert image["Size"] <= MAX_BYTES[variant]


def test_no_file_of_it_gives_rights_or_can_be_changed_by_others(files):
    for folder, _, names in os.walk(files):
        for name in [".", *names]:
            path = pathlib.Path(folder) / name
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                continue
            assert not info.st_mode & (stat.S_ISUID | stat.S_ISGID), path
            assert not info.st_mode & stat.S_IWOTH or info.st_mode & stat.S_ISVTX, path
            assert info.st_uid == 0 or str(path.relative_to(files)) in ("run/bulkhead", "var/cache/bulkhead"), path


def test_it_says_what_it_is(image):
    config = image["Config"]
    assert config["User"] == f"{USER}:{USER}"
    assert config["Labels"]["org.opencontainers.image.version"] == VERSION
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert image["Healthcheck"]["Test"] == ["CMD", "/usr/local/bin/bulkhead", "health", "--timeout", "2"]


def test_only_the_larger_one_has_a_shell_and_neither_installs_packages(files, variant):
    present = {name for name in ("sh", "apt-get", "python3") if os.path.lexists(files / "usr/bin" / name)}
    assert present == ({"sh", "python3"} if variant else set())
    assert not os.path.lexists(files / "var/lib/dpkg/status")


def test_its_bill_of_materials_names_packages_linked_libraries_and_python(files, variant):
    bill = json.loads((files / "usr/share/bulkhead/sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    names = {kind: {part["name"]: part["version"] for part in bill["components"] if part["purl"].startswith(f"pkg:{kind}/")} for kind in ("deb", "pypi")}
    assert {path.name for path in (files / "var/lib/dpkg/status.d").iterdir()} <= names["deb"].keys()
    assert {"libgrpc++-dev", "libssl-dev", "libjpeg62-turbo-dev", "libexpat1-dev", "libc6"} <= names["deb"].keys()
    assert {"libcurl4", "ca-certificates"} <= names["deb"].keys()
    pinned = dict(line.split("==") for line in (ROOT / "deploy/docker/requirements.txt").read_text().splitlines() if "==" in line)
    assert pinned.items() <= names["pypi"].items() if variant else not names["pypi"]


def test_what_reads_object_stores_finds_libcurl_and_certificates(files):
    assert (files / "usr/local/bin/bulkhead-fetch").exists()
    assert (files / "usr/lib/x86_64-linux-gnu/libcurl.so.4").exists()
    assert (files / "etc/ssl/certs/ca-certificates.crt").read_text().count("-----BEGIN CERTIFICATE-----") > 50


def test_its_interpreter_has_what_stages_use(trainer_image):
    code = "import cv2, h5py, numpy, grpc; print(cv2.__version__, h5py.__version__, numpy.__version__)"
    for name in (f"bulkhead:{VERSION}-python", trainer_image):
        wanted = code if name == trainer_image else code.replace(", grpc", "")
        podman("run", "--rm", "--read-only", "--network=none", *limits(), "--entrypoint=python3", name, "-c", wanted)


def test_without_arguments_it_serves_data_where_the_commands_look(data):
    name = podman("run", "--detach", "--network=none", *limits(), f"--volume={data}:/data:ro", f"bulkhead:{VERSION}").stdout.strip()
    try:
        while podman("exec", name, "bulkhead", "health", check=False).returncode != 0:
            assert inspected(name, "container")["State"]["Running"], podman("logs", name).stderr
        said = podman("exec", name, "bulkhead", "stream", "/data/train.json", "--target", "unix:/run/bulkhead/loader.sock", "--json").stdout
        assert json.loads(said[said.index("{"):])["samples"] == 150
    finally:
        podman("rm", "--force", "--time=0", name)
