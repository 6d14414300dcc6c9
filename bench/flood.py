#!/usr/bin/python3
"""What a trainer loses beside clients that flood the service, kind by kind.

    bench/flood.py [--seconds S] [--burst S] [--rounds N] [--nice N] [--flood KIND …] [--least RATIO] [--json]

A trainer streams decoded photos, which takes all cores. Windows of S seconds alternate: the trainer alone, and beside a
flooder, a process of its own; a round's ratio is the rate beside the flood over the mean of the windows around it.
What the service lets through at once, as it does when a job's ranks start, is over before a flooded window: a flood
begins --burst seconds earlier. The column `burst` is the trainer's rate in that time over its rate before.
Flooder and service share the machine's cores, so the flooder's CPU time is told, and the supervisor's, in cores, and the
ratio to what the trainer would have of the cores that the flooder leaves, as if that ran on another host. The
flooder runs at --nice (10 by default, so that what is lost is mostly what it makes the service do; 0: it competes).

    openings      streams that are opened and left, each on its own connection
    describes     calls of Describe on one connection, as many at once as it allows
    large         the same with specs of 250 KB that are all wrong
    wordless      calls of Stream that say nothing
    questions     GetStatus, 16 at a time
    health        gRPC's health check, 64 at a time
    connections   1,000 connections that say nothing, made again when they are closed
    metrics       64 requests to the port of the metrics of which half a line comes

Of a service on TCP with TLS, whose trainer has a certificate and whose flooder is another host:

    handshakes    TLS handshakes without a certificate, 16 at a time
    strangers     1,000 connections that say nothing, made again when they are closed
    tokens        calls with a wrong token, 64 at a time

Of the same service, whose flooder has a certificate of its own and the right to stream:

    openings-tls   streams that are opened and left, each on its own connection
    describes-tls  calls of Describe on one connection, as many at once as it allows

With --least the exit code is 1 where the trainer keeps less than that of what the flooder's CPU leaves.
"""

import argparse
import contextlib
import json
import os
import pathlib
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from box_records import field
from support import Service, cpu_seconds, draw_photos, free_port, issue_client, listen_with_tls, machine

PHOTOS, SIZE = 200, "640x480"
FLOODER = "flooder"


# The flooder's side: each kind does its worst until the process is killed.


SMALL = b"{source: {range: {size: 1000}}, batch: {size: 10}}"
# A SpecInput of 30,000 stages that name a feature which does not exist.
LARGE = field(1, field(1, field(4, b"\x08\x0a")) + field(3, field(9, field(1, b"index"))) * 30_000)


def spec_input(large=False):
    return LARGE if large else field(2, field(1, SMALL))


announced = threading.Lock()


def announce():
    """The flood has begun; says so once."""
    if announced.acquire(blocking=False):
        print("flooding", flush=True)


def endlessly(work, threads):
    def repeat():
        while True:
            with contextlib.suppress(Exception):
                work()
            announce()

    for _ in range(threads):
        threading.Thread(target=repeat, daemon=True).start()
    threading.Event().wait()


def channel_to(target):
    """A connection of its own; over TCP with the flooder's certificate, which lies beside its authority's."""
    import grpc

    own = [("grpc.use_local_subchannel_pool", 1)]
    if target.startswith("unix:"):
        return grpc.insecure_channel(target, own)
    authority = pathlib.Path(os.environ["BULKHEAD_TLS_CA"])
    files = [authority, *(authority.with_name(f"{FLOODER}.{ending}") for ending in ("key", "pem"))]
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(*(file.read_bytes() for file in files)), own)


def calls(target, method, request, at_once, kind="unary_stream"):
    """Calls on one connection, `at_once` at a time."""
    with channel_to(target) as channel:
        call = getattr(channel, kind)(method)
        endlessly(lambda: list(call(request)) if kind == "unary_stream" else call(request), at_once)


