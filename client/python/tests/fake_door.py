"""A stand-in for the arena door: a real SEQPACKET socket, real memfds, and faults when told to."""

import fcntl
import mmap
import os
import socket
import threading
import uuid

from bulkhead._rpc import proto

F_ADD_SEALS, SHRINK, GROW = 1033, 2, 4


class Arena:
    """A memfd and what is known about its slots."""

    def __init__(self, arena_id, slot_bytes, slot_count, spoil=""):
        self.arena_id, self.slot_bytes, self.slot_count = arena_id, slot_bytes, slot_count
        self.descriptor = os.memfd_create("fake-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        size = slot_bytes * slot_count
        os.ftruncate(self.descriptor, size - 4096 if spoil == "small" else size)
        seals = SHRINK if spoil == "unsealed" else SHRINK | GROW
        fcntl.fcntl(self.descriptor, F_ADD_SEALS, seals)
        self.memory = None if spoil == "small" else mmap.mmap(self.descriptor, size)
        self.out = []  # slots that the client holds

    def free_slot(self):
        return next((slot for slot in range(self.slot_count) if slot not in self.out), None)


class Connection:
    """One client's; `released` is all that it gave back, as (arena, slot)."""

    def __init__(self, sock, welcome=True):
        self.sock = sock
        self.token = uuid.uuid4().hex
        self.changed = threading.Condition()
        self.arenas = {}
        self.released = []
        self.retired = {}  # arena → slots that were still held
        self.hung_up = False
        if welcome:
            try:
                self.send(proto.ArenaServerMessage(welcome={"token": self.token, "boot_id": "fake"}))
            except BrokenPipeError:  # the client did not stay
                pass
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, message, descriptors=()):
        socket.send_fds(self.sock, [message.SerializeToString()], descriptors)

    def grant(self, arena, spoil=""):
        with self.changed:
            self.arenas[arena.arena_id] = arena
        grant = {
            "arena_id": arena.arena_id + (spoil == "other_id"),
            "slot_bytes": arena.slot_bytes + (8 if spoil == "unaligned" else 0),
            "slot_count": arena.slot_count,
        }
        if spoil == "stale":  # of a stream that broke before it was opened
            other = {**grant, "arena_id": arena.arena_id + 1000}
            self.send(proto.ArenaServerMessage(grant=other), [arena.descriptor])
        descriptors = {"no_descriptor": 0, "two_descriptors": 2}.get(spoil, 1) * [arena.descriptor]
        self.send(proto.ArenaServerMessage(grant=grant), descriptors)

    def _read(self):
        while True:
            try:
                data = self.sock.recv(4096)
            except OSError:
                data = b""
            with self.changed:
                if not data:
                    self.hung_up = True
                    for arena in self.arenas.values():
                        arena.out.clear()
                    self.changed.notify_all()
                    return
                message = proto.ArenaClientMessage.FromString(data)
                if message.HasField("retire"):
                    self.retired[message.retire.arena_id] = list(message.retire.held_slots)
                    arena = self.arenas[message.retire.arena_id]
                    arena.out[:] = [s for s in arena.out if s in message.retire.held_slots]
                for slot in message.release.slots:
                    out = self.arenas[message.release.arena_id].out
                    if slot in out or message.release.arena_id not in self.retired:
                        out.remove(slot)
                    self.released.append((message.release.arena_id, slot))
                self.changed.notify_all()


class Door:
    """Listens at `path`; `connections` in the order in which they came."""

    def __init__(self, path, welcome=True):
        self.connections = []
        self.welcome = welcome
        self.came = threading.Condition()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.came:
                self.connections.append(Connection(sock, self.welcome))
                self.came.notify_all()

    def find(self, token):
        with self.came:  # the client may have its token before the connection is listed
            return next((c for c in self.connections if c.token == token), None)

    def close(self):
        self.listener.close()
        for connection in self.connections:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:  # hung up already
                pass
