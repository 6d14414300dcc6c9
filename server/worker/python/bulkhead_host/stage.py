"""Calls the function of one stage."""

from __future__ import annotations

import ctypes
import gc
import inspect
import re
import struct
import sys
import traceback

from bulkhead_host.functions import advice, describe, failed_module, import_failed, import_function
from bulkhead_host.memory import MAX_CACHED, READ, WRITE, view_of_memory
from bulkhead_host.output import Output
from bulkhead_host.sample_random import Generators
from bulkhead_host.terminal import NoTerminal
from bulkhead_host.verdict import FAILED, OK, UNUSABLE, Refusal

_FIRST_WORDS = 4  # three of random numbers, and the epoch


class Stage:
    """One stage: its function, and how to call it."""

    def __init__(self, numpy, generators: Generators, spec: dict, inputs: list[str]):
        self.name = spec["function"]
        self._numpy = numpy
        self._generators = generators
        self.function = import_function(spec["function"])
        if inspect.iscoroutinefunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise Refusal(f"{self.name} is an `async def` function, which cannot be a stage: write `def`")
        self._names = spec["inputs"]
        # (dtype, dimensions); None: bytes.
        self._inputs = [_parse_input(numpy, text) for text in inputs]
        self._outputs = [Output(numpy, declared) for declared in spec["outputs"]]
        self._of_batch = self._outputs[0].of_batch
        self._arguments = {
            name: _parse_argument(value) for name, value in spec.get("arguments", {}).items()
        }
        given = self._check_signature(spec["function"])
        self._wants_rng = "rng" in given
        self._wants_epoch = "epoch" in given
        if self._wants_rng:
            self._arguments["rng"] = self._generators.rng
        count = _FIRST_WORDS
        self.addresses = []  # which words of a call are addresses
        for kind in self._inputs:
            self.addresses.append(count)
            count += 3 + (kind[1] if kind else 0)
        self.addresses += range(count, count + 2 * len(self._outputs), 2)
        self._first_output = count
        self._words = struct.Struct(f"={_FIRST_WORDS}Q{count - _FIRST_WORDS + 2 * len(self._outputs)}q")
        self._calls: dict[int, memoryview] = {}
        self._memory: dict[tuple[int, int], memoryview] = {}

    def _check_signature(self, function: str) -> set[str]:
        """What the function takes of `rng` and `epoch`. Refuses a function that cannot take the spec's arguments."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return set()  # a builtin without a signature
        names = list(signature.parameters)
        rng = signature.parameters.get("rng")
        wants_rng = rng is not None and "rng" not in self._arguments
        if wants_rng and rng.kind is not inspect.Parameter.KEYWORD_ONLY:
            wants_rng = names.index("rng") >= len(self._inputs)
        given = {"rng"} if wants_rng else set()
        epoch = signature.parameters.get("epoch")
        if epoch is not None and epoch.kind is inspect.Parameter.KEYWORD_ONLY and "epoch" not in self._arguments:
            given.add("epoch")
        keywords = {**self._arguments, **dict.fromkeys(given)}
        try:
            signature.bind(*self._names, **keywords)
        except TypeError as error:
            raise Refusal(
                f"{function}{signature} cannot be called with {len(self._names)} inputs ({', '.join(self._names)})"
                + (f" and the arguments {', '.join(sorted(self._arguments))}" if self._arguments else "")
                + f": {error}",
            ) from None
        return given

    def run(self, address: int) -> int:
        call = self._calls.get(address)
        if call is None:
            call = self._remember(self._calls, address, address, self._words.size, WRITE)
        words = self._words.unpack_from(call)
        self._generators.renew_legacy(words[2])
        if self._wants_rng:
            self._generators.renew_rng(words[0], words[1])
        if self._wants_epoch:
            self._arguments["epoch"] = words[3]
        arguments = self._inputs_at(words)
        views = [argument for argument in arguments if type(argument) is self._numpy.ndarray]
        before = list(map(sys.getrefcount, views))
        try:
            result = self.function(*arguments, **self._arguments)
        except MemoryError:
            raise
        except NoTerminal as raised:
            raise _failure(raised) from None  # pdb keeps the frames, and so the arguments
        except BaseException as raised:
            failure = _failure(raised)
            traceback.clear_frames(raised.__traceback__)  # they hold the arguments
        else:
            failure = None
        if failure is not None:
            if list(map(sys.getrefcount, views)) != before:
                self._check_kept(arguments, views, before)
            raise failure
        outputs = self._outputs
        if len(outputs) == 1 and type(result) is not tuple:
            result = (result,)
        elif not isinstance(result, (tuple, list)) or len(result) != len(outputs):
            raise Refusal(self._wrong_count(result))
        at = self._first_output
        if self._of_batch and len(outputs) > 1:
            result = self._apart(result, views)
        for i, output in enumerate(outputs):
            count = output.store(result[i], words[at + 2 * i], words[at + 2 * i + 1])
            struct.pack_into("=q", call, 8 * (at + 2 * i + 1), count)
        result = None
        if list(map(sys.getrefcount, views)) != before:
            self._check_kept(arguments, views, before)
        return OK

    def _apart(self, result, views) -> list:
        """Outputs of a batch overwrite its inputs, so copies those outputs that are views of inputs."""
        numpy = self._numpy
        apart = []
        for output, value in zip(self._outputs, result):
            if not isinstance(value, numpy.ndarray) and not output.is_bytes:
                value = output.as_array(value)  # another library's tensor may be a view too
            is_array = isinstance(value, numpy.ndarray)
            shared = is_array and any(numpy.may_share_memory(value, view) for view in views)
            apart.append(numpy.array(value) if shared else value)
        return apart

    def _inputs_at(self, words) -> list:
        arguments = []
        at = _FIRST_WORDS
        for kind in self._inputs:
            address, size, stride = words[at], words[at + 1], words[at + 2]
            at += 3
            if kind is None:
                arguments.append(ctypes.string_at(address, size))
                continue
            dtype, dimensions = kind
            shape = words[at:at + dimensions]
            at += dimensions
            arguments.append(self._view(address, size, stride, shape, dtype))
        return arguments

    def _view(self, address, size, stride, shape, dtype):
        if size == 0:
            return self._numpy.zeros(shape, dtype)
        memory = self._memory.get((address, size))
        if memory is None:
            memory = self._remember(self._memory, (address, size), address, size, READ)
        if not shape:
            return self._numpy.ndarray((), dtype, memory)[()]
        if stride == 0:
            return self._numpy.ndarray(shape, dtype, memory)
        # Rows of an image that is part of a larger one.
        return self._numpy.ndarray(shape, dtype, memory, 0, (stride, shape[2] * dtype.itemsize, dtype.itemsize))

    @staticmethod
    def _remember(cache, key, address, size, mode):
        if len(cache) >= MAX_CACHED:
            cache.clear()
        view = cache[key] = view_of_memory(address, size, mode)
        return view

    def _wrong_count(self, result) -> str:
        names = ", ".join(output.name for output in self._outputs)
        if isinstance(result, (tuple, list)):
            got = f"{len(result)} values"
        else:
            got = "None" if result is None else f"one {type(result).__name__}"
        return f"it returned {got}, but is declared to return {len(self._outputs)} ({names}); correct the function, or `outputs` in the spec"

    def _check_kept(self, arguments, views, before) -> None:
        """Checks that no code keeps an input: it is a view of memory that the next sample reuses."""
        gc.collect()  # so that reference cycles do not count
        after = list(map(sys.getrefcount, views))
        for view, count, earlier in zip(views, after, before):
            if count <= earlier:
                continue
            name = next(name for name, one in zip(self._names, arguments) if one is view)
            raise Refusal(
                f"the function keeps its input `{name}`, or a view of it, after it returned, but the next "
                + ("batch" if self._of_batch else "sample") + " reuses that memory. Keep a copy (.copy()) instead",
            )


def _failure(raised: BaseException) -> Refusal:
    """What an exception of the function means."""
    module = failed_module(raised)
    if module:  # a failed import is no error of the sample
        return Refusal(import_failed(module, raised))
    return Refusal(describe(raised) + advice(raised), UNUSABLE if isinstance(raised, NoTerminal) else FAILED)


def _parse_input(numpy, text: str):
    if text == "bytes":
        return None
    name, _, dimensions = text.partition("/")
    return numpy.dtype("uint16" if name == "bfloat16" else name), int(dimensions)


def _parse_argument(text: str):
    """Converts YAML booleans and numbers, which arrive as text."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return text
