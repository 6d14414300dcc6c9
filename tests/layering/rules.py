"""Which folder may include what. docs/architecture.md draws the same picture.

A *room* is a folder of the tree: `server/spec`, `client/cpp`, `tools`. Of server/stages one room is what declares
stages, `server/stages/declare`: the folder `declaration` and each family's declare.h and declare.cc. Three kinds of rule
are checked: which rooms a room may include, which of its folders the others, and which rooms may see a third-party or
system header at all. The Python client is a room of its own kind: its folders import each other.
"""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import re

# Rooms that a room may include, besides itself. Everything below a room in the picture is listed: a room may reach
# down past its neighbour, never up or across.
ROOMS = {
    "server/base": set(),
    "server/os": {"server/base"},
    "server/objects": {"server/base", "server/os"},
    "server/cache": {"server/base", "server/os"},
    # What of an object lies on this host: bulkhead-fetch writes it, sources read it.
    "server/blocks": {"server/base", "server/os"},
    # The process that reads object stores; no image code, no user code, no gRPC.
    "server/fetch": {"server/base", "server/os", "server/arena", "server/blocks", "server/objects"},
    # What a spec must know of its stages: no image code.
    "server/stages/declare": {"server/base"},
    "server/spec": {"server/base", "server/stages/declare"},
    "server/sampler": {"server/base"},
    "server/image": {"server/base"},
    "server/source": {"server/base", "server/os", "server/blocks", "server/spec"},
    # What stages do to pixels and numbers: workers' code.
    "server/stages/run": {"server/base", "server/stages/declare", "server/spec", "server/image"},
    "server/pipeline": {
        "server/base",
        "server/stages/declare",
        "server/spec",
        "server/sampler",
        "server/source",
        "server/image",
        "server/stages/run",
    },
    "server/arena": {"server/base", "server/os"},
    # The sockets that clients come through, and the slots that they hold.
    "server/doors": {"server/base", "server/os", "server/arena"},
    # The process that a trainer's client starts for a service on another host: a client of that one, with a door.
    "server/receiver": {"server/base", "server/os", "server/arena", "server/doors", "server/service", "client/cpp"},
    # What a spec reads: files, their names, indexes and selections. Reads names and headers, never contents.
    "server/data": {"server/base", "server/os", "server/arena", "server/blocks", "server/spec", "server/sampler"},
    # Makes metrics of a GetStatusResponse: it sees the message, never those who fill it in.
    "server/metrics": {"server/base", "server/os"},
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
        "server/stages/run",
        "server/pipeline",
    },
    "server/service": {
        "server/base",
        "server/os",
        "server/arena",
        "server/doors",
        "server/data",
        "server/stages/declare",
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
        "server/doors",
        "server/service",
        "server/receiver",
        "server/worker",
        "server/fetch",
    },
    # A trainer's library stands alone: nothing of the service is linked into a trainer.
    "client/cpp": set(),
    "client/conformance": {"client/cpp", "server/base"},
    "tools": {
        "server/base",
        "server/stages/declare",
        "server/data",
        "server/os",
        "server/spec",
        "server/sampler",
        "server/source",
        "server/image",
        "server/stages/run",
        "server/pipeline",
        "server/arena",
        "server/worker",
        "server/supervisor",
        "server/blocks",
        "server/fetch",
        "client/cpp",
    },
}

# Folders of the tools that a folder of the tools may include, besides itself and tools/common. That one includes none
# of them: what many commands share knows no command.
TOOLS = {
    "common": set(),
    "completion": set(),
    "cursor": set(),
    "health": set(),
    # A spec's data and pipeline in the tool's own process.
    "local": set(),
    "synth": set(),
    "quarantine": set(),
    "recycle": set(),
    "status": set(),
    "trace": set(),
    "tuning": set(),
    "index": {"local"},
    "measure": {"local"},
    "order": {"local"},
    "validate": {"local", "purity"},
    "scan": {"local"},
    "pack": {"inspect", "local", "synth"},
    "replay": {"cursor"},
    "preview": {"cursor", "local"},
    "purity": {"local"},
    "doctor": {"local", "measure", "synth"},
    "explain": {"local", "measure"},
    "inspect": {"local"},
    "stream": {"inspect", "local", "measure"},
    "top": {"status"},
}

