"""The Python side of a worker with Python stages.

bulkheadd starts the user's interpreter with this file, and `bulkhead validate --purity` with --serve-fd. It loads the worker itself, a shared library, through ctypes and hands it
two functions: one imports a stage's function, one calls it. The worker's threads come here for the call alone; all
else they do without the interpreter's lock. Nothing beside the standard library and NumPy is needed, and nothing is compiled.
"""

from __future__ import annotations

import ctypes
import difflib
import gc
import importlib
import importlib.util
import inspect
import json
import os
import random
import re
import struct
import sys
import traceback
import types

# Verdicts of PythonHost::Verdict.
# Not 0: that is what a call returns whose exception nobody caught.
_FAILED, _WRONG_SHAPE, _OVER_BOUND, _UNUSABLE, _OUT_OF_MEMORY, _OK = 1, 2, 3, 4, 5, 100
_REFUSED_MEMORY = -2  # of a load
_MAX_TEXT = 3000
_MAX_FRAMES = 6
_MAX_CACHED = 256
_RANDOM_WORDS = 3
_READ, _WRITE = 0x100, 0x200  # PyBUF_READ, PyBUF_WRITE

_view_of_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of_memory.restype = ctypes.py_object
_view_of_memory.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)

_allowed: list[str] = []  # folders that functions may come from
_stages: list[_Stage] = []


class _Refusal(Exception):
    """A verdict with its text."""

    def __init__(self, verdict: int, text: str):
        super().__init__(text)
        self.verdict = verdict


# --- Random numbers


class _SampleRandom(random.Random):
    """What stands behind the functions of `random`: seeded for each sample, but only when it is used.

    Seeding costs more than most functions take, and most do not use it.
    """

    _key = 0
    _stale = False

    def renew(self, key: int) -> None:
        self._key = key
        self._stale = True
        self.gauss_next = None

    def _fresh(self) -> None:
        if self._stale:
            self._stale = False
            super().seed(self._key)

    def seed(self, *args, **kwargs):
        self._stale = False
        return super().seed(*args, **kwargs)

    def random(self):
        if self._stale:
            self._fresh()
        return super().random()

    def getrandbits(self, k):
        if self._stale:
            self._fresh()
        return super().getrandbits(k)

    def getstate(self):
        self._fresh()
        return super().getstate()

    def setstate(self, state):
        self._stale = False
        return super().setstate(state)


def _install_random() -> _SampleRandom:
    """Puts one of ours behind `random.random`, `random.shuffle` and the others."""
    old = random._inst
    new = _SampleRandom()
    for name, value in list(vars(random).items()):
        if getattr(value, "__self__", None) is old:
            setattr(random, name, getattr(new, name))
    random._inst = new
    return new


class _Generators:
    """Every generator that a function may draw from; the same for all stages, which run one at a time."""

    def __init__(self, numpy):
        self._legacy = _install_random()
        self._seed_numpy = numpy.random.seed
        self._philox = numpy.random.Philox(0)
        # Setting a state costs a tenth of making a generator.
        self._state = self._philox.state
        self._state["state"]["counter"][:] = 0
        self._key = self._state["state"]["key"]
        self.rng = numpy.random.Generator(self._philox)

    def renew_rng(self, low: int, high: int) -> None:
        key = self._key
        key[0] = low
        key[1] = high
        self._philox.state = self._state

    def renew_legacy(self, word: int) -> None:
        self._legacy.renew(word)
        self._seed_numpy(word & 0xFFFFFFFF)


_generators: _Generators | None = None


# --- What a function gets and gives


