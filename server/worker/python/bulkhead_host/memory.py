"""Memory of the worker as Python sees it."""

from __future__ import annotations

import ctypes

from bulkhead_host.verdict import MAX_TEXT

READ, WRITE = 0x100, 0x200  # PyBUF_READ, PyBUF_WRITE
MAX_CACHED = 256  # cached views

view_of_memory = ctypes.pythonapi.PyMemoryView_FromMemory
view_of_memory.restype = ctypes.py_object
view_of_memory.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def put_text(text: str, address: int, size: int) -> None:
    """Writes at most `size` bytes, including a final 0."""
    data = text.encode("utf-8", "replace")[:min(size - 1, MAX_TEXT)]
    # Do not cut inside a character.
    data = data.decode("utf-8", "ignore").encode("utf-8") + b"\0"
    ctypes.memmove(address, data, len(data))
