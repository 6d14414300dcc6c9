"""What the scripts of this folder share: where things are, what they run on, and a service of their own."""

import contextlib
import json
import os
import pathlib
import platform
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", ROOT / "build/release/bin"))
sys.path.insert(0, str(ROOT / "client/python"))  # the package of this tree, not an installed one
os.environ.setdefault("BULKHEAD_SERVER", str(BIN / "bulkheadd"))


def machine():
    """ "AMD EPYC, 2 CPUs": those that this process may use."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs"


def run_json(*words, programs=BIN, **environment):
    """What the `bulkhead` of `programs` prints as JSON with these words; `environment` is added to this process's."""
    command = [programs / "bulkhead", *map(str, words)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **environment})
    return json.loads(run.stdout)


def draw_photos(folder, count, *more):
    """Photos below FOLDER/folder, and records of them."""
    command = [BIN / "bulkhead", "synth", folder, "--count", str(count), *more]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def photos_of(data, home):
    """The folder `data`; without one, 300 photos that are drawn below `home`."""
    if data is None:
        data = home / "photos"
        draw_photos(data, 300, "--size", "500x375", "--seed", "1")
    return data.resolve()


def crop_spec(folder):
    """Random crops of the photos in `folder`, at any depth, in batches of 64."""
    return {
        "source": {"image_folder": {"path": str(folder), "unlabeled": True}},
        "stages": ["decode_image", {"random_resized_crop": {"size": [224, 224]}}, "random_horizontal_flip"],
        "batch": {"size": 64, "last": "drop"},
        "order": "global",
        "seed": 1,
    }


def cpu_seconds(pid):
    """User and system time of a process; 0 when it is gone."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0


def pss(pid):
    """Bytes of memory of a process, with its share of what it has in common with others; 0 when it is gone."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0


def descendants(pid):
    """The process, those that it started, and so on."""
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):  # it has just ended
            for child in (task / "children").read_text().split():
                found += descendants(int(child))
    return found


def make_cgroup(limit):
    """The folder of a new cgroup with this limit for memory; of version 1 or 2. Needs root."""
    old = pathlib.Path("/sys/fs/cgroup/memory")
    folder = (old if old.is_dir() else pathlib.Path("/sys/fs/cgroup")) / f"bulkhead-bench-{os.getpid()}"
    folder.mkdir()
    (folder / ("memory.limit_in_bytes" if old.is_dir() else "memory.max")).write_text(str(limit))
    return folder


def remove_cgroup(folder):
    for _ in range(100):  # its last processes are still being reaped
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listen_with_tls(folder):
    """The service's options, with one certificate for both sides that is its own authority; sets the client's in the
    environment."""
    pem, key = f"{folder}/own.pem", f"{folder}/own.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", pem],
        check=True, capture_output=True,
    )
    os.environ.update(BULKHEAD_TLS_CA=pem, BULKHEAD_TLS_CERT=pem, BULKHEAD_TLS_KEY=key)
    return ["--listen", "127.0.0.1:0", "--tls-cert", pem, "--tls-key", key, "--tls-client-ca", pem,
            "--allow-stream", "*", "--allow-status", "*"]


def issue_client(folder, name):
    """A certificate of another client, which the authority of listen_with_tls signed: NAME.pem and NAME.key."""
    pem, key, request = (f"{folder}/{name}.{ending}" for ending in ("pem", "key", "csr"))
    for words in (
        ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key,
         "-out", request],
        ["x509", "-req", "-in", request, "-CA", f"{folder}/own.pem", "-CAkey", f"{folder}/own.key", "-CAcreateserial",
         "-days", "2", "-out", pem],
    ):
        subprocess.run(["openssl", *words], check=True, capture_output=True)


class Service:
    """The bulkheadd of `programs`, which listens in `folder`, or where `options` say, while it is entered; `command`:
    the words before its own."""

    def __init__(self, folder, *options, programs=BIN, command=()):
        ready, child_end = os.pipe()
        listen = [] if "--listen" in options else ["--listen", f"unix:{folder}/s.sock"]
        self.process = subprocess.Popen(
            [*command, programs / "bulkheadd", *listen, *map(str, options), "--cache-dir", f"{folder}/cache", "--log-level", "err",
             "--ready-fd", str(child_end)],
            pass_fds=(child_end,),
        )
        os.close(child_end)
        with os.fdopen(ready) as said:
            words = said.readline().split()
        if words[:1] != ["ready"]:
            sys.exit("the service did not start")
        self.target = words[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Waits until it, and so its workers, ended."""
        self.process.terminate()
        self.process.wait()
