"""Finding the user's functions, and saying where in them an error is."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import types

from bulkhead_host.verdict import MAX_TEXT, UNUSABLE, Refusal

_MAX_FRAMES = 6
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep

allowed_folders: list[str] = []  # that functions may come from


def _is_allowed(path: str) -> bool:
    path = os.path.realpath(path)
    return any(path.startswith(folder + os.sep) for folder in allowed_folders)


def _check_origin(module: str) -> None:
    """The module must be found below a folder of --python-path, whatever else can be imported."""
    top = module.partition(".")[0]
    folders = ", ".join(allowed_folders)
    try:
        found = importlib.util.find_spec(top)
    except ValueError:
        found = None
    if found is None:
        raise Refusal(
            UNUSABLE,
            f"there is no module `{top}` below a --python-path of the service ({folders})",
        )
    places = list(found.submodule_search_locations or [])
    if found.origin and found.has_location:
        places.append(found.origin)
    if not places or not all(map(_is_allowed, places)):
        raise Refusal(
            UNUSABLE,
            f"module `{top}` is {places[0] if places else 'part of the interpreter'}, which lies below no "
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
        raise Refusal(UNUSABLE, f"importing {module_name} failed: {describe(error)}") from None
    for name in path.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, dir(found), 1)
            raise Refusal(
                UNUSABLE,
                f"{module_name} ({getattr(sys.modules[module_name], '__file__', '')}) has no `{name}`"
                + (f"; did you mean `{near[0]}`?" if near else ""),
            )
        found = getattr(found, name)
        if isinstance(found, types.ModuleType):
            raise Refusal(
                UNUSABLE,
                f"{text} leads through another module, `{found.__name__}`; write a function of your own around it",
            )
    if not callable(found):
        raise Refusal(UNUSABLE, f"{text} is a {type(found).__name__}, which cannot be called")
    _check_home(text, found)
    return found


def _check_home(text: str, function) -> None:
    """What an allowed module imported is not the user's own: `np.load` would let a spec bring code."""
    name = getattr(inspect.unwrap(function), "__module__", None) or type(function).__module__
    home = getattr(sys.modules.get(name), "__file__", None)
    if home is None or not _is_allowed(home):
        raise Refusal(
            UNUSABLE,
            f"{text} is from `{name}`, which lies below no --python-path of the service "
            f"({', '.join(allowed_folders)}); write a function of your own around it",
        )


def _short(path: str) -> str:
    for folder in allowed_folders:
        if path.startswith(folder + os.sep):
            return path[len(folder) + 1:]
    return path


def describe(error: BaseException) -> str:
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
        if not frame.filename.startswith(_OWN) and not frame.filename.startswith("<frozen importlib")
    ]
    lines = [
        f"{_short(frame.filename)}:{frame.lineno} in {frame.name}" + (f": `{frame.line}`" if frame.line else "")
        for frame in reversed(frames[-_MAX_FRAMES:])
    ]
    text = type(error).__name__ + (f": {said[:MAX_TEXT // 2]}" if said else "")
    return text + (f" (at {'; called from '.join(lines)})" if lines else "")
