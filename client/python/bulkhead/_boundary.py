"""Where the package ends for its users: errors leave it without its own frames, and end in their line."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import types
from typing import Any, Callable, Collection, Iterator, Optional, Type, TypeVar

from .errors import BulkheadError

FULL = "BULKHEAD_FULL_TRACEBACKS"  # the variable that keeps tracebacks whole

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_SPECIAL = (
    "__delattr__", "__getattr__", "__getitem__", "__init__", "__iter__", "__len__", "__reduce__", "__setattr__"
)
_Error = TypeVar("_Error", bound=BaseException)
_Class = TypeVar("_Class")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def meant(error: _Error) -> _Error:
    """An exception of Python's own that says what its reader did wrong, as a BulkheadError does."""
    with contextlib.suppress(Exception):  # a frozen dataclass takes no mark
        error._bulkhead_meant = True  # type: ignore[attr-defined]
    return error


def ends_at_caller(function: _Function) -> _Function:
    """The function or generator, whose BulkheadErrors and `meant` ones come without the package's frames.

    Others are faults of the package, and stay whole.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            _cut(error)
            raise

    @functools.wraps(function)
    def generate(*args: Any, **options: Any) -> Iterator[Any]:
        try:
            yield from function(*args, **options)
        except Exception as error:
            _cut(error)
            raise

    return generate if inspect.isgeneratorfunction(function) else call  # type: ignore[return-value]


def public(cls: Type[_Class]) -> Type[_Class]:
    """`ends_at_caller` for each of a class's own public methods and properties."""
    return wrapped(cls, ends_at_caller, _SPECIAL)


def wrapped(cls: Type[_Class], wrap: Callable[[Any], Any], special: Collection[str] = ()) -> Type[_Class]:
    """Puts `wrap(function)` in the place of each of a class's own public methods and properties, and of `special` ones."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in special:
            continue
        if isinstance(member, property):
            setattr(cls, name, member.getter(wrap(member.fget)))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(cls, name, type(member)(wrap(member.__func__)))
        elif inspect.isfunction(member):
            setattr(cls, name, wrap(member))
    return cls


def _cut(error: BaseException) -> None:
    if os.environ.get(FULL):
        return
    if not isinstance(error, BulkheadError) and not hasattr(error, "_bulkhead_meant"):
        return
    begin = error.__traceback__
    rest = _outside(begin)
    if begin is not None:
        begin.tb_next = rest  # CPython before 3.11 goes on with this one, and so shows one frame of ours
    error.__traceback__ = rest
    if error.__cause__ is not None:
        error.__cause__.__traceback__ = _outside(error.__cause__.__traceback__)


def _outside(traceback: Optional[types.TracebackType]) -> Optional[types.TracebackType]:
    """Removes the package's frames from a traceback."""
    if traceback is None:
        return None
    rest = _outside(traceback.tb_next)
    if traceback.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        return rest
    return types.TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
