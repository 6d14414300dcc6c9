"""CPUs that this machine does not have, by qemu's user mode."""

import pytest
from conftest import BIN
from old_cpus import PROGRAMS, expect_x86_64_v2, needs_qemu


@needs_qemu
@pytest.mark.parametrize("program,words,code,said", PROGRAMS)
def test_a_cpu_that_is_too_old_gets_a_sentence(program, words, code, said):
    expect_x86_64_v2(BIN / program, words, code, said)
