"""Serves a tool that runs a pipeline in its own process and shares memory with this one."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct

from bulkhead_host.calls import Calls
from bulkhead_host.verdict import MAX_TEXT


class Server:
    def __init__(self, fd: int):
        self._calls = Calls()
        self._socket = socket.socket(fileno=fd)
        self._region = None  # its number in the tool, its size, the mapping, its address
        self._text = ctypes.create_string_buffer(MAX_TEXT + 1)

    def run(self) -> None:
        """Serves calls until the tool ends."""
        while True:
            request = self._socket.recv(1 << 20)
            if not request:
                return
            self._text[0] = b"\0"
            answer = self._load if request[:1] == b"L" else self._call
            verdict = answer(request[1:])
            self._socket.send(struct.pack("=i", verdict) + self._text.value)

    def _load(self, request: bytes) -> int:
        (length,) = struct.unpack_from("=I", request)
        stage, inputs = request[4:4 + length], request[4 + length:]
        return self._calls.load(stage, inputs, ctypes.addressof(self._text), len(self._text))

    def _call(self, request: bytes) -> int:
        number, fd, size = struct.unpack("=iiQ", request)
        base = self._map(fd, size)
        for place in self._calls.addresses(number):
            at = ctypes.c_int64.from_address(base + 8 * place)
            at.value += base
        return self._calls.call(number, base, ctypes.addressof(self._text), len(self._text))

    def _map(self, fd: int, size: int) -> int:
        if self._region is None or self._region[:2] != (fd, size):
            file = os.open(f"/proc/{os.getppid()}/fd/{fd}", os.O_RDWR)
            mapping = mmap.mmap(file, size)
            os.close(file)
            # The previous one stays mapped: views of it may be cached.
            address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
            self._region = (fd, size, mapping, address)
        return self._region[3]
