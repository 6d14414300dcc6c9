"""What pip installed works: without a PATH, with stages of one's own, beside the libraries of others."""

import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "e2e"))

from certificates import Authority  # noqa: E402
from object_server import ObjectServer  # noqa: E402
from old_cpus import OLD_CPU, PROGRAMS, expect_x86_64_v2, needs_qemu  # noqa: E402

READ = """
import bulkhead, hashlib, sys
with bulkhead.Loader(sys.argv[1], workers=1) as loader:
    digest = hashlib.sha256()
    batches = 0
    for batch in loader:
        batches += 1
        for name in sorted(batch):
            digest.update(name.encode() + batch[name].tobytes())
    print(batches, digest.hexdigest())
"""


@pytest.fixture(scope="module")
def bytes_of_photos(environment, photos):
    """How many batches, and their digest."""
    return environment.python(READ, photos / "tfrecord.yaml")


def test_a_loader_finds_the_service_without_a_path(environment):
    code = ("import bulkhead\n"
            "spec = bulkhead.Pipeline.range(10).batch(4)\n"
            "print([batch['index'].tolist() for batch in bulkhead.Loader(spec)])")
    assert environment.python(code).strip() == "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]"


def test_photos_become_the_bytes_of_an_ordinary_build(environment, photos, bytes_of_photos):
    assert int(bytes_of_photos.split()[0]) > 0
    ordinary = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", ROOT / "build/release/bin")) / "bulkheadd"
    if not ordinary.exists():
        pytest.skip(f"there is no {ordinary} to compare with")
    code = f"import os; os.environ['BULKHEAD_SERVER'] = {str(ordinary)!r}\n" + READ
    assert environment.python(code, photos / "tfrecord.yaml") == bytes_of_photos


@pytest.mark.parametrize("instructions", [
    {"BULKHEAD_SIMD": "scalar"}, {"BULKHEAD_SIMD": "avx2"}, {"JSIMD_FORCENONE": "1"}, OLD_CPU,
], ids=["scalar", "avx2", "no-simd-in-libjpeg", "old-cpu"])
def test_fewer_instructions_of_the_cpu_change_no_byte(environment, photos, bytes_of_photos, instructions):
    code = f"import os; os.environ.update({instructions!r})\n" + READ
    assert environment.python(code, photos / "tfrecord.yaml") == bytes_of_photos


@needs_qemu
@pytest.mark.parametrize("program,words,code,said", PROGRAMS)
def test_a_cpu_that_is_too_old_gets_a_sentence(environment, program, words, code, said):
    # These start bulkhead by their own name, and what they start does not run on the CPU that qemu plays.
    file = "bulkhead" if program in ("bulkheadd", "bulkhead-fetch", "bulkhead-receive") else program
    expect_x86_64_v2(environment.programs / "bin" / file, words, code, said, name=program)


def test_its_commands_are_on_the_path(environment):
    version = environment.python("import bulkhead; print(bulkhead.__version__)").strip()
    assert version in environment.run(environment.program("bulkhead"), "--version").stdout
    assert "--listen" in environment.run(environment.program("bulkheadd"), "--help").stdout


def test_the_command_starts_the_service_of_the_wheel(environment, photos):
    said = environment.run(environment.program("bulkhead"), "stream", photos / "tfrecord.yaml", "--batches", "2").stdout
    assert re.search(r"\bbatch", said)


@contextlib.contextmanager
def stored(photos, folder, tls=None):
    """The spec of the photos as TFRecords on a web server."""
    (folder / "store/photos").mkdir(parents=True)
    (file,) = photos.glob("records-*.tfrecord")
    shutil.copy(file, folder / "store/photos")
    with ObjectServer(folder / "store", signed=False, tls=tls) as server:
        text, places = re.subn(r"files: .*}", f'files: "{server.url}/photos/{file.name}"}}', (photos / "tfrecord.yaml").read_text())
        assert places == 1, text
        (folder / "stored.yaml").write_text(text)
        yield folder / "stored.yaml"


REFUSED = """
import bulkhead, os, sys
os.environ[sys.argv[2]] = sys.argv[3]
try:
    next(iter(bulkhead.Loader(sys.argv[1], workers=1)))
except bulkhead.BulkheadError as error:
    print(error.reason, error)
"""


def has_libcurl() -> bool:
    try:
        ctypes.CDLL("libcurl.so.4")
    except OSError:
        return False
    return True


needs_libcurl = pytest.mark.skipif(
    not has_libcurl(), reason="there is no libcurl.so.4, which bulkhead-fetch loads (Debian's package libcurl4)")


@needs_libcurl
def test_photos_of_a_web_server_are_those_of_the_folder(environment, photos, bytes_of_photos, tmp_path):
    with stored(photos, tmp_path) as spec:
        assert environment.python(READ, spec) == bytes_of_photos


