"""What the built programs load: the supervisor parses no image and links no image library; only bulkhead-fetch has what object stores need."""

import os
import pathlib
import re
import subprocess

import pytest

IMAGE_LIBRARIES = re.compile(r"lib(opencv_\w+|jpeg|turbojpeg|png\d*|spng|webp\w*|tiff)\b")


def loaded_libraries(program: pathlib.Path) -> list[str]:
    """Names of the shared libraries that `program` loads, indirect ones included."""
    result = subprocess.run(["ldd", program], check=True, capture_output=True, text=True)
    return [line.split()[0] for line in result.stdout.splitlines() if line.strip()]


def image_libraries(program: pathlib.Path) -> list[str]:
    return [name for name in loaded_libraries(program) if IMAGE_LIBRARIES.match(name)]


def built(name: str) -> pathlib.Path:
    folder = os.environ.get("BULKHEAD_BIN_DIR")
    if folder is None:
        pytest.fail("BULKHEAD_BIN_DIR is not set, so no program is looked at; ctest sets it")
    return pathlib.Path(folder) / name


def test_supervisor_links_no_image_library():
    libraries = loaded_libraries(built("bulkheadd"))
    assert any(name.startswith("libgrpc") for name in libraries), "this is not the supervisor's list"
    assert image_libraries(built("bulkheadd")) == []


def test_worker_links_jpeg_but_not_the_rare_formats():
    # Proves that the test above could fail; and imgcodecs, which loads over a hundred libraries, stays a plugin.
    names = image_libraries(built("bulkhead-worker"))
    assert any(name.startswith("libjpeg") for name in names)
    assert not any(name.startswith("libopencv_imgcodecs") for name in names)


def test_fetch_links_neither_image_libraries_nor_grpc_and_loads_libcurl_by_itself():
    libraries = loaded_libraries(built("bulkhead-fetch"))
    assert any(name.startswith("libexpat") for name in libraries), "this is not the list of bulkhead-fetch"
    assert image_libraries(built("bulkhead-fetch")) == []
    # libcurl is optional: the program loads it when a source has a URL.
    assert [name for name in libraries if re.match(r"lib(grpc|curl|opencv)", name)] == []


def test_what_receives_batches_links_no_image_library():
    libraries = loaded_libraries(built("bulkhead-receive"))
    assert any(name.startswith("libgrpc") for name in libraries), "this is not the list of bulkhead-receive"
    assert image_libraries(built("bulkhead-receive")) == []


@pytest.mark.parametrize("program", ["bulkheadd", "bulkhead-worker", "bulkhead-receive", "bulkhead"])
def test_what_object_stores_need_is_in_fetch_alone(program):
    assert [name for name in loaded_libraries(built(program)) if re.match(r"lib(curl|expat)", name)] == []


def test_the_library_of_python_stages_shows_its_c_interface_alone():
    # The user's interpreter loads it beside libraries that may hold other versions of what is linked into it.
    library = built("bulkheadd").parent.parent / "lib/libbulkhead_worker.so"
    said = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    assert [line.split()[-1] for line in said.stdout.splitlines()] == ["bulkhead_worker_confine", "bulkhead_worker_run"]
