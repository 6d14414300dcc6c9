"""Older CPUs than this machine's: what the tests of the ordinary build and those of the wheel (tests/wheel) share."""

import shutil
import subprocess

import pytest

QEMU = shutil.which("qemu-x86_64")

needs_qemu = pytest.mark.skipif(QEMU is None, reason="there is no qemu-x86_64 (package qemu-user)")

# Programs with a call that ends at once: its exit code, and what it says.
PROGRAMS = [
    ("bulkhead", ["--version"], 0, "bulkhead "),
    ("bulkheadd", ["--version"], 0, "bulkheadd "),
    ("bulkhead-worker", [], 2, "started by bulkheadd, not by hand"),
    ("bulkhead-fetch", [], 2, "started by bulkheadd, not by hand"),
    ("bulkhead-receive", [], 2, "started by a trainer's client, not by hand"),
]

# What each library reads to stay away from a CPU's newer instructions: ours, libjpeg-turbo's, OpenCV's, glibc's.
OLD_CPU = {
    "BULKHEAD_SIMD": "scalar",
    "JSIMD_FORCESSE2": "1",
    "OPENCV_CPU_DISABLE": "AVX512_SKX,AVX2,FMA3,AVX,FP16",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX512VL,-AVX2_Usable,-FMA_Usable",
}


def on_cpu(model, program, *words, name=None):
    """Exit code and output of `program`, called by `name`, on a CPU that qemu's user mode plays."""
    command = [QEMU, "-cpu", model, "-0", str(name or program), program, *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result.returncode, result.stdout + result.stderr


def expect_x86_64_v2(program, words, code, said, name=None):
    """A CPU without it is refused with a sentence; the first one that has it suffices."""
    refused, text = on_cpu("core2duo", program, *words, name=name)
    assert "this CPU is too old: it has no SSE 4.2" in text, text
    assert refused == 1, text
    worked, text = on_cpu("Nehalem", program, *words, name=name)
    assert said in text, text
    assert worked == code, text
