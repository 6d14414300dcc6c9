"""CPUs that this machine does not have, by qemu's user mode."""

import shutil
import subprocess

import pytest
from conftest import BIN

QEMU = shutil.which("qemu-x86_64")


def on_cpu(model, program, *words):
    result = subprocess.run(
        [QEMU, "-cpu", model, BIN / program, *words], capture_output=True, text=True, timeout=300
    )
    return result.returncode, result.stdout + result.stderr


@pytest.mark.skipif(QEMU is None, reason="there is no qemu-x86_64 (package qemu-user)")
@pytest.mark.parametrize(
    "program,words,code,said",
    [
        ("bulkhead", ["--version"], 0, "bulkhead "),
        ("bulkheadd", ["--version"], 0, "bulkheadd "),
        ("bulkhead-worker", [], 2, "started by bulkheadd, not by hand"),
    ],
)
def test_a_cpu_that_is_too_old_gets_a_sentence(program, words, code, said):
    refused, text = on_cpu("core2duo", program, *words)
    assert "this CPU is too old: it has no SSE 4.2" in text
    assert refused == 1
    worked, text = on_cpu("Nehalem", program, *words)
    assert said in text
    assert worked == code
