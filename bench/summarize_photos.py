"""Prints what bench/photos.sh measured: medians of all rounds, and the ratio of each round."""

import json
import pathlib
import statistics
import sys

MIB = 1024 * 1024


def load(folder: pathlib.Path, stem: str) -> list[dict]:
    """The JSON reports `stem`-1.json, `stem`-2.json … in the order of their rounds."""
    paths = sorted(folder.glob(f"{stem}-*.json"), key=lambda path: int(path.stem.split("-")[-1]))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    limits, runs = load(folder, "limit"), load(folder, "run")
    ratios = [run["samples_per_second"] / limit["images_per_second"] for limit, run in zip(limits, runs)]
    limit = statistics.median(entry["images_per_second"] for entry in limits)
    rate = statistics.median(entry["samples_per_second"] for entry in runs)
    first = runs[0]

    def highest(key: str) -> float:
        return max(run["memory_bytes"][key] for run in runs) / MIB

    pixels = limits[0]["megapixels"] / limits[0]["images"]
    print(f"machine           {first['machine']['cpu']}, {first['machine']['cores']} cores")
    print(f"data              {limits[0]['data']}: {limits[0]['images']} decodes a round, mean {pixels:.3f} MP, "
          f"{limits[0]['mean_file_bytes'] / 1000:.0f} KB")
    print(f"rounds            {len(runs)}")
    print(f"decode limit      {limit:.1f} images/s, one thread")
    print(f"bulkhead          {rate:.1f} samples/s, one worker of one thread")
    print(f"ratio             {statistics.median(ratios):.3f} (each round: {', '.join(f'{r:.3f}' for r in ratios)})")
    print(f"first batch       {statistics.median(run['first_batch_seconds'] for run in runs):.2f} s (median), "
          f"{max(run['first_batch_seconds'] for run in runs):.2f} s (longest)")
    print(f"memory            supervisor {highest('supervisor'):.1f} MiB, worker {highest('largest_worker'):.1f} MiB, "
          f"arena {highest('arena'):.1f} MiB, trainer {highest('client'):.1f} MiB")
    print(f"command           {first['command']}")


if __name__ == "__main__":
    main()
