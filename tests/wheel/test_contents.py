"""What is in the wheel: how large, for which C library, and what others see of it."""

import re
import subprocess

import pytest

MAX_BYTES = 12_000_000
# Of the C library, and of RHEL 9's libgcc_s, which is GCC 11's.
NEWEST = {"GLIBC": (2, 34), "GCC": (7, 0, 0)}
# Of the system. libgcc_s is part of every distribution, and an interpreter with NumPy has loaded it.
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
OWN = {"libbulkhead_worker.so", "libbulkhead_allocations.so"}
PROGRAMS = ["bin/bulkhead", "bin/bulkheadd", "bin/bulkhead-worker", "bin/bulkhead-fetch", "bin/bulkhead-receive",
            "lib/libbulkhead_worker.so", "lib/libbulkhead_allocations.so"]


def said(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_it_is_small(wheel):
    assert wheel.stat().st_size <= MAX_BYTES


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_programs_need_the_c_library_alone_and_an_old_one(environment, name):
    program = environment.programs / name
    needed = set(re.findall(r"NEEDED\s+(\S+)", said("objdump", "-p", program)))
    assert "libc.so.6" in needed
    assert needed <= SYSTEM | OWN
    symbols = said("objdump", "-T", program)
    wanted = {(library, tuple(map(int, number.split(".")))) for library, number in re.findall(r"\b(GLIBC|GCC)_([0-9.]+)", symbols)}
    assert ("GLIBC", (2, 2, 5)) in wanted, "this is not the list of what it wants"
    assert ("libgcc_s.so.1" in needed) == any(library == "GCC" for library, _ in wanted)
    assert all(version <= NEWEST[library] for library, version in wanted), wanted


def sections(program) -> set[str]:
    return set(re.findall(r"^ *\[ *\d+\] (\.\S+)", said("readelf", "--section-headers", "--wide", program), re.MULTILINE))


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_programs_are_stripped(environment, name):
    found = sections(environment.programs / name)
    assert {".text", ".dynsym"} <= found, "these are not its sections"
    assert not {section for section in found if section in (".symtab", ".strtab") or section.startswith(".debug")}


def test_it_has_no_other_programs_or_libraries(environment):
    elf = {
        str(path.relative_to(environment.programs))
        for path in environment.programs.rglob("*")
        if path.is_file() and path.open("rb").read(4) == b"\x7fELF"
    }
    assert elf == set(PROGRAMS)


def test_the_library_of_python_stages_shows_its_c_interface_alone(environment):
    symbols = said("nm", "-D", "--defined-only", environment.programs / "lib/libbulkhead_worker.so")
    assert [line.split()[-1] for line in symbols.splitlines()] == ["bulkhead_worker_confine", "bulkhead_worker_run"]


def test_the_counting_malloc_is_the_process_s(environment):
    symbols = said("nm", "-D", "--defined-only", environment.programs / "lib/libbulkhead_allocations.so")
    assert {"malloc", "free", "calloc", "realloc", "mmap"} <= {line.split()[-1] for line in symbols.splitlines()}
    # Preloaded into an interpreter, and before the C library in the worker without one.
    worker = re.findall(r"NEEDED\s+(\S+)", said("objdump", "-p", environment.programs / "bin/bulkhead-worker"))
    assert worker.index("libbulkhead_allocations.so") < worker.index("libc.so.6")


def test_pip_refuses_it_for_an_older_c_library(environment, wheel, tmp_path):
    done = environment.run(environment.program("pip"), "download", "--no-deps", "--no-index", "--only-binary", ":all:",
                           "--platform", "manylinux_2_31_x86_64", "-d", tmp_path, wheel, check=False)
    assert done.returncode != 0
    assert "is not a supported wheel on this platform" in done.stdout
