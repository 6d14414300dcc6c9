"""The image's Dockerfile, without Docker: are the packages that it installs the ones that the programs need?"""

import functools
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("BULKHEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("BULKHEAD_BUILD_DIR", ROOT / "build/release"))
DOCKERFILE = ROOT / "deploy/docker/Dockerfile"
# In every Debian system: the C and C++ run-time libraries.
BASE = {"libc6", "libgcc-s1", "libstdc++6"}


def stages():
    """The Dockerfile's stages, each as a list of [instruction, argument], lines joined and comments left out."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = []
    for line in filter(str.strip, text.splitlines()):
        instruction, _, argument = line.partition(" ")
        if instruction == "FROM":
            found.append([])
        found[-1].append([instruction, " ".join(argument.split())])
    return found


def argument_of(stage, instruction):
    return [argument for name, argument in stage if name == instruction]


def runtime_packages():
    """What the last stage installs."""
    (run,) = argument_of(stages()[-1], "RUN")
    install = next(part for part in run.split("&&") if "apt-get install" in part)
    return [word for word in install.split()[2:] if not word.startswith("-")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What the image gets of the build."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(
        ["cmake", "--install", BUILD, "--component", "runtime", "--strip", "--prefix", prefix],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return prefix


@functools.cache
def files_of_packages():
    """File → Debian package, of all that is installed below a lib folder."""
    found = {}
    for listing in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
        package = listing.name.removesuffix(".list").partition(":")[0]
        for line in listing.read_text().splitlines():
            if "/lib" in line:
                found[line.removeprefix("/usr")] = package
    return found


def package_of(library: str) -> str:
    """The Debian package of a library's path, by the name that is installed or by the one behind its links."""
    for name in (library, os.path.realpath(library)):
        package = files_of_packages().get(name.removeprefix("/usr"))
        if package is not None:
            return package
    raise AssertionError(f"no package has {library}")


def loaded(program):
    """Library name → path, of all that `program` loads."""
    text = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    assert "not found" not in text, text
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", text, re.MULTILINE))


def needed(program):
    """Names of the libraries that `program` itself asks for."""
    text = subprocess.run(["objdump", "-p", program], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"NEEDED\s+(\S+)", text))


def dependencies_of(packages):
    """`packages` and all that they depend on, as the installed ones say it."""
    text = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\t${Pre-Depends}, ${Depends}\n"], check=True, capture_output=True, text=True
    ).stdout
    depends = dict(line.split("\t") for line in text.splitlines())
    known, waiting = set(), set(packages)
    while waiting:
        package = waiting.pop()
        known.add(package)
        names = {re.split(r"[ :(]", name.strip())[0] for name in re.split(r"[,|]", depends.get(package, ""))}
        waiting |= names - known - {""}
    return known


def test_the_programs_are_what_is_installed(installed):
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert files == {"bin/bulkheadd", "bin/bulkhead-worker", "bin/bulkhead"}


def test_the_image_installs_the_libraries_that_the_programs_name_and_no_others(installed):
    packages = set()
    for program in (installed / "bin").iterdir():
        paths = loaded(program)
        packages |= {package_of(paths[name]) for name in needed(program) if name in paths}
    assert sorted(packages - BASE) == runtime_packages()


def test_all_other_libraries_come_with_those(installed):
    known = dependencies_of({*runtime_packages(), *BASE})
    for program in (installed / "bin").iterdir():
        for path in loaded(program).values():
            assert package_of(path) in known, path


def test_installed_programs_run_where_they_are_put(installed):
    for name in ("bulkheadd", "bulkhead"):
        said = subprocess.run([installed / "bin" / name, "--version"], check=True, capture_output=True, text=True)
        assert re.search(r"\d+\.\d+\.\d+", said.stdout)


def test_nothing_of_the_build_folder_is_left_in_the_programs(installed):
    for program in (installed / "bin").iterdir():
        headers = subprocess.run(["objdump", "-p", program], check=True, capture_output=True, text=True).stdout
        assert not re.search(r"RUNPATH|RPATH", headers), program


def test_the_image_runs_as_an_unprivileged_user():
    (user,) = argument_of(stages()[-1], "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_the_image_is_debian_12_and_built_by_the_scripts():
    build, runtime = stages()
    assert argument_of(build, "FROM") == ["debian:12-slim AS build"]
    assert argument_of(runtime, "FROM") == ["debian:12-slim"]
    # Everything that is copied or run from this repository is there.
    for argument in argument_of(build, "RUN") + argument_of(build, "COPY"):
        for path in re.findall(r"(?:/bulkhead/|^)(scripts/\S+)", argument):
            assert (ROOT / path).exists(), path
    assert not any(name == "ADD" for name, _ in build + runtime)
