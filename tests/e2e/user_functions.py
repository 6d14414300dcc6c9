"""What the tests' Python stages call."""

import copy
import ctypes
import os
import random
import socket
import sys
import threading
import time

import numpy as np

kept = []
imported_from_elsewhere = random.gauss


def halve(image):
    assert not image.flags.writeable
    return image // 2


def describe(image, index, path, rng=None, *, factor=1, name="", flag=False):
    """A vector of what came in."""
    assert image.dtype == np.uint8 and image.ndim == 3
    assert isinstance(path, bytes)
    return np.array([image.mean() * factor, index, len(path), len(name), flag], np.float64)


def number_boxes(boxes, *, first):
    """A label for each box, from `first` on."""
    return np.arange(first, first + len(boxes))


def beside_compiled_files(index):
    """What `number` says, in the folder that PYTHONPYCACHEPREFIX names."""
    with open(os.path.join(sys.pycache_prefix, "number")) as file:
        return int(file.read())


def index_squared(index):
    return index * index


def rows(index):
    """As many rows as the index says, and its digits as bytes."""
    return np.full((int(index), 2), index, np.float32), b"%d" % index


def draws(index, rng):
    """From every generator that a function may use; an odd number of normal deviates, so that one is left over."""
    return np.array(
        [rng.random(), rng.integers(1 << 40), random.gauss(0, 1), random.random(), random.getrandbits(32),
         np.random.rand(), np.random.standard_normal(), np.random.randint(1 << 30), index],
        np.float64,
    )


def needs_even(index):
    if index % 2:
        return odd(index)
    return index


def commands_a_terminal(index):
    if index == 0:
        print("\nprinted\twith an \u00fc \033[2J", flush=True)
        os.write(2, b"\nwritten \033[2J\n")
        raise ValueError("first line\n\033]0;forged\007second \x9b line")
    return index


def looks_for_what_others_print(index):
    try:
        with open("/proc/self/fd/1", "rb"):
            found = 1
    except OSError as error:
        found = -error.errno
    if index == 0:
        os.write(1, b"whole line\nlast words")
        ctypes.string_at(0)
    return index * 0 + found


def odd(index):
    raise ValueError(f"{index} is odd")


def raises_from_another(index):
    try:
        return {}[int(index)]
    except KeyError as error:
        raise ValueError("no such box") from error


def complains_at_length(label):
    if label % 2:
        raise ValueError("y" * 5000)
    return label


def keep_input(image):
    kept.append(image[2:])
    return np.float64(0)


def keep_and_raise(image):
    kept.append(image)
    raise ValueError("kept it")


def raise_in_cycle(image):
    cycle = [image]
    cycle.append(cycle)
    raise ValueError("an ordinary one")


def keep_in_cycle(image):
    cycle = [image]
    cycle.append(cycle)
    return np.float64(image.sum())


def as_list(index):
    return [0.5, float(index)]


def as_float64(index):
    return np.zeros(3, np.float64)


def two_values(index):
    return np.float32(1), np.float32(2)


def by_index(index):
    return np.zeros(int(index), np.float32)


def nothing(index):
    pass


def yields(index):
    yield float(index)


async def waits(index):
    return float(index)


async def waits_and_yields(index):
    yield float(index)


def leak(index):
    time.sleep(0.001)  # the pace of work
    if index % 20 == 0:
        kept.append(np.ones(1 << 17))  # 1 MiB
    return index


def leak_objects(index):
    time.sleep(0.001)
    kept.append([object() for _ in range(1000)])
    return index


def too_much(index):
    if index == 7:
        np.ones(1 << 31)
    return index


def raises_memory_error(index):
    if index == 7:
        raise MemoryError("of the function's own")
    return index


def do(index, what="", place=""):
    if what == "socket":
        socket.create_connection(("127.0.0.1", 80))
    elif what == "write":
        open(place, "w")
    elif what == "read":
        open(place).read()
    elif what == "fork":
        os.fork()
    elif what.startswith("C "):  # past Python, whose calls are denied by name
        library = ctypes.CDLL(None, use_errno=True)
        if (library.fork() if what == "C fork" else library.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0)) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return index


def size_of(index, place=""):
    with open(place) as file:
        return np.int64(len(file.read()) + index)


def environment(index):
    return np.array([hash("Bulkhead") % (1 << 40), float(os.environ["OMP_NUM_THREADS"]), "LD_PRELOAD" in os.environ,
                     len(sys.argv)], np.float64)


def pid(index):
    return os.getpid()


not_a_function = 3


def _wait_for_ever():
    while True:
        time.sleep(0.1)


def hangs(index, *, at):
    if index == at:
        _wait_for_ever()
    return index


def crashes(index, *, at):
    if at in (-1, index):
        ctypes.string_at(0)
    return index


def waits_a_little(index):
    time.sleep(0.002)
    return index


def takes_a_second(index):
    time.sleep(1)
    return index


_idle = []


def keeps_idle_threads(index):
    while len(_idle) < 30:
        _idle.append(threading.Thread(target=time.sleep, args=(1000,), daemon=True))
        _idle[-1].start()
    time.sleep(0.005)  # the pace of work
    return index


def closes_descriptors(index):
    """As a library does that closes a descriptor twice."""
    if index == 21:
        os.closerange(3, 256)
    return index


def three_frames(image):
    return np.concatenate([image, 255 - image, image[::-1]], axis=2)


def fails_deep_in_a_library(index):
    return copy.deepcopy([[[[[[[[threading.Lock()]]]]]]]])


def reads_a_variable(index):
    return len(os.environ["NOT_PASSED_ON"])