class _Output:
    """One declared output: checks what the function returned and copies it to its place."""

    def __init__(self, numpy, declared: dict):
        self.name = declared["name"]
        self.dtype_name = declared["dtype"][len("DTYPE_"):].lower()
        self.is_bytes = self.dtype_name == "bytes"
        shape = tuple(int(extent) for extent in declared.get("shape", ()))
        self.max_count = int(declared.get("max_count", 0))
        self.variable = bool(shape) and shape[0] == -1
        # Of a batch: as many rows as the call says, no more and no fewer.
        self.of_batch = self.variable and self.max_count == 0
        self.rest = shape[1:]
        self.shape = (self.max_count, *self.rest) if self.variable else shape
        # NumPy has no bfloat16: its bits are passed as uint16.
        is_bfloat = self.dtype_name == "bfloat16"
        self.dtype = None if self.is_bytes else numpy.dtype("uint16" if is_bfloat else self.dtype_name)
        self._numpy = numpy
        self._places: dict[tuple, object] = {}  # arrays by address and shape

    def declared(self) -> str:
        if self.of_batch:
            return f"{self.dtype_name} [{', '.join(map(str, self.shape))}] for this batch"
        extents = ["-1", *map(str, self.rest)] if self.variable else map(str, self.shape)
        return f"{self.dtype_name} [{', '.join(extents)}]"

    def store(self, value, address: int, rows: int) -> int:
        """Returns the extent of the variable dimension; `rows` counts for batches."""
        if self.is_bytes:
            return self._store_bytes(value, address)
        if self.of_batch:
            self.shape = (rows, *self.rest)
        if type(value) is not self._numpy.ndarray:
            value = self.as_array(value)
        if value.dtype != self.dtype:
            value = self._same_bits(value)
        place = self._places.get((address, self.shape))
        if place is None:
            place = self._place(address)
        if value.shape == self.shape:
            place[...] = value
            return rows if self.of_batch else self.max_count
        if self.of_batch or not self.variable or value.ndim == 0 or value.shape[1:] != self.rest:
            raise _Refusal(
                _WRONG_SHAPE,
                f"output `{self.name}` has the shape {list(value.shape)}, and is declared as {self.declared()}",
            )
        count = value.shape[0]
        if count > self.max_count:
            raise _Refusal(
                _OVER_BOUND,
                f"output `{self.name}` has {count} rows, more than its max_count, {self.max_count}",
            )
        place[:count] = value
        return count

    def as_array(self, value):
        numpy = self._numpy
        if value is None:
            raise _Refusal(_UNUSABLE, f"output `{self.name}` is None: does the function return it?")
        is_number = isinstance(value, (bool, int, float)) or (isinstance(value, complex) and self.dtype.kind == "c")
        if is_number and self.shape == ():
            # A number of Python's own has no type in NumPy's sense: it takes the declared one, if it fits.
            try:
                made = numpy.array(value, dtype=self.dtype)
            except OverflowError:
                made = None
            if made is not None and (self.dtype.kind in "fc" or made == value):
                return made
            raise _Refusal(_WRONG_SHAPE, f"output `{self.name}` is {value!r}, which is no {self.dtype_name}")
        try:
            return numpy.asarray(value)
        except MemoryError:
            raise
        except Exception as error:
            raise _Refusal(
                _UNUSABLE, f"output `{self.name}` is a {type(value).__name__}, of which NumPy makes no array: {error}"
            ) from None

    def _same_bits(self, value):
        if self.dtype_name == "bfloat16" and value.dtype.name == "bfloat16":
            return value.view(self.dtype)
        raise _Refusal(
            _UNUSABLE,
            f"output `{self.name}` has the dtype {value.dtype}, and is declared as {self.dtype_name}; "
            f"convert it (.astype(numpy.{self.dtype})) or correct the spec",
        )

    def _place(self, address: int):
        if len(self._places) >= _MAX_CACHED:
            self._places.clear()
        size = self.dtype.itemsize
        for extent in self.shape:
            size *= extent
        view = _view_of_memory(address, size, _WRITE)
        place = self._places[address, self.shape] = self._numpy.ndarray(self.shape, self.dtype, view)
        return place

    def _store_bytes(self, value, address: int) -> int:
        if not isinstance(value, (bytes, bytearray)):
            raise _Refusal(
                _UNUSABLE, f"output `{self.name}` is a {type(value).__name__}, and is declared as bytes"
            )
        if len(value) > self.max_count:
            raise _Refusal(
                _OVER_BOUND,
                f"output `{self.name}` has {len(value)} bytes, more than its max_count, {self.max_count}",
            )
        ctypes.memmove(address, bytes(value), len(value))
        return len(value)


