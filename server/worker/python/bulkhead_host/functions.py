"""Finds the user's functions, and the lines of them that an error came from."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import types

from bulkhead_host.denied import is_named
from bulkhead_host.verdict import MAX_TEXT, Refusal

_MAX_FRAMES = 6
# Landlock denies programs and TCP, too.
_INSTEAD = "do that before, and let the stage read the result, or allow it with --sandbox=capabilities (docs/sandbox.md)"
_MOST_NAMES = 20
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_IMPORTING = importlib.__file__
OWN_STAGES = ("bulkhead_dataset.py", "bulkhead_leaves.py")  # of the Python client

allowed_folders: list[str] = []  # where functions may come from


def _is_allowed(path: str) -> bool:
    path = os.path.realpath(path)
    return any(path.startswith(folder + os.sep) for folder in allowed_folders)


def _modules() -> list[str]:
    """Those that a function may come from."""
    names = {name.partition(".")[0] for folder in allowed_folders if os.path.isdir(folder) for name in os.listdir(folder)}
    return sorted(names)


def _near(typed: str, names: list[str]) -> str:
    near = difflib.get_close_matches(typed, names, 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _check_origin(module: str) -> None:
    """Accepts only a module below a folder of --python-path, even if others can be imported."""
    top = module.partition(".")[0]
    folders = ", ".join(allowed_folders)
    try:
        found = importlib.util.find_spec(top)
    except ValueError:
        found = None
    if found is None:
        raise Refusal(
            f"there is no module `{top}` below a --python-path of the service ({folders})" + _near(top, _modules()),
        )
    places = list(found.submodule_search_locations or [])
    if found.origin and found.has_location:
        places.append(found.origin)
    if not places or not all(map(_is_allowed, places)):
        raise Refusal(
            f"module `{top}` is {places[0] if places else 'part of the interpreter'}, which is not below a "
            f"--python-path of the service ({folders}); write a function of your own around it",
        )


def import_function(text: str):
    module_name, _, path = text.partition(":")
    _check_origin(module_name)
    try:
        found = importlib.import_module(module_name)
    except MemoryError:
        raise
    except BaseException as error:
        raise Refusal(import_failed(module_name, error)) from None
    for name in path.split("."):
        if not hasattr(found, name):
            raise Refusal(
                f"{module_name} ({getattr(sys.modules[module_name], '__file__', '')}) has no `{name}`"
                + _instead(name, vars(found), module_name),
            )
        found = getattr(found, name)
        if isinstance(found, types.ModuleType):
            raise Refusal(
                f"{text} leads through another module, `{found.__name__}`; write a function of your own around it",
            )
    if not callable(found):
        raise Refusal(f"{text} is a {type(found).__name__}, which cannot be called")
    _check_home(text, found)
    return found


def _instead(name: str, known: dict, module: str) -> str:
    """The functions of the file, the nearest or the first few; not those that it imported."""
    own = [word for word, value in known.items() if callable(value) and getattr(value, "__module__", "") == module]
    if near := _near(name, own):
        return near
    if not own:
        return "; it has no functions of its own"
    more = f", … ({len(own)} in all)" if len(own) > _MOST_NAMES else ""
    return f"; its functions are {', '.join(own[:_MOST_NAMES])}{more}"


def import_failed(module: str, error: BaseException) -> str:
    """The error of an import, and its remedy."""
    return f"importing {module} failed: {describe(error)}{advice(error)}"


def failed_module(error: BaseException) -> str:
    """The module whose import, started by a function, raised this exception; empty: no import did."""
    frames = traceback.extract_tb(error.__traceback__)
    modules = [frame.filename for frame in frames if frame.name == "<module>"]
    # What exec and eval run is no module: "<string>".
    inside = [name for name in modules if not name.startswith((_OWN, "<"))]
    if inside:
        folder, file = os.path.split(inside[-1])
        return os.path.basename(folder) if file == "__init__.py" else file
    return getattr(error, "name", None) or "a module" if isinstance(error, ImportError) else ""


def advice(error: BaseException | None) -> str:
    """What helps against a missing module, a refusal of the sandbox or of the memory limit; empty for other errors."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if is_named(error):
            return f"; {_INSTEAD}"
        if isinstance(error, ModuleNotFoundError) and error.name:
            return (
                f"; the module `{error.name.partition('.')[0]}` must be below a --python-path of the service "
                f"({', '.join(allowed_folders)}), or installed for the workers' Python, {sys.executable}"
            )
        if isinstance(error, PermissionError) and error.errno is not None:  # the kernel says it
            return _allowed(error)
        if isinstance(error, KeyError) and _is_of_environment(error):
            return (
                "; workers get only a few variables of the service's environment: name others with --worker-env "
                "(docs/sandbox.md)"
            )
        text = str(error)
        if isinstance(error, ValueError) and "read-only" in text:
            return "; a stage's inputs are read-only: change a copy of them (.copy())"
        if "failed to map segment" in text or "annot allocate memory" in text:
            return (
                "; its memory limit refused that: import it at the top of your module, not inside a function, "
                "or give workers more with --worker-quota"
            )
        error = error.__cause__ or error.__context__
    return ""


