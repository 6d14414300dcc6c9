#!/usr/bin/python3
"""How soon a leak is called one, by the right stage, and that nothing else is.

    bench/verdicts.py [--leaks 30] [--sound 60] [--seed S] [--json]

Plants leaks of 4 KiB a sample: in a C++ stage, a Python stage, a library beneath Python, and a Python stage beside
imports of 209 MiB. A run chooses the case, the place of the leaking stage among others and the size of a batch by its
seed, and streams until the verdict is confirmed, or 60,000 samples. The other runs have stages whose memory levels off
within 5,000 samples, at 10 to 90 % of the quota with all that the worker holds: a table made at import, at the first
call or over 1,000 calls, a cache that fills, a heap that keeps what it needed once, and a buffer that empties again.

Prints the samples after which the right stage was named, unconfirmed and confirmed, and the growth that was said. Exits
with 1 if a leak was not named within 20,000 samples, not confirmed within 60,000, a wrong stage was named, or a worker
without a leak was replaced for its memory.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile

from support import Service, machine

import bulkhead

NAMED_WITHIN, CONFIRMED_WITHIN = 20_000, 60_000
LEAKED_BYTES = 4096
MIB = 1 << 20

QUOTA = 512 * MIB
PYTHON_BYTES = 26 * MIB  # what a worker holds of its own

# Modules of stages. The first has no memory of its own; the second holds 209 MiB from its import on.
SMALL = """
import ctypes, os
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
"""
LARGE = SMALL + "\nIMPORTED = bytearray(b'1') * (209 << 20)\n"
# The third holds up to SIZE bytes.
SOUND = """
import collections, os
kept = []
calls = 0
cache = collections.OrderedDict()
def table_at_import(index): return index
def table_at_first_call(index):
    if not kept: kept.append(bytearray(b"1") * SIZE)
    return index
def table_over_1000_calls(index):
    if len(kept) < 1000: kept.append(bytearray(b"1") * (SIZE // 1000))
    return index
def cache_that_fills(index):
    if index % 6000 not in cache:
        cache[index % 6000] = bytes(os.urandom(16)) * (SIZE // 3000 // 16)
        if len(cache) > 3000: cache.popitem(last=False)
    return index
def heap_that_keeps_its_peak(index):
    global calls
    calls += 1
    if calls <= 4000 and calls % 200 == 0:
        blocks = [os.urandom(16) * 250 for _ in range(SIZE // 4096 * calls // 4000)]
        kept.append(blocks[-1])
    return index
def buffer_that_empties(index):
    kept.append(bytearray(b"1") * (SIZE // 1000))
    if len(kept) == 1000: kept.clear()
    return index
"""

# Case: module and function, or the fault of a C++ stage.
LEAKS = {
    "C++ stage": {"fault": {"leak": "4KiB"}},
    "Python stage": "small:keeps",
    "library beneath Python": "small:library_keeps",
    "Python stage beside imports of 209 MiB": "large:keeps",
}
SOUND_FUNCTIONS = ["table_at_import", "table_at_first_call", "table_over_1000_calls", "cache_that_fills",
                   "heap_that_keeps_its_peak", "buffer_that_empties"]


def python_stage(function):
    number = [{"name": "index", "dtype": "int64"}]
    return {"python": {"function": function, "inputs": ["index"], "outputs": number}}


def stage_of(case):
    return python_stage(case) if isinstance(case, str) else case


def sound_module(function, share):
    """The text of SOUND whose `function` brings a worker to that share of its quota."""
    text = f"SIZE = {max(MIB, int(share * QUOTA) - PYTHON_BYTES)}\n" + SOUND
    return text + ("kept.append(bytearray(b'1') * SIZE)\n" if function == "table_at_import" else "")


def run(case, chance, leaks, sound=""):
    """What was said of a stream with that stage. `sound`: the module of that name."""
    others = [python_stage("small:same") for _ in range(chance.randrange(1, 3))]
    place = chance.randrange(len(others) + 1)
    stages = [*others[:place], stage_of(case), *others[place:]]
    [kind] = stages[place]
    batch = chance.choice([50, 100, 200])
    spec = {"source": {"range": {"size": 1_000_000}}, "stages": stages, "batch": {"size": batch}}
    found = {"stage": f"stages[{place}] {kind}", "wrong": [], "named": None, "confirmed": None}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("small", SMALL), ("large", LARGE), ("sound", sound)):
            pathlib.Path(folder, f"{name}.py").write_text(text)
        with Service(folder, "--workers", 1, "--worker-quota", f"{QUOTA // MIB}MiB", "--allow-fault-stages", "--python",
                     sys.executable, "--python-path", folder) as service:
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
                status = loader.status()
                causes = [one["cause"] for one in status["recent_recyclings"]]
                found["peak"] = max(worker["usage"]["peak_memory_bytes"] for worker in status["workers"])
    if not leaks:
        found["wrong"] += [cause for cause in causes if cause != "RECYCLE_CAUSE_SLOWDOWN"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaks", type=int, default=30, help="runs with a leak")
    parser.add_argument("--sound", type=int, default=60, help="runs without")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    failed = False
    for number in range(options.leaks + options.sound):
        chance = random.Random(options.seed + number)
        leaks = number < options.leaks
        if leaks:
            name = list(LEAKS)[number % len(LEAKS)]
            found = run(LEAKS[name], chance, leaks)
            late = (found["named"] or CONFIRMED_WITHIN) > NAMED_WITHIN or found["confirmed"] is None
            failed = failed or late
        else:
            turn, function = divmod(number - options.leaks, len(SOUND_FUNCTIONS))
            name = SOUND_FUNCTIONS[function]
            share = 0.1 + 0.8 * turn / max(1, (options.sound - 1) // len(SOUND_FUNCTIONS))
            found = run(f"sound:{name}", chance, leaks, sound_module(name, share))
            found["peak"] /= QUOTA
        results.setdefault(name, []).append(found)
        failed = failed or bool(found["wrong"])
        print(f"{number + 1} of {options.leaks + options.sound} runs", file=sys.stderr)
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
        if case in SOUND_FUNCTIONS:
            peaks = [found["peak"] for found in runs]
            line += f"; {100 * min(peaks):.0f} to {100 * max(peaks):.0f} % of the quota"
        print(line, *wrong, sep="\n  ")
    return failed


if __name__ == "__main__":
    sys.exit(main())
