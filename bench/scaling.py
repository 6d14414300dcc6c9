#!/usr/bin/python3
"""The constants of docs/scaling.md: what a sample, a stream and a connection cost, with replicas on hosts of their own.

    bench/scaling.py [--data FOLDER] [--replicas N] [--rates R …] [--seconds S] [--streams N] [--connections N] [--json]

Each replica, of one worker, is in a network namespace; a link leads from it to the trainer's. All is spoken over mutual
TLS. Must be root.

samples      by 1 to N replicas, over links of each rate (in the words of tc; 0: as fast as the machine): samples per
             second, bytes on the links for a sample, CPU seconds of services with their workers, and of the trainer, for
             1,000 samples.
streams      memory (PSS) of a service with its workers, more for each stream that 1 to N replicas make together and whose
             trainer takes nothing.
connections  memory (PSS) of a service, more for each connection without a stream, over mutual TLS and over plain TCP.

Photos are decoded, cropped by random_resized_crop to 224 x 224 and flipped, in batches of 64. Without --data 300 photos
are drawn by `bulkhead synth`.
"""

import argparse
import contextlib
import itertools
import json
import logging
import os
import pathlib
import socket
import ssl
import sys
import tempfile
import time

from support import ROOT, Service, cpu_seconds, crop_spec, descendants, machine, photos_of, pss

sys.path += [str(ROOT / "tests/fleet"), str(ROOT / "tests/e2e")]
from hosts import Host, enter_a_network_of_its_own, mutual_tls  # noqa: E402

import bulkhead  # noqa: E402

WARM_UP_BATCHES = 30
CONNECTIONS_OF_A_HOST = 200  # a service takes 256 at once
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # RFC 9113, 3.4: with empty SETTINGS


class Replica(Service):
    """A service of one worker on a host of its own."""

    def __init__(self, home, root, host, *options):
        home.mkdir()
        self.host = host
        super().__init__(home, "--listen", f"{host.address}:0", "--root", root, "--workers", 1,
                         "--threads", 1, *options, command=host.command)

    def cpu_seconds(self):
        return sum(map(cpu_seconds, descendants(self.process.pid)))

    def memory(self):
        """Bytes of PSS of the service and its workers."""
        return sum(map(pss, descendants(self.process.pid)))


def samples_of(spec, replicas, seconds):
    """Of one stream that `replicas` make together."""

    def spent():
        services = sum(each.cpu_seconds() for each in replicas)
        return services, time.process_time(), sum(each.host.received() for each in replicas)

    with bulkhead.Loader(spec, [each.target for each in replicas], timeout=120) as loader:
        batches = loader.stream()
        for _ in range(WARM_UP_BATCHES):
            next(batches)
        before, began, samples = spent(), time.monotonic(), 0
        while time.monotonic() - began < seconds:
            samples += next(batches).valid_count
        took = time.monotonic() - began
        services, trainer, received = (after - then for then, after in zip(before, spent()))
    return {
        "samples_per_second": samples / took,
        "bytes_per_sample": received / samples,
        "service_cpu_seconds_per_1000": 1000 * services / samples,
        "trainer_cpu_seconds_per_1000": 1000 * trainer / samples,
    }


def memory_of_streams(spec, replicas, number):
    """Bytes more in one of `replicas` for a stream that they make together and whose trainer took one batch."""
    with contextlib.ExitStack() as open_ones:
        memory = []
        for rank in range(number + 1):
            options = {"rank": rank, "world_size": number + 1, "name": f"job-{rank}", "timeout": 120}
            loader = open_ones.enter_context(bulkhead.Loader(spec, [each.target for each in replicas], **options))
            loader.next_batch()
            time.sleep(2.0)  # it fills its slots
            memory.append(replicas[0].memory())
        return (memory[-1] - memory[0]) / number


