#!/usr/bin/python3
"""What it costs a trainer to receive batches, by transport: 38.5 MB of float32 a batch, as training on 64 crops of
224 x 224 takes them.

    bench/transport.py [--seconds S] [--rounds N] [--json]
    bench/transport.py --photos FOLDER [--seconds S] [--rounds N] [--json]
    bench/transport.py --normalize [--photos FOLDER] [--seconds S] [--rounds N] [--json]

Each way runs in a process of its own, in turns, against a service of its own whose workers fill batches by one_hot
(150,528 classes are 224 x 224 x 3), which costs them little more than writing the memory: one worker, which can do
more than gRPC can, or two for shared memory.

    cpp-shm, cpp-unix, cpp-tcp        the C++ client (bulkhead bench run)
    cpp-tls                           over TCP with TLS 1.3 and certificates on both sides
    python-shm, python-unix           the Python client
    bare-unix                         a grpcio loop that receives the same messages and drops them

With --photos: workload B of bench/workloads.py (FOLDER: JPEG files, at any depth) by the C++ client over TCP and over TCP
with TLS, in turns. Service and worker have one core, the trainer has another; told are photos a second.

With --normalize: what `normalize: {at: trainer}` saves and costs the Python client, over shared memory, over TCP by Python
alone, and over TCP with bulkhead-receive, which puts the batches into shared memory, in turns: drawn photos of 224 x 224 in batches of 64, normalized by the worker, by the trainer (NumPy), or by a device, for which the
trainer takes the batch as it travelled; with --photos workload B of these photos instead. Service and worker have one core,
trainer and receiver another; nothing is kept of an epoch but seek entries. Told are images a second, which the one worker's
decoding bounds, and user and system time of the trainer's process, and of the receiver's, for 1,000 images.

rate: bytes over wall time, which the workers bound as well. CPU: user and system time of the trainer's process for
each GB.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from support import Service, cpu_seconds, descendants, draw_photos, listen_with_tls, machine, run_json
from workloads import CROP, IMAGENET, STAGES

# As many records as classes: each index is a label.
SPEC = {
    "source": {"range": {"size": 150_528}},
    "stages": [{"one_hot": {"input": "index", "classes": 150_528}}],
    "batch": {"size": 64},
}
WAYS = ["cpp-shm", "cpp-unix", "cpp-tcp", "cpp-tls", "python-shm", "python-unix", "bare-unix"]
WARM_UP_BATCHES = 8


def measure_python(target, transport, seconds):
    import bulkhead

    with bulkhead.Loader(SPEC, target, transport=transport) as loader:
        stream = loader.stream()
        for _ in range(WARM_UP_BATCHES):
            size = sum(array.nbytes for array in next(stream).values())
        batches, begin, cpu = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < seconds:
            next(stream)
            batches += 1
        wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return result(size * batches, wall, cpu)


def result(received, wall, cpu):
    return {"rate_gb_s": received / wall / 1e9, "cpu_s_per_gb": cpu / (received / 1e9)}


def measure_bare(target, seconds):
    """grpcio alone: messages as bytes, dropped. Credits are such that nothing needs to be released."""
    import grpc
    from bulkhead._rpc import proto

    opening = proto.Open(
        spec={"text": {"text": json.dumps(SPEC)}}, name="bare", world_size=1, transport=proto.TRANSPORT_GRPC,
        credits={"batches": 1 << 30, "bytes": 1 << 60},
    )
    requests = iter([proto.StreamRequest(open=opening).SerializeToString()])

    def keep_open():
        yield from requests
        time.sleep(3600)

    options = [("grpc.max_receive_message_length", 16 << 20)]
    with grpc.insecure_channel(target, options=options) as channel:
        call = channel.stream_stream("/bulkhead.v1.Loader/Stream")(keep_open())
        received, begin = 0, None
        for message in call:
            if begin is None:
                if len(message) < 1 << 19:
                    continue
                begin, cpu = time.perf_counter(), time.process_time()
            received += len(message)
            if time.perf_counter() - begin > seconds:
                break
        wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
        call.cancel()
    return result(received, wall, cpu)


def measure_cpp(target, transport, seconds):
    """By `bulkhead bench run`, which counts the CPU time of its whole life: so enough batches are taken."""
    batches = int(seconds * (500 if transport == "shm" else 80))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as spec:
        json.dump(SPEC, spec)
        spec.flush()
        report = run_json("bench", "run", "--spec", spec.name, "--target", target, "--transport", transport,
                          "--batches", batches, "--no-digest", "--json")
    return {
        "rate_gb_s": report["bytes_per_second"] / 1e9,
        "cpu_s_per_gb": report["client_cpu_seconds"] / (report["bytes"] / 1e9),
    }


def measure_photos(photos, secure, seconds):
    """Photos a second of workload B, each end on a core of its own; the first epoch makes seek entries and is not counted."""
    cores = sorted(os.sched_getaffinity(0))
    spec = {
        "source": {"image_folder": {"path": os.path.abspath(photos), "unlabeled": True}},
        "stages": STAGES["B"], "outputs": ["image"], "batch": {"size": 64}, "order": {"global": {}}, "seed": 7, "epochs": "forever",
    }
    with tempfile.TemporaryDirectory() as folder:
        listen = listen_with_tls(folder) if secure else ["--listen", "127.0.0.1:0", "--insecure-tcp"]
        path = f"{folder}/spec.json"
        with open(path, "w") as file:
            json.dump(spec, file)
        os.sched_setaffinity(0, cores[:1])
        try:
            with Service(folder, *listen, "--workers", 1, "--threads", 1, "--root", os.path.abspath(photos)) as service:
                os.sched_setaffinity(0, cores[1:2])
                report = run_json("bench", "run", "--spec", path, "--target", service.target, "--transport", "grpc",
                                  "--epochs-before", 1, "--batches", int(seconds * 8), "--no-digest", "--json")
        finally:
            os.sched_setaffinity(0, cores)
            for name in ("CA", "CERT", "KEY"):  # of a round with TLS; their files go now
                os.environ.pop(f"BULKHEAD_TLS_{name}", None)
    return report["samples_per_second"]


def compare_photos(arguments):
    """Prints what TLS costs workload B."""
    rounds = []
    for number in range(arguments.rounds):
        order = (False, True) if number % 2 else (True, False)
        rounds.append({secure: measure_photos(arguments.photos, secure, arguments.seconds) for secure in order})
    ratios = [both[True] / both[False] for both in rounds]
    told = {
        "tcp_photos_s": statistics.median(both[False] for both in rounds),
        "tls_photos_s": statistics.median(both[True] for both in rounds),
        "tls_to_tcp": statistics.median(ratios),
        "ratios": ratios,
    }
    if arguments.json:
        print(json.dumps({"machine": machine(), "command": " ".join(sys.argv), **told}))
        return
    print(f"{machine()}; medians of {arguments.rounds} rounds of about {arguments.seconds:g} s, a core for each end")
    print(f"B over TCP {told['tcp_photos_s']:.0f} photos/s, with TLS {told['tls_photos_s']:.0f} photos/s")
    print(f"TLS / TCP: {told['tls_to_tcp']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def measure_normalize(folder, stages, at, transport, seconds):
    import bulkhead

    normalize = {**IMAGENET["normalize"], "at": "worker" if at == "worker" else "trainer"}
    spec = {
        "source": {"image_folder": {"path": folder, "unlabeled": True}},
        "stages": [*stages, {"normalize": normalize}, {"layout": {"to": "nchw"}}],
        "outputs": ["image"], "batch": {"size": 64, "drop_remainder": True}, "epochs": "forever",
    }
    options = ["--workers", 1, "--threads", 1, "--root", folder, "--coefficient-cache-bytes", 0]
    options += [] if transport == "shm" else ["--listen", "127.0.0.1:0", "--insecure-tcp"]
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:1])
    with tempfile.TemporaryDirectory() as home, Service(home, *options) as service:
        os.sched_setaffinity(0, cores[1:2])
        with bulkhead.Loader(spec, service.target, transport="grpc" if transport == "tcp" else "shm") as loader:
            stream = loader.stream()
            take = (lambda batch: batch._sent("image")) if at == "device" else (lambda batch: batch["image"])
            for _ in range(WARM_UP_BATCHES):
                take(next(stream))
            images, begin, cpu, received = 0, time.perf_counter(), time.process_time(), receiver_seconds()
            while time.perf_counter() - begin < seconds:
                images += len(take(next(stream)))
            wall, cpu, received = time.perf_counter() - begin, time.process_time() - cpu, receiver_seconds() - received
    os.sched_setaffinity(0, cores)
    return {"images_s": images / wall, "cpu_s_per_1000": 1000 * cpu / images, "receiver_s_per_1000": 1000 * received / images}


def receiver_seconds():
    """CPU time of this process's bulkhead-receive; 0: there is none."""
    programs = {pid: os.path.basename(os.readlink(f"/proc/{pid}/exe")) for pid in descendants(os.getpid())}
    return sum(cpu_seconds(pid) for pid, program in programs.items() if program == "bulkhead-receive")


