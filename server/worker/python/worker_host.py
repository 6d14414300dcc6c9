"""The Python side of a worker with Python stages.

bulkheadd starts the user's interpreter with this file. It loads the worker itself, a shared library, through ctypes
and gives it two functions: one imports a stage's function, one calls it. The worker's threads enter Python only for
that call, and do everything else without the interpreter's lock. Tools that run pipelines in their own process start
it with --serve-fd instead, and call over a socket; of the library it then uses the worker's sandbox alone. It needs
only the standard library and NumPy, and compiles nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile

_OWN = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, _OWN)  # for our own modules only: main() takes it out

from bulkhead_host import denied, notes, terminal, user_code  # noqa: E402
from bulkhead_host.calls import Calls  # noqa: E402
from bulkhead_host.functions import allowed_folders  # noqa: E402


def _strings(texts) -> ctypes.Array:
    return (ctypes.c_char_p * (len(texts) + 1))(*[os.fsencode(text) for text in texts], None)


def _readable() -> list[str]:
    """Folders that imports and the interpreter read."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    folders += [os.path.dirname(os.path.realpath(sys.executable)), sys.pycache_prefix or "", *sys.path]
    return [folder for folder in dict.fromkeys(folders) if folder not in ("", "/")]


def _move_home() -> None:
    """Moves HOME and TMPDIR to this worker's own folder, which it makes before any import."""
    folder = os.environ.pop("BULKHEAD_SCRATCH", "")
    if not folder:
        return
    os.environ["HOME"] = os.path.join(folder, "home")
    # Not tested for writability: where the system cannot confine a worker to its folder, nothing is writable, and
    # most packages only need the name.
    tempfile.tempdir = os.path.join(folder, "tmp")


def _open_dataset() -> None:
    """Opens the memory of the user's datasets, which belongs to others, before the sandbox is entered."""
    paths = os.environ.pop("BULKHEAD_DATASET", "")
    if not paths:
        return
    # The dataset, the lists of its sampler ("-": there are none), and the other datasets of a mixture.
    opened = [str(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) if path != "-" else "-1" for path in paths.split(":")]
    os.environ["BULKHEAD_DATASET_FD"], os.environ["BULKHEAD_DATASET_LISTS_FD"], *others = opened
    os.environ["BULKHEAD_DATASET_OTHER_FDS"] = ",".join(others)


def _confine(library: str, bind: bytes, binding: bytes) -> None:
    """Enters the sandbox of a worker that gets these messages."""
    if not ctypes.CDLL(library).bulkhead_worker_confine(
        bind, ctypes.c_uint64(len(bind)), binding, ctypes.c_uint64(len(binding)), _strings(_readable())
    ):
        raise ValueError("the worker's messages cannot be parsed")


def main() -> None:
    options: dict[str, list[str]] = {}
    for argument in sys.argv[1:]:
        name, _, value = argument.partition("=")
        options.setdefault(name, []).append(value)
    allowed_folders.extend(options.get("--python-path", []))
    known = [folder for folder in sys.path if os.path.abspath(folder) != _OWN]
    # Folders already in sys.path keep their place, so that the standard library stays before other packages.
    places = set(map(os.path.realpath, known))
    sys.path[:] = [*(folder for folder in allowed_folders if folder not in places), *known]
    sys.argv[1:] = []
    os.environ.pop("LD_PRELOAD", None)
    _move_home()
    _open_dataset()
    notes.watch()
    terminal.deny()
    denied.watch()

    library = options["--library"][0]
    if "--serve-fd" in options:
        from bulkhead_host.server import Server

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the tool ends, and takes this process with it
        Server(int(options["--serve-fd"][0])).run(lambda *messages: _confine(library, *messages))
        return
    user_code.watch()
    growth = None
    if "--trace-python" in options:
        from bulkhead_host.growth import Growth

        growth = Growth(allowed_folders)
    calls = Calls(growth)
    library = ctypes.CDLL(library)
    take = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
    # The fields of BulkheadPython (interpreter_functions.h); null where nobody looks.
    fields = (
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64)(calls.load),
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)(calls.call),
        take(user_code.take_new),
        ctypes.pointer(user_code.count),
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(calls.write_stacks_to),
        ctypes.CFUNCTYPE(ctypes.c_int, notes.NOTE, ctypes.c_void_p)(notes.send_to),
        growth and take(growth.take),
        growth and ctypes.pointer(growth.count),
        growth and ctypes.pointer(growth.samples),
        ctypes.pythonapi.PyGILState_Ensure,
        ctypes.pythonapi.PyEval_SaveThread,
    )
    pointers = [field and ctypes.cast(field, ctypes.c_void_p) for field in fields]
    library.bulkhead_worker_run.restype = None
    library.bulkhead_worker_run(
        int(options["--control-fd"][0]),
        (ctypes.c_void_p * len(pointers))(*pointers),
        _strings(_readable()),
        _strings(options.get("--python-path", [])),
        _strings(options.get("--native-path", [])),
    )


if __name__ == "__main__":
    main()
