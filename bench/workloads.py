#!/usr/bin/python3
"""The usual image pipelines against the yardstick: libjpeg-turbo decoding the same files fully on one thread.

    bench/workloads.py FOLDER [--rounds N] [--copies N] [--ways WAY …] [--json]        FOLDER: JPEG files, at any depth

    A          random_resized_crop 224, random flip, uint8 NHWC
    B          the same, normalized to float32 NCHW
    C          TFRecords, decode, resize 224
    C, tar     the same photos in tars, each with a label of its own
    detection  TFRecords with eight boxes an image, decode, random flip, resize 640, uint8, boxes

Service and client are included: one worker of one thread, batches of 64 over shared memory, taken by a client that does
nothing with them; processes may run on either core. An epoch is every file under N names. Each over shared memory and over
gRPC. Beside a single epoch, which makes no seek entries: A and B in the first of several epochs, which makes them, and in
the second, which uses them; A in a first epoch that keeps coefficients in passing; A, B and C by coefficients of all images,
which `bulkhead index` kept ahead, in the third epoch (the first one takes less time than the memory of its batches); A with two workers and with two threads, A as a library in one process (which shows what
service and transport cost), what two threads make of the yardstick itself, and the memory (PSS) of all processes of A with
a trainer in Python. All ways take turns in each round, as a machine's speed drifts; what is printed are medians over the
rounds of the ratios within a round. With --ways these ways alone take turns: --ways C "C, tar".
"""

import argparse
import functools
import io
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import box_records
from support import BIN, ROOT, Service, descendants, machine, pss, run_json

