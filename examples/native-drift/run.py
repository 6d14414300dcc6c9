"""Three faults of a C library beneath a Python stage, and what the trainer notices of them: nothing.

    python examples/native-drift/run.py [--records 2000] [--json FILE]

Compiles drift.c, streams drift.yaml for three epochs with a library that leaks, becomes slow and crashes, and once more with one
that does not, and compares the bytes. Prints what the service says of the workers that it replaced.

Needs the `bulkhead` package on the path, bulkheadd on the PATH or named by $BULKHEAD_SERVER, and a C compiler (cc).
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import bulkhead

HERE = pathlib.Path(__file__).resolve().parent
SERVER = os.environ.get("BULKHEAD_SERVER") or shutil.which("bulkheadd") or sys.exit("bulkheadd is not on the PATH")
OPTIONS = ["--workers", "2", "--worker-quota", "192MiB", "--recycle-slowdown", "2"]


def build(folder):
    """The stage and its library, in a folder of their own."""
    subprocess.run(["cc", "-O3", "-ffp-contract=off", "-fPIC", "-shared", HERE / "drift.c", "-o", folder / "libdrift.so", "-lm"], check=True)
    shutil.copy(HERE / "spectra.py", folder)


def start_service(folder, code, faults):
    """A bulkheadd with this interpreter for its Python stages; gives the process and where it listens."""
    ready, child_end = os.pipe()
    process = subprocess.Popen(
        [SERVER, "--listen", f"unix:{folder}/loader.sock", "--cache-dir", folder, "--python", sys.executable, "--python-path", code,
         "--worker-env", f"DRIFT_FAULTS={faults}", *OPTIONS, "--ready-fd", str(child_end), "--log-level", "err"],
        pass_fds=(child_end,),
    )  # fmt: skip
    os.close(child_end)
    with os.fdopen(ready) as said:
        words = said.readline().split()  # nothing if it ended
    if words[:1] != ["ready"]:
        sys.exit("the service did not start")
    return process, words[1]


def run(code, faults, records):
    """Three epochs, as a trainer sees them, and what the service says at their end."""
    spec = (HERE / "drift.yaml").read_text().replace("size: 2000", f"size: {records}")
    digest, indices = hashlib.sha256(), []
    replaced = {}
    with tempfile.TemporaryDirectory(prefix="drift-") as folder:
        service, target = start_service(folder, code, faults)
        try:
            began = time.monotonic()
            with bulkhead.Loader(spec, target) as loader:
                for number, batch in enumerate(loader.stream()):
                    digest.update(batch["spectra"].tobytes())
                    indices += batch["index"].tolist()
                    if number % 16 == 0:
                        replaced.update({(one["slot"], one["generation"]): one for one in loader.status()["recent_recyclings"]})
            seconds = time.monotonic() - began
            status = bulkhead.service_status(target)
        finally:
            service.terminate()
            service.wait()
    return {
        "seconds": seconds,
        "digest": digest.hexdigest(),
        "each_once": sorted(indices) == sorted(3 * list(range(records))),
        "replaced": [[one["cause"].removeprefix("RECYCLE_CAUSE_").lower(), one["reason"]] for one in replaced.values()],
        "deaths": [one["reason"] + ", at " + ", ".join(f"{at['stage']} of {at['sample']}" for at in one["activity"])
                   for one in status["recent_exits"] if one["cause"] not in ("EXIT_CAUSE_RECYCLED", "EXIT_CAUSE_TOLD")],
        # What the stage held at the end of each worker that died, and the samples that this worker had made.
        "held": [[stage["stage"], stage["live_bytes"], one["samples"]]
                 for one in status["recent_exits"] for stage in one["stages"] if stage["stage"].startswith("stages[")],
        "limit_events": status["limit_events"],
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--json", type=pathlib.Path, help="file for the same")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drift-code-") as code:
        build(pathlib.Path(code))
        faulty, sound = (run(code, faults, arguments.records) for faults in (1, 0))
    for name, one in (("with its faults", faulty), ("without them", sound)):
        causes = collections.Counter(cause for cause, _ in one["replaced"])
        said = ", ".join(f"{count} for {cause}" for cause, count in causes.items()) or "none"
        print(f"{name:16} {one['seconds']:5.1f} s, digest {one['digest'][:12]}; replaced as planned: {said}; died: {len(one['deaths'])}")
    for reason in sorted({reason for _, reason in faulty["replaced"]})[:2] + faulty["deaths"][:2]:
        print("   ", reason)
    for stage, size, samples in faulty["held"][:2]:
        print(f"    {stage} held {size / 2**20:.1f} MiB when its worker died, after {samples} samples: {size / samples / 1024:.1f} KiB of each")
    print("the bytes are equal" if faulty["digest"] == sound["digest"] else "the bytes DIFFER")
    if arguments.json:
        arguments.json.write_text(json.dumps({"faulty": faulty, "sound": sound}))


if __name__ == "__main__":
    main()