def compare_normalize(arguments):
    """Prints rates and the trainer's CPU time, for each place and transport."""
    ways = [(at, transport) for at in ("worker", "trainer", "device") for transport in ("shm", "tcp", "receiver")]
    rounds = []
    with tempfile.TemporaryDirectory() as drawn:
        if arguments.photos:
            folder, stages = os.path.abspath(arguments.photos), CROP
        else:
            draw_photos(drawn, 512, "--size", "224x224")
            folder, stages = f"{drawn}/folder", ["decode_image", {"resize": {"size": 224}}]
        for number in range(arguments.rounds):
            order = ways if number % 2 == 0 else ways[::-1]
            measured = {way: measure_normalize(folder, stages, *way, arguments.seconds) for way in order}
            rounds.append({"-".join(way): measured[way] for way in ways})
    medians = {
        way: {key: statistics.median(r[way][key] for r in rounds) for key in values} for way, values in rounds[0].items()
    }
    if arguments.json:
        print(json.dumps({"machine": machine(), "command": " ".join(sys.argv), "medians": medians, "rounds": rounds}))
        return
    print(f"{machine()}; medians of {arguments.rounds} rounds of {arguments.seconds:g} s")
    print(f"{'':16}  {'images/s':>9}  {'CPU s/1,000':>11}  {'receiver':>8}")
    for way, values in medians.items():
        print(f"{way:16}  {values['images_s']:9.0f}  {values['cpu_s_per_1000']:11.4f}  {values['receiver_s_per_1000']:8.4f}")


