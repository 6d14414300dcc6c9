#!/usr/bin/python3
"""A stand-in for the service: speaks the protocol, keeps credits, and misbehaves when told to.

The spec is JSON: {"samples", "batch", "epochs", "mode", ...}. It gives two outputs: `index`
(int64), the position plus 1000 × epoch, and `pix` (uint8, 3), its low byte three times. As a
program it takes the flags of an embedded service. With "rows" it gives `runs`, too: packed rows, of
sample i the number i, i modulo 5 times; and with "images" `flat`, whose batches are 2 pixels high
and as wide as their sequence, modulo 3, plus 1.
"""

import argparse
import fcntl
import itertools
import json
import os
import pathlib
import signal
import sys
import threading
import time
from concurrent import futures

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (0, 1)]
import fake_door  # noqa: E402
from bulkhead._batch.order import quarantine_digest  # noqa: E402
from bulkhead._rpc import grpc_library, proto  # noqa: E402
from fake_batches import in_turn, schema_of  # noqa: E402
from fake_senders import PartSender, SlotSender  # noqa: E402

grpc = grpc_library.load()  # with the environment that the client wants for it

HEARTBEAT_SECONDS = 0.3


def error_trailer(code, message, reason, metadata):
    info = proto.RpcErrorInfo(reason=reason, domain="bulkhead", metadata=metadata)
    status = proto.RpcStatus(code=code, message=message)
    status.details.add(
        type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString()
    )
    return (("grpc-status-details-bin", status.SerializeToString()),)