# Likewise the folders of the C++ client; here base is the shared one.
CLIENT = {
    "base": set(),
    "rpc": set(),
    "spec": set(),
    "arena": set(),
    "batch": {"arena", "rpc"},
    "service": {"rpc"},
    "stream": {"arena", "batch", "rpc", "service"},
    "fleet": {"batch", "rpc", "service", "stream"},
}

# Likewise those of the supervisor; none is shared.
SUPERVISOR = {
    "memory": set(),
    "verdict": set(),
    "trace": set(),
    "tuning": set(),
    "worker": {"trace"},
    "leases": {"memory", "trace"},
    "share": {"memory", "leases"},
    "pool": {"memory", "verdict", "trace", "tuning", "worker", "leases", "share"},
}

# Where the folders lie, what they are, and the one that all of them may include.
FOLDERS = {
    "tools": (TOOLS, "common"),
    "client/cpp/internal": (CLIENT, "base"),
    "server/supervisor": (SUPERVISOR, None),
}

# What a folder of the Python package may import of the package, besides itself. A module beside the folders may import
# them all.
PACKAGE = "client/python/bulkhead"
_PYTHON_BASE = {"errors", "_words", "_boundary", "_rpc"}
PYTHON = {
    "_rpc": {"errors"},
    "_display": {"_words", "_loader"},  # the type of a Loader, which imports this room
    "_spec": {*_PYTHON_BASE, "_display"},
    "_arena": {*_PYTHON_BASE},
    "_batch": {*_PYTHON_BASE, "_display"},
    "_service": {*_PYTHON_BASE},
    "_stream": {*_PYTHON_BASE, "_arena", "_batch", "_service"},
    "_fleet": {*_PYTHON_BASE, "_arena", "_batch", "_service", "_stream"},
    "_dataset": {*_PYTHON_BASE, "_service", "_spec", "_loader"},
    "_adapters": {*_PYTHON_BASE, "_dataset", "_arena", "_batch", "_display", "_loader", "_loader_arguments", "_stats", "_stream"},
    "_trial": {*_PYTHON_BASE, "_display", "_spec", "_loader"},
    "_ray": {*_PYTHON_BASE, "_service", "_spec"},
}

# Of some rooms only these headers may be included, by these rooms.
ONLY_HEADERS = {
    # The receiver calls a service as clients do; what becomes of batches is its own.
    ("server/receiver", "client/cpp"): {
        "client/cpp/internal/rpc/channel.h",
        "client/cpp/internal/rpc/wire.h",
    },
    # It reports errors as a service does.
    ("server/receiver", "server/service"): {"server/service/rpc_error.h"},
    # It opens files itself, and closes them as all rooms do.
    ("server/source", "server/os"): {"server/os/files/fd.h", "server/os/files/read_ahead.h"},
    ("server/source", "server/spec"): {
        "server/spec/image_lists.h",
        "server/spec/record_files.h",
        "server/spec/signature.h",
        "server/spec/source_signature.h",
        "server/spec/tar_features.h",
    },
    # Processes of the tools that run user code enter a worker's sandbox, and report errors as a worker does.
    ("tools", "server/worker"): {"server/worker/worker_sandbox.h"},
    ("tools", "server/arena"): {"server/arena/worker_error.h"},
    # `explain` counts what bulkhead-fetch would read; `pack` packs the objects of a table.
    ("tools", "server/blocks"): {"server/blocks/object_blocks.h", "server/blocks/object_table.h"},
    ("tools", "server/fetch"): {"server/fetch/block_fetcher.h"},
    # `doctor` judges growth by the service's rules.
    ("tools", "server/supervisor"): {
        "server/supervisor/verdict/growth_curve.h",
        "server/supervisor/verdict/growth_kind.h",
    },
}


