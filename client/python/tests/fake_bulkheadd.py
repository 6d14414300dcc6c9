#!/usr/bin/python3
"""A stand-in for the service: speaks the protocol, keeps credits, and misbehaves when told to.

The spec is JSON: {"samples", "batch", "epochs", "mode", ...}. It gives two outputs: `index`
(int64), the position plus 1000 × epoch, and `pix` (uint8, 3), its low byte three times. As a
program it takes the flags of an embedded service.
"""

import argparse
import json
import os
import pathlib
import queue
import signal
import sys
import threading
import time
from concurrent import futures

import grpc
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from bulkhead import _proto  # noqa: E402

INDEX_DTYPE, PIX_DTYPE = 6, 1
PART_BYTES = 100  # small, so that batches need several parts


def schema_of(spec):
    batch = spec.get("batch", 8)
    pix_offset = -(-8 * batch // 64) * 64
    total = pix_offset + -(-3 * batch // 64) * 64
    return {
        "tensors": [
            dict(name="index", dtype=INDEX_DTYPE, element_bytes=8, sample_bytes=8, batch_offset=0),
            dict(
                name="pix", dtype=PIX_DTYPE, shape=[3], element_bytes=1, sample_bytes=3,
                batch_offset=pix_offset,
            ),
        ],
        "batch_size": batch,
        "batch_bytes": total,
    }


def error_trailer(code, message, reason, metadata):
    info = _proto.RpcErrorInfo(reason=reason, domain="bulkhead", metadata=metadata)
    status = _proto.RpcStatus(code=code, message=message)
    status.details.add(
        type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString()
    )
    return (("grpc-status-details-bin", status.SerializeToString()),)


class Service:
    """The handlers. `requests` lists the Open messages received, for tests."""

    def __init__(self):
        self.opens = []
        self.most_outstanding = 0
        self.stopping = threading.Event()

    def handler(self):
        return grpc.method_handlers_generic_handler(
            "bulkhead.v1.Loader",
            {
                "Stream": grpc.stream_stream_rpc_method_handler(
                    self.stream,
                    request_deserializer=_proto.StreamRequest.FromString,
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
        if mode == "plain_ok":
            return
        if mode == "silent":
            self.stopping.wait(60)
            return
        for step in range(spec.get("progress", 0)):
            yield _proto.StreamResponse(
                progress=dict(files_done=step, files_total=9, activity=f"indexing {step}")
            )
            time.sleep(spec.get("progress_seconds", 0))
        yield from self.deliver(spec, mode, opening, self.release_queue(requests, context), context)

    def release_queue(self, requests, context):
        releases = queue.Queue()

        def pump():
            try:
                for request in requests:
                    releases.put(request.release.through_sequence)
            except Exception:  # the call ended
                pass
            releases.put(None)

        threading.Thread(target=pump, daemon=True).start()
        return releases

    def deliver(self, spec, mode, opening, releases, context):
        samples, size = spec.get("samples", 20), spec.get("batch", 8)
        epochs, schema = spec.get("epochs", 1), schema_of(spec)
        epoch, consumed = opening.cursor.epoch, opening.cursor.consumed
        per_epoch = -(-samples // size)
        opened = dict(
            schema=schema, samples_per_epoch=samples, batches_per_epoch=per_epoch, boot_id="fake",
            transport=1, epochs=epochs, batches_left_in_epoch=-(-(samples - consumed) // size),
            cursor=dict(
                version=1, order_fingerprint="aa", bytes_fingerprint="bb", epoch=epoch,
                consumed=consumed, samples_per_epoch=samples, quarantined=['a"b'],
            ),
        )
        if mode == "bad:schema":
            opened["schema"]["batch_bytes"] = 64
        if mode == "bad:early":
            yield _proto.StreamResponse(part=dict(header=dict(payload_bytes=0)))
        yield _proto.StreamResponse(opened=opened)
        if mode == "bad:twice":
            yield _proto.StreamResponse(opened=opened)
        if mode == "stall":
            self.stopping.wait(60)
            return
        if mode == "substitute":
            yield _proto.StreamResponse(
                event=dict(kind=1, epoch=0, position=3, substitute_position=4, message="bad@7")
            )
        sequence, released = 0, 0
        while epoch < epochs:
            while sequence - released >= opening.credits.batches and mode != "bad:credit":
                through = releases.get(timeout=60)
                if through is None:
                    return
                released = through + 1
            self.most_outstanding = max(self.most_outstanding, sequence - released + 1)
            count = min(size, samples - consumed)
            left = -(-(samples - consumed - count) // size)
            after = (epoch, consumed + count) if left else (epoch + 1, 0)
            header = dict(
                sequence=sequence, epoch=epoch, sample_count=count, valid_count=count,
                first_position=consumed, next_epoch=after[0], next_consumed=after[1],
                batches_left_in_epoch=left, substitutions=int(mode == "substitute"),
            )
            yield from self.batch(mode, header, schema, spec, context)
            epoch, consumed = after
            sequence += 1

    def batch(self, mode, header, schema, spec, context):
        count, first = header["sample_count"], header["first_position"]
        index = np.arange(first, first + count, dtype=np.int64) + 1000 * header["epoch"]
        pix = np.repeat(index.astype(np.uint8), 3)
        pieces = []
        for tensor, array in zip(schema["tensors"], (index, pix)):
            data = array.tobytes()
            for start in range(0, len(data), PART_BYTES):
                pieces.append((tensor["batch_offset"] + start, data[start : start + PART_BYTES]))
        header["payload_bytes"] = sum(len(data) for _, data in pieces)
        if mode == "die_again" and (spec["resumed"] or header["sequence"] == 1):
            self.die()
        if header["sequence"] == spec.get("at", 1):
            if mode == "data_error":
                context.set_trailing_metadata(
                    error_trailer(
                        15, "a.tfrecord@77: bad CRC", "CORRUPT_RECORD",
                        {"file": "a.tfrecord", "offset": "77"},
                    )
                )
                context.abort(grpc.StatusCode.DATA_LOSS, "a.tfrecord@77: bad CRC")
            if mode == "die":
                self.die()
            pieces = self.spoil(mode, header, pieces)
        for number, (offset, data) in enumerate(pieces):
            part = dict(offset=offset, data=data)
            if number == 0 and mode != "bad:no_header":
                part["header"] = header
            message = _proto.StreamResponse(part=part).SerializeToString()
            if mode == "bad:bytes" and header["sequence"] == 1:
                message = message[:-1]
            yield message

    def die(self):
        sys.stderr.write("fatal: the disk is on fire\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    def spoil(self, mode, header, pieces):
        offset, data = pieces[-1]
        if mode == "bad:offset":
            return pieces[:-1] + [(1 << 63, data)]
        if mode == "bad:outside":
            return pieces[:-1] + [(190, data)]
        if mode == "bad:overlap":
            return pieces[:-1] + [(offset - 64 if offset >= 64 else 0, data)]
        if mode == "bad:gap":
            return pieces[:-1] + [(offset + 1, data)]
        if mode == "bad:excess":
            return pieces + [(offset, data)]
        if mode == "bad:short":
            header["payload_bytes"] -= len(data)
            return pieces[:-1]
        if mode == "bad:cut":
            return pieces[:-1]
        if mode == "bad:sequence":
            header["sequence"] += 1
        if mode == "bad:count":
            header["sample_count"] = 1 << 40
        if mode == "bad:payload":
            header["payload_bytes"] = 1 << 60
        return pieces


def serve(address):
    service = Service()
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((service.handler(),))
    port = server.add_insecure_port(address)
    server.start()
    return service, server, port


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--embedded", action="store_true", required=True)
    parser.add_argument("--watch-pid", type=int, required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cache-dir")
    arguments = parser.parse_args()
    if arguments.cache_dir == "refuse":
        sys.stderr.write("cannot use the cache folder 'refuse'\n")
        return 1
    if arguments.cache_dir == "never-ready":
        time.sleep(60)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    _, server, _ = serve(arguments.listen)
    os.write(arguments.ready_fd, f"ready {arguments.listen}\n".encode())
    while not ended.wait(0.2) and os.getppid() == arguments.watch_pid:
        pass
    server.stop(None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