class _Stage:
    """One stage: its function and how it is called."""

    def __init__(self, numpy, spec: dict, inputs: list[str]):
        self._numpy = numpy
        self._function = _import_function(spec["function"])
        self._names = spec["inputs"]
        # (dtype, dimensions); None: bytes.
        self._inputs = [_parse_input(numpy, text) for text in inputs]
        self._outputs = [_Output(numpy, declared) for declared in spec["outputs"]]
        self._of_batch = self._outputs[0].of_batch
        self._arguments = {
            name: _parse_argument(value) for name, value in spec.get("arguments", {}).items()
        }
        self._wants_rng = self._check_signature(spec["function"])
        if self._wants_rng:
            self._arguments["rng"] = _generators.rng
        count = _RANDOM_WORDS + sum(3 + (kind[1] if kind else 0) for kind in self._inputs)
        self._first_output = count
        self._words = struct.Struct(f"={_RANDOM_WORDS}Q{count - _RANDOM_WORDS + 2 * len(self._outputs)}q")
        self._calls: dict[int, memoryview] = {}
        self._memory: dict[tuple[int, int], memoryview] = {}

    def addresses(self) -> list[int]:
        """Which words of a call are addresses."""
        places = []
        at = _RANDOM_WORDS
        for kind in self._inputs:
            places.append(at)
            at += 3 + (kind[1] if kind else 0)
        return places + [at + 2 * i for i in range(len(self._outputs))]

    def _check_signature(self, function: str) -> bool:
        """Whether it takes an `rng`. Refuses one that cannot be called as the spec wants."""
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):
            return False  # a builtin that does not tell
        names = list(signature.parameters)
        rng = signature.parameters.get("rng")
        wants_rng = rng is not None and "rng" not in self._arguments
        if wants_rng and rng.kind is not inspect.Parameter.KEYWORD_ONLY:
            wants_rng = names.index("rng") >= len(self._inputs)
        keywords = {**self._arguments, **({"rng": None} if wants_rng else {})}
        try:
            signature.bind(*self._names, **keywords)
        except TypeError as error:
            raise _Refusal(
                _UNUSABLE,
                f"{function}{signature} cannot be called with {len(self._names)} inputs ({', '.join(self._names)})"
                + (f" and the arguments {', '.join(sorted(self._arguments))}" if self._arguments else "")
                + f": {error}",
            ) from None
        return wants_rng

    def run(self, address: int) -> int:
        call = self._calls.get(address)
        if call is None:
            call = self._remember(self._calls, address, address, self._words.size, _WRITE)
        words = self._words.unpack_from(call)
        _generators.renew_legacy(words[2])
        if self._wants_rng:
            _generators.renew_rng(words[0], words[1])
        arguments = self._inputs_at(words)
        views = [argument for argument in arguments if type(argument) is self._numpy.ndarray]
        before = list(map(sys.getrefcount, views))
        try:
            result = self._function(*arguments, **self._arguments)
        except MemoryError:
            raise
        except BaseException as raised:
            failure = _Refusal(_FAILED, _describe(raised))
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
            raise _Refusal(_UNUSABLE, self._wrong_count(result))
        at = self._first_output
        if self._of_batch and len(outputs) > 1:
            result = self._apart(result, views)
        for i, output in enumerate(outputs):
            count = output.store(result[i], words[at + 2 * i], words[at + 2 * i + 1])
            struct.pack_into("=q", call, 8 * (at + 2 * i + 1), count)
        result = None
        if list(map(sys.getrefcount, views)) != before:
            self._check_kept(arguments, views, before)
        return _OK

    def _apart(self, result, views) -> list:
        """A batch's outputs lie where its inputs lie: none may change while another is a view of it."""
        numpy = self._numpy
        apart = []
        for output, value in zip(self._outputs, result):
            if not isinstance(value, numpy.ndarray) and not output.is_bytes:
                value = output.as_array(value)  # a tensor of another library may be a view, too
            is_array = isinstance(value, numpy.ndarray)
            shared = is_array and any(numpy.may_share_memory(value, view) for view in views)
            apart.append(numpy.array(value) if shared else value)
        return apart

    def _inputs_at(self, words) -> list:
        arguments = []
        at = _RANDOM_WORDS
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
            memory = self._remember(self._memory, (address, size), address, size, _READ)
        if not shape:
            return self._numpy.ndarray((), dtype, memory)[()]
        if stride == 0:
            return self._numpy.ndarray(shape, dtype, memory)
        # Rows of an image that is a part of a larger one.
        return self._numpy.ndarray(shape, dtype, memory, 0, (stride, shape[2] * dtype.itemsize, dtype.itemsize))

    @staticmethod
    def _remember(cache, key, address, size, mode):
        if len(cache) >= _MAX_CACHED:
            cache.clear()
        view = cache[key] = _view_of_memory(address, size, mode)
        return view

    def _wrong_count(self, result) -> str:
        names = ", ".join(output.name for output in self._outputs)
        if isinstance(result, (tuple, list)):
            got = f"{len(result)} values"
        else:
            got = "None" if result is None else f"one {type(result).__name__}"
        return f"it returned {got}, and is declared to return {len(self._outputs)} ({names})"

    def _check_kept(self, arguments, views, before) -> None:
        """An input is a view of memory that the next sample uses: nobody may hold it."""
        gc.collect()  # what only a cycle holds is held by nobody
        after = list(map(sys.getrefcount, views))
        for view, count, earlier in zip(views, after, before):
            if count <= earlier:
                continue
            name = next(name for name, one in zip(self._names, arguments) if one is view)
            raise _Refusal(
                _UNUSABLE,
                f"the function keeps its input `{name}`, or a view of it, after it ended; that memory is the next "
                + ("batch's" if self._of_batch else "sample's") + ". Keep a copy (.copy()) instead",
            )


