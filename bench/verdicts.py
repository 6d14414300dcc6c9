#!/usr/bin/python3
"""How soon a leak is called one, by the right stage, and that nothing else is.

    bench/verdicts.py [--runs N] [--seed S] [--json]

Plants leaks of 4 KiB a sample: in a C++ stage, a Python stage, a library beneath Python, and a Python stage beside
imports of 209 MiB. A run chooses the case, the place of the leaking stage among others and the size of a batch by its
seed, and streams until the verdict is confirmed, or 60,000 samples. As many runs have stages without a leak: tables
made at import, at the first call and lazily, a cache that fills, and a buffer that empties again.

Prints the samples after which the right stage was named, unconfirmed and confirmed, and the growth that was said. Exits
with 1 if a leak was not named within 20,000 samples, not confirmed within 60,000, or a wrong stage was named.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile

from support import ROOT, Service, machine

sys.path.insert(0, str(ROOT / "client/python"))
import bulkhead  # noqa: E402

NAMED_WITHIN, CONFIRMED_WITHIN = 20_000, 60_000
LEAKED_BYTES = 4096
MIB = 1 << 20

# Modules of stages. The first has no memory of its own, the others hold theirs from the import on.
SMALL = """
import collections, ctypes, os
kept = []
def same(index): return index
def keeps(index):
    kept.append(os.urandom(16) * 255)
    return index
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def library_keeps(index):
    ctypes.memset(libc.malloc(4096 - 32), 1, 4096 - 32)
    return index
def table_at_first_call(index):
    if not kept: kept.append(bytearray(b"1") * (200 << 20))
    return index
def table_made_lazily(index):
    if len(kept) < 3000: kept.append(bytearray(b"1") * (100 << 10))
    return index
cache = collections.OrderedDict()
def cache_that_fills(index):
    cache[int(index) * 7919 % 4001 % 2000] = bytes(os.urandom(16)) * 4096
    return index
def buffer_that_empties(index):
    kept.append(bytearray(b"1") * (200 << 10))
    if len(kept) == 1000: kept.clear()
    return index
"""
LARGE = SMALL + "\nIMPORTED = bytearray(b'1') * (209 << 20)\n"

# Case: module and function, or the fault of a C++ stage.
LEAKS = {
    "C++ stage": {"fault": {"leak": "4KiB"}},
    "Python stage": "small:keeps",
    "library beneath Python": "small:library_keeps",
    "Python stage beside imports of 209 MiB": "large:keeps",
}
CLEAN = ["large:same", "small:table_at_first_call", "small:table_made_lazily", "small:cache_that_fills",
         "small:buffer_that_empties"]


def python_stage(function):
    number = [{"name": "index", "dtype": "int64"}]
    return {"python": {"function": function, "inputs": ["index"], "outputs": number}}


def stage_of(case):
    return python_stage(case) if isinstance(case, str) else case


def run(case, chance, leaks):
    """What was said of a stream with that stage."""
    others = [python_stage("small:same") for _ in range(chance.randrange(1, 3))]
    place = chance.randrange(len(others) + 1)
    stages = [*others[:place], stage_of(case), *others[place:]]
    [kind] = stages[place]
    batch = chance.choice([50, 100, 200])
    spec = {"source": {"range": {"size": 1_000_000}}, "stages": stages, "batch": {"size": batch}}
    found = {"stage": f"stages[{place}] {kind}", "wrong": [], "named": None, "confirmed": None}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("small", SMALL), ("large", LARGE)):
            pathlib.Path(folder, f"{name}.py").write_text(text)
        service = Service(folder, "--workers", 1, "--allow-fault-stages", "--python", sys.executable, "--python-path",
                          folder)
        try:
            with bulkhead.Loader(spec, service.target) as loader:
                samples = 0
                for _batch in loader.stream():
                    samples += batch
                    if samples % 1000:
                        continue
                    [verdict] = loader.status()["verdicts"]
                    if verdict["kind"] in ("VERDICT_KIND_LEAK", "VERDICT_KIND_RETENTION"):
                        if not leaks or verdict["stage"] != found["stage"]:
                            found["wrong"].append(verdict["text"])
                        found["named"] = found["named"] or samples
                        found["bytes"], found["bound"] = verdict["bytes_per_sample"], verdict["bound_bytes"]
                        if verdict["confirmed"]:
                            found["confirmed"] = samples
                            break
                    if samples >= CONFIRMED_WITHIN:
                        break
                causes = [one["cause"] for one in loader.status()["recent_recyclings"]]
        finally:
            service.stop()
    if not leaks:
        found["wrong"] += [cause for cause in causes if cause != "RECYCLE_CAUSE_SLOWDOWN"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30, help="with a leak; as many are without")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    failed = False
    for number in range(options.runs):
        chance = random.Random(options.seed + number)
        leak = list(LEAKS)[number % len(LEAKS)]
        found = run(LEAKS[leak], chance, leaks=True)
        results.setdefault(leak, []).append(found)
        late = (found["named"] or CONFIRMED_WITHIN) > NAMED_WITHIN or found["confirmed"] is None
        failed = failed or late or bool(found["wrong"])
        case = CLEAN[number % len(CLEAN)]
        found = run(case, chance, leaks=False)
        results.setdefault(case, []).append(found)
        failed = failed or bool(found["wrong"])
        print(f"{2 * number + 2} of {2 * options.runs} runs", file=sys.stderr)
    if options.json:
        print(json.dumps({"machine": machine(), "runs": results}))
        return failed
    print(f"{machine()}; leaks of {LEAKED_BYTES} bytes a sample")
    for case, runs in results.items():
        wrong = [text for found in runs for text in found["wrong"]]
        named = [found["named"] for found in runs if found["named"]]
        confirmed = [found["confirmed"] for found in runs if found["confirmed"]]
        line = f"{case}: {len(runs)} runs, {len(named)} named, {len(confirmed)} confirmed, {len(wrong)} wrong"
        if confirmed:
            growth = statistics.median(found["bytes"] for found in runs if "bytes" in found)
            line += f"; at most after {max(named)} and {max(confirmed)} samples; median growth {growth:.0f} bytes"
        print(line, *wrong, sep="\n  ")
    return failed


if __name__ == "__main__":
    sys.exit(main())