CROP = ["decode_image", {"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]
IMAGENET = {"normalize": {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}}
STAGES = {
    "A": CROP,
    "B": [*CROP, IMAGENET, {"layout": {"to": "nchw"}}],
    "C": ["decode_image", {"resize": {"size": 224}}],
    "C, tar": ["decode_image", {"resize": {"size": 224}}],
    "detection": ["decode_image", {"boxes": {"format": "xyxy", "relative": True}}, "random_horizontal_flip",
                  {"resize": {"size": 640}}],
}
OUTPUTS = {"detection": ["image", "boxes"]}
# These stand for options that depend on the data.
FIRST_OF_TWO = ["first of two epochs"]
KEEPING = ["coefficients are kept in passing"]
KEPT = ["by coefficients"]
# way: (workload, arguments of bench run). What is compared with each other stands side by side.
ONE = ["--workers", "1", "--threads", "1"]
GRPC = [*ONE, "--transport", "grpc"]
WAYS = {
    "A, in process": ("A", ["--in-process", "--threads", "1"]),
    "A": ("A", ONE),
    "A, two workers": ("A", ["--workers", "2", "--threads", "1"]),
    "A, two threads": ("A", ["--workers", "1", "--threads", "2"]),
    "B": ("B", ONE),
    "C": ("C", ONE),
    "C, tar": ("C, tar", ONE),
    "detection": ("detection", ONE),
    "A, making entries": ("A", [*ONE, *FIRST_OF_TWO]),
    "A, second epoch": ("A", [*ONE, "--epochs-before", "1"]),
    "B, making entries": ("B", [*ONE, *FIRST_OF_TWO]),
    "B, second epoch": ("B", [*ONE, "--epochs-before", "1"]),
    "A, keeping coefficients": ("A", [*ONE, *KEEPING, *FIRST_OF_TWO]),
    **{f"{workload}, by coefficients": (workload, [*ONE, *KEPT, "--epochs-before", "2"]) for workload in "ABC"},
    **{f"{workload} over gRPC": (workload, GRPC) for workload in STAGES if workload != "C, tar"},
}
COMPARED = {
    "decode limit, two threads / one": ("decode limit, two threads", "decode limit"),
    "two workers / one": ("A, two workers", "A"),
    "two threads / one": ("A, two threads", "A"),
    "service / in process": ("A", "A, in process"),
    "tar / TFRecords": ("C, tar", "C"),
    "keeping coefficients / not": ("A, keeping coefficients", "A, making entries"),
}
TRAINER = """
import sys
import bulkhead
with bulkhead.Loader(sys.argv[1], workers=1) as loader:
    for number, batch in enumerate(loader.stream()):
        if number == 8:
            print("ready", flush=True)
"""
LOOKS, LOOK_SECONDS = 20, 0.1


def images_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def link_copies(photos, folder, copies):
    """The files of `photos` under so many names each."""
    for path in images_of(photos):
        for number in range(copies):
            link = folder / str(number) / path.relative_to(photos)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.resolve())


def write_tars(photos, folder):
    """The photos as WebDataset writes them, in a tar for each copy."""
    for copy in sorted(photos.iterdir()):
        with tarfile.open(folder / f"photos-{copy.name}.tar", "w") as tar:
            for number, path in enumerate(images_of(copy)):
                for ending, data in (("jpg", path.read_bytes()), ("cls", b"%d" % (number % 10))):
                    member = tarfile.TarInfo(f"{number:06}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def write_specs(photos, folder):
    specs = {}
    for workload, stages in STAGES.items():
        spec = {"stages": stages, "batch": {"size": 64}, "epochs": 1, "order": "global"}
        spec["outputs"] = OUTPUTS.get(workload, ["image"])
        if workload == "detection":
            spec["source"] = {"tfrecord": {"files": "boxes-*.tfrecord"}}
            boxes = {"shape": [-1, 4], "max_count": box_records.BOXES}
            spec["features"] = {"image": {"bytes": {}}, "boxes": {"float": boxes}}
        elif workload == "C, tar":
            spec["source"] = {"tar": {"files": "photos-*.tar"}}
        elif workload == "C":
            spec["source"] = {"tfrecord": {"files": "packed/*.tfrecord"}}
            spec["features"] = {"image": {"bytes": {}}}
        else:
            spec["source"] = {"image_folder": {"path": str(photos.resolve()), "unlabeled": True}}
        specs[workload] = folder / f"{workload}.json"
        specs[workload].write_text(json.dumps(spec))
    return specs


def trainer_memory(spec):
    """The most PSS of a Python trainer, its service and its worker together that was seen while it takes batches."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "client/python")}
    trainer = subprocess.Popen([sys.executable, "-c", TRAINER, spec], env=environment, text=True,
                               stdout=subprocess.PIPE)
    trainer.stdout.readline()
    memory = 0
    for _ in range(LOOKS):
        time.sleep(LOOK_SECONDS)
        memory = max(memory, sum(map(pss, descendants(trainer.pid))))
    trainer.terminate()
    trainer.wait()
    return memory


def measure(arguments, folder):
    folder = pathlib.Path(folder)
    photos = pathlib.Path(arguments.folder)
    copies = folder / "photos"
    link_copies(photos, copies, arguments.copies)
    subprocess.run([BIN / "bulkhead", "pack", copies, folder / "packed"], check=True, stdout=subprocess.DEVNULL)
    write_tars(copies, folder)
    box_records.write(images_of(photos), folder / "boxes-0.tfrecord")
    for number in range(1, arguments.copies):
        shutil.copyfile(folder / "boxes-0.tfrecord", folder / f"boxes-{number}.tfrecord")
    specs = write_specs(copies, folder)
    for workload in {workload for workload, options in map(WAYS.get, arguments.ways) if KEPT[0] in options}:
        kept = run_json("index", specs[workload], "--coefficients", "--workers", 1, "--json",
                        "--cache-dir", folder / f"kept-{workload}/cache")
        sys.stderr.write(f"{workload}: the coefficients of {kept['coefficients_made']} files were kept\n")
    batches = -(-len(images_of(copies)) // 64)
    rounds = []
    for number in range(arguments.rounds):
        limits = {threads: run_json("bench", "decode-limit", photos, "--threads", threads, "--repeat", arguments.copies,
                                    "--json")["images_per_second"] for threads in (1, 2)}
        result = {"decode limit": limits[1], "decode limit, two threads": limits[2]}
        for way in arguments.ways:
            workload, options = WAYS[way]
            # A single epoch makes no seek entries, and shall find none of another way's.
            home = folder / ("seek" if "--epochs-before" in options else "plain")
            keep = "auto" if KEPT[0] in options or KEEPING[0] in options else "0"
            if KEPT[0] in options:
                home = folder / f"kept-{workload}"
            spec = specs[workload]
            if options[-len(FIRST_OF_TWO):] == FIRST_OF_TWO:
                spec = folder / "two_epochs.json"
                spec.write_text(json.dumps({**json.loads(specs[workload].read_text()), "epochs": 2}))
                home = folder / f"fresh-{workload}-{keep}-{number}"
                options = [*options[:-len(FIRST_OF_TWO)], "--batches", batches]
            options = [option for option in options if option not in (*KEPT, *KEEPING)]
            run = functools.partial(run_json, "bench", "run", "--spec", spec, "--no-digest", "--json")
            if "--in-process" in options:
                report = run(*options)
            else:
                home.mkdir(exist_ok=True)
                own, others = options[:4], options[4:]  # numbers of workers and threads
                with Service(home, "--root", "/", *own, "--coefficient-cache-bytes", keep) as service:
                    report = run(*others, "--target", service.target)
            result[way] = report["samples_per_second"]
        rounds.append(result)
        sys.stderr.write(f"round {number + 1} of {arguments.rounds}\n")
    endless = json.loads(specs["A"].read_text())
    del endless["epochs"]
    specs["A"].write_text(json.dumps(endless))
    return rounds, trainer_memory(str(specs["A"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds, memory = measure(arguments, folder)
    ratios = {way: [r[way] / r["decode limit"] for r in rounds] for way in arguments.ways}
    for name, (one, other) in COMPARED.items():
        if one in rounds[0] and other in rounds[0]:
            ratios[name] = [r[one] / r[other] for r in rounds]
    if arguments.json:
        print(json.dumps({"machine": machine(), "command": " ".join(sys.argv), "rounds": rounds, "ratios": ratios,
                          "memory_pss_bytes": memory}))
        return
    print(f"{machine()}; {len(images_of(pathlib.Path(arguments.folder)))} files of {arguments.folder}; {arguments.rounds} rounds; "
          f"bench/workloads.py {' '.join(sys.argv[1:])}")
    limit = statistics.median(r["decode limit"] for r in rounds)
    print(f"decode limit {limit:.0f} images/s; as shares of it, but for those that name two:")
    for way, values in ratios.items():
        each = ", ".join(f"{value:.3f}" for value in values)
        print(f"  {way:31} {statistics.median(values):6.3f}   ({each})")
    print(f"memory of A, all processes, trainer in Python: {memory / (1 << 20):.0f} MiB PSS")


if __name__ == "__main__":
    main()