@needs_libcurl
def test_a_web_server_is_known_by_its_certificate(environment, photos, bytes_of_photos, tmp_path):
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("server"))
    with stored(photos, tmp_path, tls) as spec:
        said = environment.python(REFUSED, spec, "AWS_CA_BUNDLE", other.pem)
        assert "the host's certificate is not trusted" in said, said
        trusting = f"import os; os.environ['AWS_CA_BUNDLE'] = {str(authority.pem)!r}\n" + READ
        assert environment.python(trusting, spec) == bytes_of_photos


def test_without_libcurl_the_error_says_what_to_install(environment, photos, tmp_path):
    # The first libraries of these names that a process finds are no libraries.
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        (tmp_path / name).write_text("nothing")
    with stored(photos, tmp_path) as spec:
        said = environment.python(REFUSED, spec, "LD_LIBRARY_PATH", tmp_path)
    assert said.startswith("PLUGIN_MISSING ") and "install Debian's package libcurl4" in said, said


def test_python_stages_run(environment, tmp_path):
    (tmp_path / "mine.py").write_text("def double(index):\n    return index * 2\n")
    code = ("import bulkhead, sys\n"
            "spec = {'source': {'range': {'size': 4}}, 'batch': {'size': 4}, 'epochs': 1, 'outputs': ['twice'],\n"
            "        'stages': [{'python': {'function': 'mine:double', 'inputs': ['index'],\n"
            "                               'outputs': [{'name': 'twice', 'dtype': 'int64'}]}}]}\n"
            "sys.path.append(sys.argv[1])\n"
            "print([batch['twice'].tolist() for batch in bulkhead.Loader(spec)])")
    assert environment.python(code, tmp_path).strip() == "[[0, 2, 4, 6]]"


def test_native_stages_run(environment, photos, tmp_path):
    # Compiled with the header of the wheel.
    library = tmp_path / "libchannel_means.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-O2", "-ffp-contract=off", f"-I{environment.programs / 'include'}",
                    ROOT / "examples/native_stage/channel_means.cc", "-o", library], check=True)
    code = ("import bulkhead, sys\n"
            "spec = {'source': {'image_folder': {'path': sys.argv[1]}}, 'batch': {'size': 4}, 'order': 'global', 'outputs': ['means'],\n"
            "        'stages': ['decode_image', {'resize': {'size': 32}},\n"
            "                   {'native': {'library': 'libchannel_means.so', 'inputs': ['image'],\n"
            "                               'outputs': [{'name': 'means', 'dtype': 'float32', 'shape': [3]}]}}]}\n"
            "with bulkhead.Loader(spec, native_path=sys.argv[2]) as loader:\n"
            "    print(loader.next_batch()['means'].min() > 0)")
    assert environment.python(code, photos / "folder", tmp_path).strip() == "True"


# What a user's interpreter may have loaded, and a call that shows it works.
OTHERS = {
    "torch": "torch.ones(2, 2).matmul(torch.ones(2, 2)).sum().item() == 8",
    "tensorflow": "tensorflow.linalg.matmul([[1.0]], [[2.0]]).numpy()[0, 0] == 2",
    "cv2": "cv2.resize(__import__('numpy').zeros((4, 4, 3), 'uint8'), (2, 2)).shape == (2, 2, 3)",
    "google.protobuf.wrappers_pb2": "google.protobuf.wrappers_pb2.Int32Value(value=3).SerializeToString() == b'\\x08\\x03'",
    "grpc": "grpc.insecure_channel('unix:/nowhere') is not None",
}


def interpreters(module):
    """Those that can import it: Debian's, and the environments of scripts/frameworks.sh."""
    candidates = ["/usr/bin/python3", *sorted(map(str, (ROOT / "build/frameworks").glob("*/bin/python")))]
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module.partition('.')[0]!r}) is None)"
    return [found for found in candidates if os.access(found, os.X_OK) and subprocess.run([found, "-c", look]).returncode == 0]


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("module", OTHERS)
def test_its_library_and_those_of_others_leave_each_other_alone(environment, module, order):
    found = interpreters(module)
    if not found:
        missing = pytest.fail if "BULKHEAD_EXTENDED" in os.environ else pytest.skip
        missing(f"no interpreter here has {module}; scripts/frameworks.sh --prepare makes some")
    load = f"import ctypes; library = ctypes.CDLL({str(environment.programs / 'lib/libbulkhead_worker.so')!r}); library.bulkhead_worker_run"
    bring = f"import {module}"
    steps = [load, bring] if order == "before" else [bring, load]
    code = "\n".join([*steps, f"assert {OTHERS[module]}", "print('both work')"])
    for interpreter in found:
        done = subprocess.run([interpreter, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0 and "both work" in done.stdout, f"{interpreter}: {done.stdout}"


def test_the_client_alone_says_what_is_missing(client_only):
    code = ("import bulkhead\n"
            "try:\n    bulkhead.Loader(bulkhead.Pipeline.range(1).batch(1))\n"
            "except bulkhead.ServiceNotFound as error:\n    print(error)")
    assert "the wheel for Linux on x86-64 brings them" in client_only.python(code)
    assert not client_only.program("bulkheadd").exists()