class Service:
    """The handlers. `opens` lists the Open messages received, for tests."""

    def __init__(self, door=None):
        self.door = door
        self.opens = []
        self.arenas = []
        self.most_outstanding = 0
        self.stopping = threading.Event()
        self.muted = threading.Event()  # no heartbeats any more
        self.beat = {}  # what heartbeats say
        self.arena_ids = itertools.count(7)

    def handler(self):
        return grpc.method_handlers_generic_handler(
            "bulkhead.v1.Loader",
            {
                "Stream": grpc.stream_stream_rpc_method_handler(
                    self.stream,
                    request_deserializer=proto.StreamRequest.FromString,
                    response_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
                )
            },
        )

    def stream(self, requests, context):
        opening = next(requests).open
        self.opens.append(opening)
        spec = json.loads(opening.spec.text.text)
        mode = spec.get("mode", "ok")
        spec["resumed"] = opening.cursor.consumed > 0
        if mode == "spec_error":
            context.set_trailing_metadata(
                error_trailer(3, "x.yaml:3:5: wrong", "SPEC_INVALID", {"line": "3"})
            )
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "x.yaml:3:5: wrong")
        if mode == "long_error":
            context.abort(grpc.StatusCode.NOT_FOUND, "Ж" * 2000)
        refused_from, refused_to = spec.get("refused", (0, 0))  # openings, counted from 1
        if refused_from <= len(self.opens) <= refused_to:
            reason = spec.get("refused_reason", "BUDGET_EXCEEDED")
            context.set_trailing_metadata(error_trailer(8, "1 of 2 MiB are left", reason, {}))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "1 of 2 MiB are left")
        if mode == "refuse_resumed" and spec["resumed"]:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")
        if mode == "plain_ok":
            return
        if mode == "silent":
            yield from self.idle(lambda: False, beats=False)
            return
        for step in range(spec.get("progress", 0)):
            yield proto.StreamResponse(
                progress=dict(files_done=step, files_total=9, activity=f"indexing {step}")
            )
            time.sleep(spec.get("progress_seconds", 0))
        if len(self.opens) <= spec.get("lost_openings", 0):
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost on purpose")
        yield from self.deliver(spec, mode, opening, requests, context)

    def idle(self, done, beats=True, condition=None):
        """Heartbeats until `done()`, which is asked when `condition` was notified."""
        condition = condition or threading.Condition()
        last = time.monotonic()
        while not self.stopping.is_set():
            with condition:
                if condition.wait_for(lambda: done() or self.stopping.is_set(), 0.1):
                    return
            if beats and not self.muted.is_set() and time.monotonic() - last >= HEARTBEAT_SECONDS:
                last = time.monotonic()
                yield proto.StreamResponse(heartbeat=self.beat)

    def deliver(self, spec, mode, opening, requests, context):
        samples, size = spec.get("samples", 20), spec.get("batch", 8)
        epochs, schema = spec.get("epochs", 1), schema_of(spec)
        epoch, consumed = opening.cursor.epoch, opening.cursor.consumed
        per_epoch = -(-samples // size)
        completed = list(opening.cursor.completed)
        left = -(-(samples - consumed) // size) - len(completed) if epoch < epochs else 0
        quarantined = sorted({*opening.cursor.quarantined, 'a"b'})
        opened = dict(
            schema=schema, samples_per_epoch=samples, batches_per_epoch=per_epoch, boot_id="fake",
            transport=1, epochs=epochs, batches_left_in_epoch=left,
            unordered="reverse" in spec, transport_reason=spec.get("why", ""),
            cursor=dict(
                version=2, order_fingerprint="aa", bytes_fingerprint="bb", epoch=epoch,
                consumed=consumed, samples_per_epoch=samples,
                quarantined=quarantined,
                completed=completed, batch_size=opening.cursor.batch_size,
                world_size=opening.cursor.world_size, code=spec.get("code", []),
            ),
        )
        sender = self.sender(spec, mode, opening, requests, schema, opened, context)
        if mode == "bad:schema":
            opened["schema"]["batch_bytes"] = 64
        if mode == "bad:early":
            yield proto.StreamResponse(part=dict(header=dict(payload_bytes=0)))
        yield proto.StreamResponse(opened=opened)
        if mode == "bad:twice":
            yield proto.StreamResponse(opened=opened)
        if mode == "hang":
            yield from sender.tell(dict(kind=3, epoch=0, position=5, message="f.py:7: sleep"))
        for note in spec.get("notes", []):
            yield proto.StreamResponse(note=note)
        if mode == "stall":
            yield from self.idle(lambda: False)
            return
        if mode == "substitute":
            yield from sender.tell(
                dict(kind=1, epoch=0, position=3, substitute_position=4, message="bad@7")
            )
        base, sent = 0, 0
        while epoch < epochs:
            count = -(-(samples - consumed) // size)
            turns = [turn for turn in in_turn(count, spec.get("reverse", 1)) if turn not in completed]
            for place, turn in enumerate(turns):
                first = consumed + turn * size
                genuine = min(size, samples - first)
                after = (epoch, first + genuine) if turn + 1 < count else (epoch + 1, 0)
                header = dict(
                    sequence=base + turn, epoch=epoch, sample_count=genuine, valid_count=genuine,
                    first_position=first, next_epoch=after[0], next_consumed=after[1],
                    batches_left_in_epoch=len(turns) - place - 1,
                    substitutions=int(mode == "substitute"),
                    quarantine_digest=quarantine_digest(quarantined),
                )
                if sent == 1:
                    header["code"] = spec.get("code_later", [])
                yield from sender.wait()
                if sender.gone():
                    context.abort(grpc.StatusCode.UNAVAILABLE, "the client hung up")
                if mode.startswith("quarantine") and sent == 1:
                    record = mode.partition(":")[2]
                    yield from sender.tell(
                        dict(kind=2, record=record, message="z@1 ended 3 workers")
                    )
                    quarantined = sorted({*quarantined, record})
                    header["quarantine_digest"] = quarantine_digest(quarantined)
                if len(self.opens) == 1 and sent == spec.get("lose_after"):
                    context.abort(grpc.StatusCode.UNAVAILABLE, "lost on purpose")
                if len(self.opens) == 1 and sent == spec.get("end_after"):
                    return
                if sent == spec.get("mute_after"):
                    self.muted.wait(60)
                    yield from self.idle(lambda: False, beats=False)
                    return
                if sent == spec.get("beat_after"):  # its heartbeats say this from now on
                    self.beat = spec["beat"] if len(self.opens) <= spec.get("beats", 1 << 30) else {}
                    if self.beat:
                        yield from self.idle(lambda: False)
                        return
                self.end_badly(spec, mode, header, context)
                yield from sender.send(header)
                sent += 1
            base += count
            epoch, consumed, completed = epoch + 1, 0, []

    def end_badly(self, spec, mode, header, context):
        if mode == "die_again" and (spec["resumed"] or header["sequence"] == 1):
            self.die()
        if header["sequence"] != spec.get("at", 1):
            return
        if mode == "die":
            self.die()
        if mode == "data_error":
            context.set_trailing_metadata(
                error_trailer(
                    15, "a.tfrecord@77: bad CRC", "CORRUPT_RECORD",
                    {"file": "a.tfrecord", "offset": "77"},
                )
            )
            context.abort(grpc.StatusCode.DATA_LOSS, "a.tfrecord@77: bad CRC")

    def sender(self, spec, mode, opening, requests, schema, opened, context):
        """How batches travel; notes it in `opened`."""
        connection = self.door.find(opening.arena_token) if self.door is not None else None
        if connection is None or opening.transport == 1 or "why" in spec:
            if opening.transport == 2:
                context.set_trailing_metadata(
                    error_trailer(9, "no shared memory today", "TRANSPORT_UNAVAILABLE", {})
                )
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no shared memory today")
            return PartSender(self, spec, mode, opening, requests, schema, context)
        slot_bytes = -(-schema["batch_bytes"] // 4096) * 4096
        spoil = spec.get("arena", "")
        if spoil == "narrow":
            slot_bytes = 64
        arena = fake_door.Arena(next(self.arena_ids), slot_bytes, spec.get("slots", 5), spoil)
        self.arenas.append(arena)
        connection.grant(arena, spoil)
        opened["transport"], opened["arena_id"] = 2, arena.arena_id
        opened["announced_at_door"] = opening.announce_at_door and "no_announcing" not in spec
        at_door = opened["announced_at_door"]
        return SlotSender(self, spec, mode, opening, arena, connection, schema, at_door)

    def die(self):
        sys.stderr.write("fatal: the disk is on fire\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)

def serve(address, door=False, welcome=True):
    """`door`: with an arena door, as a service on a Unix socket has; it may fail to welcome."""
    door = fake_door.Door(address[len("unix:") :] + ".arena", welcome) if door else None
    service = Service(door)
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((service.handler(),))
    port = server.add_insecure_port(address)
    server.start()
    return service, server, port


def is_watched(arguments):
    if arguments.watch_lock is None:
        return os.getppid() == arguments.watch_pid
    try:
        fcntl.flock(arguments.watch_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--embedded", action="store_true", required=True)
    parser.add_argument("--watch-pid", type=int)
    parser.add_argument("--watch-lock", type=open)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cache-dir")
    parser.add_argument("--worker-quota")
    parser.add_argument("--log-file", default=os.devnull, type=lambda path: open(path, "a"))
    parser.add_argument("--python")
    parser.add_argument("--python-path", action="append")
    arguments = parser.parse_args()
    name = os.path.basename(arguments.cache_dir or "")
    if name == "refuse":
        sys.stderr.write("cannot use the cache folder 'refuse'\n")
        return 1
    if name == "never-ready":
        time.sleep(60)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    _, server, _ = serve(arguments.listen, door=True)
    os.write(arguments.ready_fd, f"ready {arguments.listen}\n".encode())
    while not ended.wait(0.2) and is_watched(arguments):
        pass
    server.stop(None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