def flood_describes(target, _):
    calls(target, LOADER + "Describe", field(1, spec_input()), 256)


def flood_openings(target, _):
    def open_one():
        with channel_to(target) as channel:
            request = field(1, field(1, spec_input()) + field(3, os.urandom(4).hex().encode()))
            next(iter(channel.stream_stream("/bulkhead.v1.Loader/Stream")(iter([request]))))

    endlessly(open_one, 32)


def flood_wordless(target, _):
    def say_nothing():
        announce()
        time.sleep(40)
        yield from ()

    with channel_to(target) as channel:
        stream = channel.stream_stream("/bulkhead.v1.Loader/Stream")
        endlessly(lambda: list(stream(say_nothing())), 256)


def hold(connect, count, first_words):
    """`count` connections, each made again when it is closed."""

    def one():
        connection = connect()
        connection.sendall(first_words)
        announce()
        while connection.recv(1 << 16):
            pass

    endlessly(one, count)


def connect_unix(target):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(target.removeprefix("unix:"))
    return connection


def connect_tcp(target):
    """From another host, as far as the service can tell."""
    host, _, port = target.rpartition(":")
    return socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0))


def flood_handshakes(target, _):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    endlessly(lambda: context.wrap_socket(connect_tcp(target)).close(), 16)


def flood_tokens(target, _):
    import grpc

    authority = pathlib.Path(os.environ["BULKHEAD_TLS_CA"]).read_bytes()
    credentials = grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(authority), grpc.access_token_call_credentials("f" * 32)
    )
    with grpc.secure_channel(target, credentials) as channel:
        call = channel.unary_unary(LOADER + "GetStatus")
        endlessly(lambda: call(b""), 64)


LOADER = "/bulkhead.v1.Loader/"
FLOODS = {
    "openings": flood_openings,
    "describes": flood_describes,
    "large": lambda target, _: calls(target, LOADER + "Describe", field(1, spec_input(large=True)), 64),
    "wordless": flood_wordless,
    "questions": lambda target, _: calls(target, LOADER + "GetStatus", b"", 16, "unary_unary"),
    "health": lambda target, _: calls(target, "/grpc.health.v1.Health/Check", b"", 64, "unary_unary"),
    "connections": lambda target, _: hold(lambda: connect_unix(target), 1000, b""),
    "metrics": lambda _, port: hold(lambda: socket.create_connection(("127.0.0.1", port)), 64, b"GET /met"),
    "handshakes": flood_handshakes,
    "strangers": lambda target, _: hold(lambda: connect_tcp(target), 1000, b""),
    "tokens": flood_tokens,
    "openings-tls": flood_openings,
    "describes-tls": flood_describes,
}
OVER_TLS = ("handshakes", "strangers", "tokens", "openings-tls", "describes-tls")


# The trainer's side.


class Trainer:
    """Takes batches on a thread of its own."""

    def __init__(self, spec, target):
        import bulkhead

        self.samples = 0
        self.closed = bulkhead.errors.LoaderClosed
        self.loader = bulkhead.Loader(spec, target, timeout=120, copy_below=0)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(self.closed):
            for batch in self.loader.stream():
                self.samples += len(batch["label"])

    def rate(self, seconds):
        before, begin = self.samples, time.perf_counter()
        time.sleep(seconds)
        return (self.samples - before) / (time.perf_counter() - begin)


