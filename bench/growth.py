"""How much the memory of the process that calls this grows while it takes batches."""

import array
import ctypes
import math
import statistics
import sys
import time

# An epoch is 16 batches of 64 rows of 1,024 float32: indices are classes.
SPEC = {
    "source": {"range": {"size": 1024}},
    "stages": [{"one_hot": {"input": "index", "classes": 1024}}],
    "batch": {"size": 64},
}
_POINTS = 400
_SETTLING_SECONDS = 0.02


def growth_over(batches, count):
    """Of what is resident and of what malloc gave out, by each of `count` batches of an endless iterator: the slope and
    its 95% bounds in bytes, behind the first two fifths."""
    # Memory of its own for the points, touched before they are taken.
    every = max(count // _POINTS, 1)
    held = array.array("q", [0]) * (count // every)
    used = array.array("q", held)
    for index, _ in enumerate(batches):
        if index % every == 0:
            time.sleep(_SETTLING_SECONDS)  # so that as many batches are under way each time
            held[index // every] = anonymous_bytes()
            used[index // every] = _malloc_bytes()
        if index == every * len(held) - 1:
            break
    return {"resident": _slope_of(held, every), "in_use": _slope_of(used, every)}


def growth_text(growth, count):
    return (
        f"{growth['slope']:.2f} ({growth['low']:.2f} to {growth['high']:.2f}) bytes a batch over {count} batches,"
        f" {growth['last'] / 2**20:.1f} MiB at the end"
    )


def anonymous_bytes(pid="self"):
    """Memory of a process without files that it has mapped, and without arenas."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    sys.exit("this kernel does not tell RssAnon")


class _MallocInfo(ctypes.Structure):
    """glibc's struct mallinfo2; of all arenas together."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


_mallinfo2 = ctypes.CDLL(None).mallinfo2
_mallinfo2.restype = _MallocInfo


def _malloc_bytes():
    """In use, mapped blocks included."""
    info = _mallinfo2()
    return info.uordblks + info.hblkhd


def _slope_of(sizes, every):
    points = [(index * every, size) for index, size in enumerate(sizes)]
    return _theil_sen(points[len(points) * 2 // 5 :])


def _theil_sen(points):
    """The median slope of all pairs, and Sen's bounds of it at 95%."""
    slopes = sorted(
        (b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1 :]
    )
    n = len(points)
    width = 1.96 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(int((len(slopes) - width) / 2), 0)
    high = min(int((len(slopes) + width) / 2) + 1, len(slopes) - 1)
    return {"slope": statistics.median(slopes), "low": slopes[low], "high": slopes[high],
            "first": points[0][1], "last": points[-1][1]}