# Rooms without system calls.
PURE_ROOMS = {
    "server/base",
    "server/stages/declare",
    "server/stages/run",
    "server/spec",
    "server/sampler",
    "server/pipeline",
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
        {"server/base", "client/cpp", "client/conformance"},  # the clients stand alone, and hash
        "OpenSSL shows in server/base and the clients only",
    ),
    # Compressed records; and the checksums of compressed TIFFs, which libtiff does not look at.
    _guarded(r"zlib\.h", {"server/source", "server/image"}, "zlib shows in server/source and server/image only"),
    _guarded(r"curl/.*|expat\.h", {"server/objects"}, "libcurl and libexpat show in server/objects only"),
    _guarded(r"yaml-cpp/.*", {"server/spec"}, "yaml-cpp shows in server/spec only"),
    _guarded(r"CLI/.*", {"server/app"}, "CLI11 is for the service's main; tools/common/options.h for the tools"),
    _guarded(
        r"grpcpp/.*|grpc/.*|.*\.grpc\.pb\.h",
        {"server/service", "server/receiver", "server/app", "client/cpp"},
        "gRPC shows in the service, the receiver, their mains and the client only",
    ),
    _guarded(
        r"prometheus/.*",
        {"server/metrics"},
        "prometheus-cpp shows in server/metrics only",
    ),
    # Pure code has no use for it; elsewhere it is for getpid, _exit and the like.
    _guarded(
        r"unistd\.h",
        ROOMS.keys() - PURE_ROOMS,
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
    ("server/stages/fault/run.cc", "sys/mman.h"),
    # The worker's malloc and mmap: whatever a library asks of the system goes through here.
    ("server/worker/allocation_tracker.cc", "sys/mman.h"),
    ("server/worker/allocation_tracker.cc", "sys/syscall.h"),
}

# A wait that goes by the wall clock lasts until somebody sets that right again.
_WALL_CLOCK_WAIT = re.compile(
    r"absl::Now\(\)\s*[-+<>]|[-+<>]=?\s*absl::Now\(\)|\b(Await|Wait|WaitForNotification)With(Timeout|Deadline)\b"
)
# The times of files are by that clock.
_MAY_WAIT = {"server/data/index_folder.cc"}
# What a tool measures or waits for, it keeps in variables; a name that nobody else has is no time.
_TOOLS_WALL_CLOCK = re.compile(r"(?<!ToUnixNanos\()absl::Now\(\)|" + _WALL_CLOCK_WAIT.pattern)

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
_ROOTS = ("server", "client", "tools")
_ENDINGS = {".h", ".cc", ".c", ".hpp", ".cpp"}


def room_of(path: str) -> str | None:
    """The room of a repository-relative path; None for anything that is in no room (generated code, libraries)."""
    parts = path.split("/")
    if parts[0] == "tools":
        return "tools"
    if parts[:2] == ["server", "stages"] and len(parts) == 4:
        declares = parts[2] == "declaration" or parts[3].startswith("declare.")
        return "server/stages/declare" if declares else "server/stages/run"
    if parts[0] in ("server", "client") and len(parts) > 2:
        return "/".join(parts[:2])
    return None


def _check_folders(path: str, header: str) -> str | None:
    """The inner order of a room; what lies beside its folders knows them all."""
    for top, (folders, shared) in FOLDERS.items():
        if not path.startswith(f"{top}/") or not header.startswith(f"{top}/"):
            continue
        here, there = path[len(top) + 1 :].split("/")[:-1], header[len(top) + 1 :].split("/")[:-1]
        if not here or here == there or there == [shared]:
            continue
        if here[0] not in folders:
            return f"{top}/{here[0]} is no folder of the picture; add it to rules.py"
        if not there or there[0] not in folders[here[0]]:
            return f"{top}/{here[0]} may not include {'/'.join([top, *there])} ({header})"
    return None


def _check_python(parts: tuple[str, ...], text: str) -> list[str]:
    """Of a file in a folder of the Python package, by its path there, as `line: what is wrong`."""
    folder, found = parts[0], []
    for node in ast.walk(ast.parse(text)):
        # Only what leads to the package itself may name another folder.
        if not isinstance(node, ast.ImportFrom) or node.level != len(parts):
            continue
        if folder not in PYTHON:
            found.append(f"{node.lineno}: {folder} is no folder of the picture; add it to rules.py")
            continue
        names = [node.module.partition(".")[0]] if node.module else [alias.name for alias in node.names]
        wrong = [name for name in names if name not in PYTHON[folder] | {folder}]
        found += [f"{node.lineno}: {folder} may not import {name}" for name in wrong]
    return found


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
    if broken := _check_folders(path, header):
        return broken
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
            if room == "tools" and _TOOLS_WALL_CLOCK.search(line):
                found.append(f"{relative}:{number}: tools measure by CLOCK_MONOTONIC: tools/common/clock.h")
    for path in sorted((root / PACKAGE).glob("*/**/*.py")):
        wrong = _check_python(path.relative_to(root / PACKAGE).parts, path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(root).as_posix()}:{message}" for message in wrong]
    return found
