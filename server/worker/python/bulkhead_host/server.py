"""Serves a tool that runs a pipeline in its own process and shares memory with this one."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct

from bulkhead_host.calls import Calls
from bulkhead_host.verdict import MAX_TEXT, OK


class Server:
    def __init__(self, fd: int):
        self._calls = Calls()
        self._socket = socket.socket(fileno=fd)
        self._text = ctypes.create_string_buffer(MAX_TEXT + 1)
        self._memory = None  # the shared one
        self._base = 0  # its address

    def run(self, confine) -> None:
        """Serves calls until the tool ends, in the sandbox that `confine`, given two messages, enters."""
        self._begin(confine)
        while True:
            request = self._socket.recv(1 << 20)
            if not request:
                return
            self._text[0] = b"\0"
            answer = self._load if request[:1] == b"L" else self._call
            try:
                self._answer(answer(request[1:]))
            except BrokenPipeError:
                return  # the tool has ended meanwhile

    def _answer(self, verdict: int) -> None:
        self._socket.send(struct.pack("=i", verdict) + self._text.value)

    def _begin(self, confine) -> None:
        """Takes the shared memory and enters the sandbox, both of which the first packet brings."""
        packet, [(_, _, sent)], *_ = self._socket.recvmsg(1 << 20, socket.CMSG_SPACE(4))
        (fd,) = struct.unpack("=i", sent)
        self._memory = mmap.mmap(fd, 0)
        os.close(fd)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        (length,) = struct.unpack_from("=I", packet)
        confine(packet[4:4 + length], packet[4 + length:])
        self._answer(OK)

    def _load(self, request: bytes) -> int:
        (length,) = struct.unpack_from("=I", request)
        stage, inputs = request[4:4 + length], request[4 + length:]
        return self._calls.load(stage, inputs, ctypes.addressof(self._text), len(self._text))

    def _call(self, request: bytes) -> int:
        (number,) = struct.unpack("=i", request)
        for place in self._calls.addresses(number):
            at = ctypes.c_int64.from_address(self._base + 8 * place)
            at.value += self._base
        return self._calls.call(number, self._base, ctypes.addressof(self._text), len(self._text))