def _parse_input(numpy, text: str):
    if text == "bytes":
        return None
    name, _, dimensions = text.partition("/")
    return numpy.dtype("uint16" if name == "bfloat16" else name), int(dimensions)


def _parse_argument(text: str):
    """YAML's truth values and numbers come as texts."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return text


# --- Importing


def _is_allowed(path: str) -> bool:
    path = os.path.realpath(path)
    return any(path.startswith(folder + os.sep) for folder in _allowed)


def _check_origin(module: str) -> None:
    """The module must be found below a folder of --python-path, whatever else can be imported."""
    top = module.partition(".")[0]
    folders = ", ".join(_allowed)
    try:
        found = importlib.util.find_spec(top)
    except ValueError:
        found = None
    if found is None:
        raise _Refusal(
            _UNUSABLE,
            f"there is no module `{top}` below a --python-path of the service ({folders})",
        )
    places = list(found.submodule_search_locations or [])
    if found.origin and found.has_location:
        places.append(found.origin)
    if not places or not all(map(_is_allowed, places)):
        raise _Refusal(
            _UNUSABLE,
            f"module `{top}` is {places[0] if places else 'part of the interpreter'}, which lies below no --python-path "
            f"of the service ({folders}); write a function of your own around it",
        )


def _import_function(text: str):
    module_name, _, path = text.partition(":")
    _check_origin(module_name)
    try:
        found = importlib.import_module(module_name)
    except MemoryError:
        raise
    except BaseException as error:
        raise _Refusal(_UNUSABLE, f"importing {module_name} failed: {_describe(error)}") from None
    for name in path.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, dir(found), 1)
            raise _Refusal(
                _UNUSABLE,
                f"{module_name} ({getattr(sys.modules[module_name], '__file__', '')}) has no `{name}`"
                + (f"; did you mean `{near[0]}`?" if near else ""),
            )
        found = getattr(found, name)
        if isinstance(found, types.ModuleType):
            raise _Refusal(
                _UNUSABLE,
                f"{text} leads through another module, `{found.__name__}`; write a function of your own around it",
            )
    if not callable(found):
        raise _Refusal(_UNUSABLE, f"{text} is a {type(found).__name__}, which cannot be called")
    _check_home(text, found)
    return found


def _check_home(text: str, function) -> None:
    """What an allowed module imported is not the user's own: `np.load` would let a spec bring code."""
    name = getattr(inspect.unwrap(function), "__module__", None) or type(function).__module__
    home = getattr(sys.modules.get(name), "__file__", None)
    if home is None or not _is_allowed(home):
        raise _Refusal(
            _UNUSABLE,
            f"{text} is from `{name}`, which lies below no --python-path of the service ({', '.join(_allowed)}); write a "
            "function of your own around it",
        )