def beside(trainer, service, kind, port, arguments):
    """A flooded window: the trainer's rate, and the cores that flooder and supervisor took."""
    flooder = subprocess.Popen(
        ["nice", "-n", str(arguments.nice), sys.executable, __file__, "--as", kind, service.target, str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )
    try:
        assert flooder.stdout.readline() == b"flooding\n"
        burst = trainer.rate(arguments.burst)
        pids = {"flooder": flooder.pid, "supervisor": service.process.pid}
        before, begin = {name: cpu_seconds(pid) for name, pid in pids.items()}, time.perf_counter()
        window = {"burst": burst, "rate": trainer.rate(arguments.seconds)}
        wall = time.perf_counter() - begin
        for name, pid in pids.items():
            window[name] = (cpu_seconds(pid) - before[name]) / wall
        return window
    finally:
        flooder.kill()
        flooder.wait()
        flooder.stdout.close()
        time.sleep(1)  # what it left is cleaned up


def measure(arguments, folder):
    """The windows of each kind of flood."""
    draw_photos(f"{folder}/photos", PHOTOS, "--size", SIZE, "--seed", "7")
    token = pathlib.Path(folder, "token")
    token.write_text("0123456789abcdef" * 2)
    tls = [*listen_with_tls(folder), "--token-instead-of-certificate", str(token)]
    issue_client(folder, FLOODER)
    rounds = {}
    for options, over_tls in (([], False), (tls, True)):
        kinds = [kind for kind in arguments.flood if (kind in OVER_TLS) == over_tls]
        if kinds:
            rounds.update(measure_kinds(arguments, folder, kinds, options))
    return rounds


def measure_kinds(arguments, folder, kinds, options):
    """The same of `kinds` at one service, with `options`."""
    spec = {
        "source": {"image_folder": {"path": f"{folder}/photos/folder"}},
        "stages": [{"decode_image": {}}, {"resize": {"size": [224, 224]}}],
        "batch": {"size": 32, "drop_remainder": True},
        "order": {"global": {}},
        "epochs": "forever",
    }
    port = free_port()
    with Service(
        folder, *options, "--root", folder, "--metrics", f"127.0.0.1:{port}", "--recycle-slowdown", "0"
    ) as service:
        trainer = Trainer(spec, service.target)
        trainer.rate(3)
        rounds = {kind: [] for kind in kinds}
        alone = trainer.rate(arguments.seconds)
        for _ in range(arguments.rounds):
            for kind in kinds:
                window = beside(trainer, service, kind, port, arguments)
                after = trainer.rate(arguments.seconds)
                window["ratio"] = window["rate"] / statistics.mean((alone, after))
                window["of_the_rest"] = window["ratio"] / (1 - window["flooder"] / len(os.sched_getaffinity(0)))
                window["burst"] /= alone
                window["alone"], alone = alone, after
                rounds[kind].append(window)
        trainer.loader.close()
        return rounds


def main():
    if sys.argv[1:2] == ["--as"]:
        FLOODS[sys.argv[2]](sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--burst", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nice", type=int, default=10)
    parser.add_argument("--flood", nargs="+", choices=FLOODS, default=list(FLOODS))
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = measure(arguments, folder)
    medians = {
        kind: {key: statistics.median(window[key] for window in windows) for key in windows[0]}
        for kind, windows in rounds.items()
    }
    if arguments.json:
        print(json.dumps({"machine": machine(), "command": " ".join(sys.argv), "medians": medians, "rounds": rounds}))
    else:
        show(medians, arguments)
    lost = [kind for kind, of in medians.items() if of["of_the_rest"] < arguments.least]
    if lost:
        sys.exit(f"beside {', '.join(lost)} the trainer keeps less than {arguments.least:g}")


def show(medians, arguments):
    print(f"{machine()}; medians of {arguments.rounds} rounds of {arguments.seconds:g} s; flooder at nice {arguments.nice}")
    print(f"{'':13}  {'ratio':>5}  {'of rest':>7}  {'burst':>5}  {'alone':>8}  {'beside':>8}  {'flooder':>8}  {'supervisor':>10}")
    for kind, of in medians.items():
        print(f"{kind:13}  {of['ratio']:5.2f}  {of['of_the_rest']:7.2f}  {of['burst']:5.2f}  {of['alone']:6.0f}/s  {of['rate']:6.0f}/s  "
              f"{of['flooder']:4.2f} CPU  {of['supervisor']:6.2f} CPU")


if __name__ == "__main__":
    main()
