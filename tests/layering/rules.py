"""Which folder may include what. docs/architecture.md draws the same picture.

A *room* is a folder of the tree: `server/spec`, `client/cpp`, `tools`. Two kinds of rule are checked: which rooms a
room may include, and which rooms may see a third-party or system header at all.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

# Rooms that a room may include, besides itself. Everything below a room in the picture is listed: a room may reach
# down past its neighbour, never up or across.
ROOMS = {
    "server/base": set(),
    "server/os": {"server/base"},
    "server/cache": {"server/base", "server/os"},
    "server/spec": {"server/base"},
    "server/sampler": {"server/base"},
    "server/image": {"server/base"},
    "server/source": {"server/base", "server/spec"},
    "server/pipeline": {"server/base", "server/spec", "server/sampler", "server/source", "server/image"},
    "server/arena": {"server/base", "server/os"},
    # What a spec reads: files, their names, indexes and selections. Reads names and headers, never contents.
    "server/data": {"server/base", "server/os", "server/arena", "server/spec", "server/sampler"},
    # Makes metrics of a GetStatusResponse: it sees the message, never those who fill it in.
    "server/metrics": {"server/base"},
    "server/supervisor": {"server/base", "server/os", "server/cache", "server/arena"},
    "server/worker": {
        "server/base",
        "server/os",
        "server/cache",
        "server/arena",
        "server/spec",
        "server/sampler",
        "server/source",
        "server/image",
        "server/pipeline",
    },
    "server/service": {
        "server/base",
        "server/os",
        "server/arena",
        "server/data",
        "server/spec",
        "server/sampler",
        "server/supervisor",
    },
    "server/app": {
        "server/base",
        "server/os",
        "server/arena",
        "server/data",
        "server/spec",
        "server/sampler",
        "server/metrics",
        "server/supervisor",
        "server/service",
        "server/worker",
    },
    # A trainer's library stands alone: nothing of the service is linked into a trainer.
    "client/cpp": set(),
    "client/conformance": {"client/cpp", "server/base"},
    "tools": {
        "server/base",
        "server/data",
        "server/os",
        "server/spec",
        "server/sampler",
        "server/source",
        "server/image",
        "server/pipeline",
        "client/cpp",
    },
}

# Of some rooms only these headers may be included, by these rooms.
ONLY_HEADERS = {
    ("server/source", "server/spec"): {"server/spec/signature.h", "server/spec/source_signature.h"},
}


@dataclasses.dataclass(frozen=True)
class Guarded:
    """Headers that only some rooms may include."""

    pattern: str
    rooms: frozenset[str]
    why: str


def _guarded(pattern: str, rooms: set[str], why: str) -> Guarded:
    return Guarded(pattern, frozenset(rooms), why)


GUARDED = [
    _guarded(r"opencv2/.*", {"server/image"}, "OpenCV shows in server/image only"),
    _guarded(
        r"(jpeglib|jerror|jmorecfg|jpegint|turbojpeg|spng|tiffio)\.h|webp/.*",
        {"server/image"},
        "codec libraries show in server/image only",
    ),
    _guarded(r"isa-l(/.*|\.h)|isa-l_crypto.*", {"server/base"}, "ISA-L shows in server/base only"),
    _guarded(
        r"openssl/.*",
        {"server/base", "client/conformance"},  # that program stands alone, and hashes
        "OpenSSL shows in server/base only",
    ),
    # Compressed records; and the checksums of compressed TIFFs, which libtiff does not look at.
    _guarded(r"zlib\.h", {"server/source", "server/image"}, "zlib shows in server/source and server/image only"),
    _guarded(r"yaml-cpp/.*", {"server/spec"}, "yaml-cpp shows in server/spec only"),
    _guarded(r"CLI/.*", {"server/app", "tools"}, "CLI11 is for mains and tools"),
    _guarded(
        r"grpcpp/.*|grpc/.*|.*\.grpc\.pb\.h",
        {"server/service", "server/app", "client/cpp"},
        "gRPC shows in the service, its main and the client only",
    ),
    _guarded(
        r"prometheus/.*|civetweb\.h|CivetServer\.h",
        {"server/metrics"},
        "prometheus-cpp and CivetWeb show in server/metrics only",
    ),
    # Pure code has no use for it; elsewhere it is for getpid, _exit and the like.
    _guarded(
        r"unistd\.h",
        {room for room in ROOMS if room not in {"server/base", "server/spec", "server/sampler", "server/pipeline"}},
        "this room is pure code: system calls belong in server/os",
    ),
    # Files are read with these; a source maps them.
    _guarded(
        r"fcntl\.h|sys/(stat|mman|types|uio)\.h",
        {"server/os", "server/app", "server/source", "client/cpp", "tools"},
        "system calls belong in server/os",
    ),
    # The client stands alone and spawns a service of its own; the tools measure processes.
    _guarded(
        r"(?!sys/(stat|mman|types|uio)\.h$)(sys/.*|linux/.*|netinet/.*|poll\.h|sched\.h|spawn\.h|seccomp\.h)",
        {"server/os", "server/app", "client/cpp", "tools"},
        "system calls belong in server/os",
    ),
]

# Single files that stand for code which no room holds.
EXCEPTIONS = {
    # openat2 has no function in the C library; a source opens its files itself.
    ("server/source/roots.cc", "linux/openat2.h"),
    ("server/source/roots.cc", "sys/syscall.h"),
    # Whether a file system's inode numbers last, asked when one differs.
    ("server/source/file.cc", "linux/magic.h"),
    ("server/source/file.cc", "sys/vfs.h"),
    # A fault stage misbehaves as a foreign library would, system calls included.
    ("server/pipeline/fault_stage.cc", "sys/mman.h"),
    # The worker's malloc and mmap: whatever a library asks of the system goes through here.
    ("server/worker/allocation_tracker.cc", "sys/mman.h"),
    ("server/worker/allocation_tracker.cc", "sys/syscall.h"),
}

# A wait that goes by the wall clock lasts until somebody sets that right again.
_WALL_CLOCK_WAIT = re.compile(
    r"absl::Now\(\)\s*[-+<>]|[-+<>]=?\s*absl::Now\(\)|\b(Await|Wait|WaitForNotification)With(Timeout|Deadline)\b"
)
# gRPC asks for a point of the wall clock, which it turns into a while at once; the times of files are by that clock.
_MAY_WAIT = {"server/service/loader_server.cc", "server/data/index_folder.cc"}

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
_ROOTS = ("server", "client", "tools")
_ENDINGS = {".h", ".cc", ".c", ".hpp", ".cpp"}


def room_of(path: str) -> str | None:
    """The room of a repository-relative path; None for anything that is in no room (generated code, libraries)."""
    parts = path.split("/")
    if parts[0] == "tools":
        return "tools"
    if parts[0] in ("server", "client") and len(parts) > 2:
        return "/".join(parts[:2])
    return None


def _check_include(path: str, room: str, header: str) -> str | None:
    target = room_of(header)
    if target is not None and target != room:
        if target not in ROOMS[room]:
            return f"{room} may not include {target} ({header})"
        only = ONLY_HEADERS.get((room, target))
        if only is not None and header not in only:
            return f"{room} may include only {', '.join(sorted(only))} of {target}, not {header}"
    if (path, header) in EXCEPTIONS:
        return None
    for rule in GUARDED:
        if re.fullmatch(rule.pattern, header) and room not in rule.rooms:
            return f"{room} includes {header}: {rule.why}"
    return None


def violations(root: pathlib.Path) -> list[str]:
    """Every broken rule below `root`, as `file:line: what is wrong`."""
    found = []
    for path in sorted(p for top in _ROOTS for p in (root / top).rglob("*") if p.suffix in _ENDINGS):
        relative = path.relative_to(root).as_posix()
        room = room_of(relative)
        if room not in ROOMS:
            found.append(f"{relative}:1: {room or path.parent.name} is no room of the picture; add it to rules.py")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            match = _INCLUDE.match(line)
            message = match and _check_include(relative, room, match.group(2))
            if message:
                found.append(f"{relative}:{number}: {message}")
            if room.startswith("server/") and relative not in _MAY_WAIT and _WALL_CLOCK_WAIT.search(line):
                found.append(f"{relative}:{number}: waits go by CLOCK_MONOTONIC: server/os/monotonic_wait.h")
    return found
