"""Notes which of the user's files were loaded, with their digests.

Installed packages, below site-packages or dist-packages, do not count: they have versions and are not edited.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sysconfig
from importlib.machinery import SourceFileLoader, SourcelessFileLoader

from bulkhead_host.functions import OWN_STAGES, allowed_folders

_LIBRARY = tuple(
    os.path.realpath(path) + os.sep for key, path in sysconfig.get_paths().items() if "stdlib" in key
)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep

_new: list[tuple[str, str]] = []
# Number of loaded files. The worker reads it after every lease, without the interpreter's lock.
count = ctypes.c_uint64(0)


def _is_users(path: str) -> bool:
    real = os.path.realpath(path)
    if os.path.basename(real) in OWN_STAGES:  # which the client gives a format of its own
        return False
    if any(part in path or part in real for part in _INSTALLED) or real.startswith((*_LIBRARY, _OWN)):
        return False
    return any(real.startswith(folder + os.sep) for folder in allowed_folders)


def _note(path: str, data: bytes) -> None:
    _new.append((path, hashlib.sha256(data).hexdigest()))
    count.value += 1


def watch() -> None:
    """Notes every file from now on when it is loaded, by the bytes that run."""
    compile_cached = SourceFileLoader.get_code
    load_compiled = SourcelessFileLoader.get_code

    def get_code(self, fullname):
        path = os.path.abspath(self.get_filename(fullname))
        if not _is_users(path):
            return compile_cached(self, fullname)
        # Bypasses __pycache__, which detects a changed source only by its size and second.
        data = self.get_data(path)
        _note(path, data)
        return self.source_to_code(data, self.get_filename(fullname))

    def get_compiled(self, fullname):
        path = os.path.abspath(self.get_filename(fullname))
        if _is_users(path):
            _note(path, self.get_data(path))
        return load_compiled(self, fullname)

    SourceFileLoader.get_code = get_code
    SourcelessFileLoader.get_code = get_compiled


def take_new(address: int, size: int) -> int:
    """Writes path and digest of the files loaded since the last call, each followed by a 0, as many as fit.

    Returns the number of bytes.
    """
    written = 0
    while _new:
        path, digest = _new[0]
        data = os.fsencode(path) + b"\0" + digest.encode() + b"\0"
        if written + len(data) > size:
            break
        ctypes.memmove(address + written, data, len(data))
        written += len(data)
        _new.pop(0)
    return written