# --- Errors


def _short(path: str) -> str:
    for folder in _allowed:
        if path.startswith(folder + os.sep):
            return path[len(folder) + 1:]
    return path


def _describe(error: BaseException) -> str:
    """An exception with the lines of the user's code that led to it, the innermost first."""
    try:
        said = str(error)
    except MemoryError:
        raise
    except BaseException:
        said = "(its text cannot be had)"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<frozen importlib")
    ]
    lines = [
        f"{_short(frame.filename)}:{frame.lineno} in {frame.name}" + (f": `{frame.line}`" if frame.line else "")
        for frame in reversed(frames[-_MAX_FRAMES:])
    ]
    text = type(error).__name__ + (f": {said[:_MAX_TEXT // 2]}" if said else "")
    return text + (f" (at {'; called from '.join(lines)})" if lines else "")


def _put(text: str, address: int, size: int) -> None:
    data = text.encode("utf-8", "replace")[:min(size - 1, _MAX_TEXT)]
    # Not in the middle of a character.
    data = data.decode("utf-8", "ignore").encode("utf-8") + b"\0"
    ctypes.memmove(address, data, len(data))


# --- What the worker calls


def _load(stage: bytes, inputs: bytes, error: int, error_bytes: int) -> int:
    global _generators
    try:
        try:
            import numpy
            import numpy.random
        except ImportError as missing:
            raise _Refusal(
                _UNUSABLE,
                f"{sys.executable} cannot import NumPy ({missing}); install it there, or name another interpreter "
                "with --python",
            ) from None
        if _generators is None:
            _generators = _Generators(numpy)
        texts = inputs.decode().split(",") if inputs else []
        _stages.append(_Stage(numpy, json.loads(stage), texts))
        # What is there now stays: collections need not look at it again and again.
        gc.collect()
        gc.freeze()
        return len(_stages)  # its number + 1
    except MemoryError:
        return _REFUSED_MEMORY
    except _Refusal as refusal:
        _put(str(refusal), error, error_bytes)
    except BaseException as unforeseen:
        _put(_describe(unforeseen), error, error_bytes)
    return -1


def _call(number: int, words: int, error: int, error_bytes: int) -> int:
    try:
        return _stages[number].run(words)
    except MemoryError:
        return _OUT_OF_MEMORY
    except _Refusal as refusal:
        verdict, text = refusal.verdict, str(refusal)
    except BaseException as raised:
        verdict = _FAILED
        try:
            text = _describe(raised)
        except MemoryError:
            return _OUT_OF_MEMORY
    try:
        _put(text, error, error_bytes)
    except MemoryError:
        return _OUT_OF_MEMORY
    return verdict