def memory_of_connections(service, sources, number, wrap):
    """Bytes more of `service` for a connection without a stream, from the addresses `sources` in turns; `wrap` makes TLS
    of a socket."""
    host, port = service.target.split(":")
    before = pss(service.process.pid)
    with contextlib.ExitStack() as open_ones:
        for source in itertools.islice(itertools.cycle(sources), number):
            connection = open_ones.enter_context(wrap(socket.create_connection((host, int(port)), 30, (source, 0))))
            connection.sendall(PREFACE)
            assert connection.recv(9), "the service closed the connection"
        return (pss(service.process.pid) - before) / number


def tls_by_environment(host):
    """A function that makes TLS of a socket that is connected to `host`."""
    files = [os.environ[f"BULKHEAD_TLS_{name}"] for name in ("CA", "CERT", "KEY")]
    context = ssl.create_default_context(cafile=files[0])
    context.load_cert_chain(*files[1:])
    context.set_alpn_protocols(["h2"])
    return lambda plain: context.wrap_socket(plain, server_hostname=host)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--rates", nargs="+", default=["0", "1gbit", "500mbit"])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.getLogger("bulkhead").setLevel(logging.ERROR)
    enter_a_network_of_its_own()
    with contextlib.ExitStack() as end:
        home = pathlib.Path(end.enter_context(tempfile.TemporaryDirectory()))
        data = photos_of(options.data, home)
        spec = crop_spec(data)
        trainers = -(-options.connections // CONNECTIONS_OF_A_HOST)
        hosts = [
            end.enter_context(contextlib.closing(Host(number + 1, trainers))) for number in range(options.replicas + 1)
        ]
        access, environment = mutual_tls(hosts, home)
        os.environ.update(environment)
        replicas = [end.enter_context(Replica(home / host.address, data, host, *access)) for host in hosts]
        quiet = replicas.pop()
        report = {"machine": machine(), "data": str(data), "command": " ".join(sys.argv)}
        report.update(samples=[], bytes_per_stream=[])
        number, tls = options.connections, tls_by_environment(quiet.host.address)
        report["bytes_per_connection"] = {"tls": memory_of_connections(quiet, quiet.host.trainers, number, tls)}
        (home / "plain").mkdir()
        with Service(home / "plain", "--listen", "127.0.0.1:0", "--insecure-tcp") as plain:
            sources = [f"127.0.0.{10 + each}" for each in range(trainers)]
            report["bytes_per_connection"]["plain"] = memory_of_connections(plain, sources, number, lambda tcp: tcp)
        for number in range(1, options.replicas + 1):
            report["bytes_per_stream"].append(memory_of_streams(spec, replicas[:number], options.streams))
        for rate, number in itertools.product(options.rates, range(1, options.replicas + 1)):
            for replica in replicas:
                replica.host.limit(None if rate == "0" else rate)
            row = samples_of(spec, replicas[:number], options.seconds)
            report["samples"].append({"link": rate, "replicas": number, **row})
    if options.json:
        return print(json.dumps(report))
    print(f"machine  {report['machine']}\ndata     {report['data']}\ncommand  {report['command']}")
    print(f"{'link':9} {'replicas':8} {'samples/s':>9} {'bytes/sample':>12} {'services':>9} {'trainer':>8}  CPU s for 1,000")
    for row in report["samples"]:
        print(f"{row['link']:9} {row['replicas']:<8} {row['samples_per_second']:9.0f} {row['bytes_per_sample']:12.0f} "
              f"{row['service_cpu_seconds_per_1000']:9.3f} {row['trainer_cpu_seconds_per_1000']:8.3f}")
    streams = ", ".join(f"{each / 2**20:.1f}" for each in report["bytes_per_stream"])
    print(f"memory   of a replica: {streams} MiB for a stream more that it makes alone, with another, …; "
          f"{report['bytes_per_connection']['tls'] / 2**10:.1f} KiB for a connection without one over mutual TLS, "
          f"{report['bytes_per_connection']['plain'] / 2**10:.1f} KiB over plain TCP ({options.connections} of them)")


if __name__ == "__main__":
    main()