def measure(way, seconds):
    client, transport = way.split("-")
    with tempfile.TemporaryDirectory() as folder:
        listen = []
        if transport == "tcp":
            listen = ["--listen", "127.0.0.1:0", "--insecure-tcp"]
        elif transport == "tls":
            listen = listen_with_tls(folder)
        with Service(folder, *listen, "--workers", 2 if transport == "shm" else 1) as service:
            name = "shm" if transport == "shm" else "grpc"
            if client == "cpp":
                return measure_cpp(service.target, name, seconds)
            if client == "bare":
                return measure_bare(service.target, seconds)
            return measure_python(service.target, name, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--photos", metavar="FOLDER")
    parser.add_argument("--normalize", action="store_true")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(measure(arguments.way, arguments.seconds)))
        return
    if arguments.normalize:
        compare_normalize(arguments)
        return
    if arguments.photos:
        compare_photos(arguments)
        return
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append({})
        for way in WAYS:
            output = subprocess.run(
                [sys.executable, __file__, "--way", way, "--seconds", str(arguments.seconds)],
                check=True, stdout=subprocess.PIPE,
            ).stdout
            rounds[-1][way] = json.loads(output)
    medians = {
        way: {key: statistics.median(r[way][key] for r in rounds) for key in rounds[0][way]} for way in WAYS
    }
    ratio = statistics.median(r["python-unix"]["rate_gb_s"] / r["bare-unix"]["rate_gb_s"] for r in rounds)
    if arguments.json:
        print(json.dumps({"machine": machine(), "command": " ".join(sys.argv), "medians": medians,
                          "python_to_bare": ratio, "rounds": rounds}))
        return
    print(f"{machine()}; medians of {arguments.rounds} rounds of {arguments.seconds:g} s")
    print(f"{'':12}  {'rate GB/s':>9}  {'CPU s/GB':>8}")
    for way, values in medians.items():
        print(f"{way:12}  {values['rate_gb_s']:9.2f}  {values['cpu_s_per_gb']:8.4f}")
    print(f"python-unix / bare-unix: {ratio:.2f}")


if __name__ == "__main__":
    main()