def _is_of_environment(error: KeyError) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename in (os.__file__, "<frozen os>") and frames[-1].name == "__getitem__"


def _allowed(error: PermissionError) -> str:
    """What the workers' sandbox denied, and what allows it."""
    if not error.filename:
        return f"; the workers' sandbox denies sockets, other processes and some system calls: {_INSTEAD}"
    path = os.fsdecode(error.filename)
    read = "" if _may_read(path) else "files to read must be below a --root or a --python-path of the service, and "
    return (
        f"; the workers' sandbox denies {path!r}: {read}files to write must be below TMPDIR or HOME, which are the worker's "
        "own (docs/user_stages.md)"
    )


def _may_read(path: str) -> bool:
    """Whether it was not reading that was denied: the file opens, or there is none yet."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return True


def _check_home(text: str, function) -> None:
    """Refuses what an allowed module imported: with `np.load` a spec could bring its own code."""
    name = getattr(inspect.unwrap(function), "__module__", None) or type(function).__module__
    home = getattr(sys.modules.get(name), "__file__", None)
    if home is None or not _is_allowed(home):
        raise Refusal(
            f"{text} is from `{name}`, which is not below a --python-path of the service "
            f"({', '.join(allowed_folders)}); write a function of your own around it",
        )


def _short(path: str) -> str:
    for folder in allowed_folders:
        if path.startswith(folder + os.sep):
            return path[len(folder) + 1:]
    return path


def _is_users(path: str) -> bool:
    inside = any(path.startswith(folder + os.sep) for folder in allowed_folders)
    return inside and "site-packages" not in path and "dist-packages" not in path


def _shown(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The innermost frames; among them one of the user's own code, however deep a library was when it failed."""
    shown = frames[-_MAX_FRAMES:]
    users = [frame for frame in frames if _is_users(frame.filename)]
    return [users[-1], *shown[1:]] if users and users[-1] not in shown else shown


def _said(error: BaseException, most: int) -> str:
    """Type and text of an exception, of which `most` characters."""
    try:
        said = str(error)
    except MemoryError:
        raise
    except BaseException:
        said = "(its text cannot be had)"
    if isinstance(error, SyntaxError) and error.filename and error.text:
        said = f"{error.msg} (at {_short(error.filename)}:{error.lineno}: `{error.text.strip()}`)"
    return type(error).__name__ + (f": {said[:most]}" if said else "")


def describe(error: BaseException) -> str:
    """An exception with its cause and the lines of the user's code that led to it, the innermost first."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OWN, _IMPORTING, "<frozen "))
        and os.path.basename(frame.filename) not in OWN_STAGES
    ]
    lines = [
        f"{_short(frame.filename)}:{frame.lineno} in {frame.name}" + (f": `{frame.line}`" if frame.line else "")
        for frame in reversed(_shown(frames))
    ]
    text = _said(error, MAX_TEXT // 2)
    if error.__cause__ is not None:
        text += f" (caused by {_said(error.__cause__, MAX_TEXT // 8)})"
    return text + (f" (at {'; called from '.join(lines)})" if lines else "")