# --- Serving a tool


class _Server:
    """Answers the calls of a tool that runs a pipeline in its own process (tools/purity), for which memory is shared."""

    def __init__(self, fd: int):
        import mmap
        import socket

        self._mmap = mmap
        self._socket = socket.socket(fileno=fd)
        self._region = None  # its number in the tool, its size, the mapping, its address
        self._text = ctypes.create_string_buffer(_MAX_TEXT + 1)

    def run(self) -> None:
        while True:
            request = self._socket.recv(1 << 20)
            if not request:
                return
            self._text[0] = b"\0"
            answer = self._load if request[:1] == b"L" else self._call
            verdict = answer(request[1:])
            self._socket.send(struct.pack("=i", verdict) + self._text.value)

    def _load(self, request: bytes) -> int:
        (length,) = struct.unpack_from("=I", request)
        stage, inputs = request[4:4 + length], request[4 + length:]
        return _load(stage, inputs, ctypes.addressof(self._text), len(self._text))

    def _call(self, request: bytes) -> int:
        number, fd, size = struct.unpack("=iiQ", request)
        base = self._map(fd, size)
        for place in _stages[number].addresses():
            at = ctypes.c_int64.from_address(base + 8 * place)
            at.value += base
        return _call(number, base, ctypes.addressof(self._text), len(self._text))

    def _map(self, fd: int, size: int) -> int:
        if self._region is None or self._region[:2] != (fd, size):
            file = os.open(f"/proc/{os.getppid()}/fd/{fd}", os.O_RDWR)
            mapping = self._mmap.mmap(file, size)
            os.close(file)
            # The one before stays mapped: views of it may be remembered.
            address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
            self._region = (fd, size, mapping, address)
        return self._region[3]


# --- Start


class _Log:
    """The service's log, as standard output and error: one that is full or gone is no sample's error."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            pass

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


def _strings(texts) -> ctypes.Array:
    return (ctypes.c_char_p * (len(texts) + 1))(*[os.fsencode(text) for text in texts], None)


def _readable() -> list[str]:
    """What imports and running need to read."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    folders += [os.path.dirname(os.path.realpath(sys.executable)), *sys.path]
    return [folder for folder in dict.fromkeys(folders) if folder not in ("", "/")]


def main() -> None:
    options: dict[str, list[str]] = {}
    for argument in sys.argv[1:]:
        name, _, value = argument.partition("=")
        options.setdefault(name, []).append(value)
    _allowed.extend(options.get("--python-path", []))
    own = os.path.dirname(os.path.abspath(__file__))
    known = [folder for folder in sys.path if os.path.abspath(folder) != own]
    # Those that the interpreter has anyway keep their place: the standard library stands before other packages.
    places = set(map(os.path.realpath, known))
    sys.path[:] = [*(folder for folder in _allowed if folder not in places), *known]
    sys.argv[1:] = []
    os.environ.pop("LD_PRELOAD", None)
    # The service's log; what goes to its standard output would be lost when the worker ends.
    sys.stdout = sys.stderr = _Log(sys.stderr)

    if "--serve-fd" in options:
        _Server(int(options["--serve-fd"][0])).run()
        return
    library = ctypes.CDLL(options["--library"][0])
    load = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64)(_load)
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)(_call)
    library.bulkhead_worker_run.restype = None
    library.bulkhead_worker_run(
        int(options["--control-fd"][0]),
        load,
        call,
        ctypes.cast(ctypes.pythonapi.PyGILState_Ensure, ctypes.c_void_p),
        ctypes.cast(ctypes.pythonapi.PyEval_SaveThread, ctypes.c_void_p),
        _strings(_readable()),
        _strings(options.get("--native-path", [])),
    )


if __name__ == "__main__":
    main()
