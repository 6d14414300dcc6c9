"""The two ways in which the stand-in of the service sends batches."""

import socket
import threading

from fake_batches import contents, spoil

from bulkhead._rpc import proto

PART_BYTES = 100  # small, so that batches need several parts


class PartSender:
    """Batches on the stream, within the credits."""

    def __init__(self, service, spec, mode, opening, requests, schema, context):
        self.service, self.spec, self.mode, self.context = service, spec, mode, context
        self.opening, self.schema = opening, schema
        self.changed = threading.Condition()
        self.unreleased = []
        self.ended = False
        threading.Thread(target=self.pump, args=(requests,), daemon=True).start()

    def pump(self, requests):
        try:
            for request in requests:
                with self.changed:
                    through = request.release.through_sequence
                    if through in self.unreleased:  # in the order of sending
                        del self.unreleased[: self.unreleased.index(through) + 1]
                    self.changed.notify_all()
        except Exception:  # the call ended
            pass
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait(self):
        if self.mode != "bad:credit":
            limit = self.opening.credits.batches
            yield from self.service.idle(
                lambda: len(self.unreleased) < limit or self.ended, condition=self.changed
            )

    def gone(self):
        return False

    def tell(self, event):
        yield proto.StreamResponse(event=event)

    def send(self, header):
        with self.changed:
            self.unreleased.append(header["sequence"])
            outstanding = len(self.unreleased)
        self.service.most_outstanding = max(self.service.most_outstanding, outstanding)
        mode = self.mode
        pieces = []
        for tensor, array in zip(self.schema["tensors"], contents(header, self.spec)):
            data = array.tobytes()
            for start in range(0, len(data), PART_BYTES):
                pieces.append((tensor["batch_offset"] + start, data[start : start + PART_BYTES]))
        header["payload_bytes"] = sum(len(data) for _, data in pieces)
        if header["sequence"] == self.spec.get("at", 1):
            pieces = spoil(mode, header, pieces)
        for number, (offset, data) in enumerate(pieces):
            part = dict(offset=offset, data=data)
            if number == 0 and mode != "bad:no_header":
                part["header"] = header
            message = proto.StreamResponse(part=part).SerializeToString()
            if mode == "bad:bytes" and header["sequence"] == 1:
                message = message[:-1]
            yield message


class SlotSender:
    """Batches in the client's arena; a slot that the client holds is not written.

    `at_door`: they are announced there, until batch "full_at" if the spec names one.
    """

    def __init__(self, service, spec, mode, opening, arena, connection, schema, at_door):
        self.at_door = at_door
        self.service, self.spec, self.mode = service, spec, mode
        self.arena, self.connection, self.schema = arena, connection, schema
        self.limit = min(opening.credits.batches, arena.slot_count - 1)

    def wait(self):
        if self.mode != "bad:credit":
            yield from self.service.idle(
                lambda: len(self.arena.out) < self.limit or self.connection.hung_up,
                condition=self.connection.changed,
            )

    def gone(self):
        return self.connection.hung_up

    def tell(self, event):
        if self.at_door:
            packet = dict(arena_id=self.arena.arena_id, event=event)
            self.connection.send(proto.ArenaServerMessage(event=packet))
        else:
            yield proto.StreamResponse(event=event)

    def announce(self, message):
        if self.at_door:
            self.connection.send(proto.ArenaServerMessage(slot=message))
        else:
            yield proto.StreamResponse(slot=message)

    def send(self, header):
        arena, mode = self.arena, self.mode
        with self.connection.changed:
            slot = arena.free_slot()
            if arena.arena_id in self.connection.retired:  # nothing is handed out there any more
                return
            if slot is None:  # only when it ignores the credits
                return
            arena.out.append(slot)
            outstanding = len(arena.out)
        self.service.most_outstanding = max(self.service.most_outstanding, outstanding)
        for tensor, array in zip(self.schema["tensors"], contents(header, self.spec)):
            start = slot * arena.slot_bytes + tensor["batch_offset"]
            arena.memory[start : start + array.nbytes] = array.tobytes()
        arena_id = arena.arena_id
        if header["sequence"] == 1:
            slot = {"bad:slot": arena.slot_count, "bad:slot_held": arena.out[0]}.get(mode, slot)
            arena_id += mode == "bad:slot_arena"
            spoil(mode, header, [(0, b"")])
        if header["sequence"] == self.spec.get("full_at"):
            self.at_door = False
        if mode == "bad:packet" and header["sequence"] == 6:
            socket.send_fds(self.connection.sock, [b"\xff"], [])
        yield from self.announce(dict(header=header, arena_id=arena_id, slot=slot))
        if mode == "bad:slot_part":
            yield proto.StreamResponse(part=dict(header=header, data=b"x"))
