"""Error messages for wrong calls of Pipeline's methods: names, options, numbers of arguments."""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Tuple, Type, TypeVar

from .._boundary import ends_at_caller, meant, wrapped
from .._words import nearest
from . import foreign_advice, spec_message

_Methods = TypeVar("_Methods")


def names_options(methods: Type[_Methods]) -> Type[_Methods]:
    """Lets every method of a class answer a wrong call with a TypeError that says what it takes."""
    return wrapped(methods, lambda method: ends_at_caller(_checked(method)))


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    options = [each.name for each in parameters]
    bound = len(signature.parameters) - len(parameters)
    of_instance = "self" in signature.parameters
    name = method.__name__

    @functools.wraps(method)
    def call(*args: Any, **given_options: Any) -> Any:
        if of_instance and not (args and isinstance(type(args[0]), Named)):
            raise meant(
                TypeError(
                    f"{name} is a method of a pipeline, which begins with a source: "
                    f'Pipeline.image_folder("photos").{name}(...)'
                )
            )
        for option in given_options:
            if option not in options:
                message = "bulkhead.v1.Batch" if name == "batch" else ""
                told = spec_message.unknown("option", option, options, message, given_options[option])
                raise meant(TypeError(f"{name}: {foreign_advice.in_calls(told)}"))
        try:
            signature.bind(*args, **given_options)
        except TypeError as error:
            raise meant(TypeError(_how_to_call(name, parameters, args[bound:], given_options, error))) from None
        return method(*args, **given_options)

    return call


def _how_to_call(
    name: str, parameters: List[inspect.Parameter], args: Tuple[Any, ...], options: Mapping[str, Any], error: TypeError
) -> str:
    """The mistake in the call of a method, and the names of its options."""
    names = [each.name for each in parameters]
    placed = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(args) <= len(placed):  # something is missing, or given twice
        return f"{name}: {error}; its options are: {', '.join(names)}"
    surplus = args[len(placed)]
    free = [each for each in parameters if each not in placed and each.name not in options]
    meant_one = next((each.name for each in free if _takes(each, surplus)), "")
    text = f"{name} takes {'its options' if not placed else 'all but ' + placed[0].name} by name"
    if any(each.name == "size" and "Sequence" in str(each.annotation) for each in parameters) and len(args) == 2 and all(type(each) is int for each in args):
        text += f": {name}(size={list(args)})"
    elif name == "resize" and type(surplus) is int and len(args) == 1:
        text += f": resize(size={surplus}) for a square, resize(shorter_side={surplus}) for what torchvision's Resize({surplus}) does"
    elif meant_one:
        words = [repr(value) for value in args[: len(placed)]] + [f"{meant_one}={surplus!r:.60}"]
        text += f": {name}({', '.join(words)})"
    return f"{text}; its options are: {', '.join(names)}"


def _takes(parameter: inspect.Parameter, value: Any) -> bool:
    """Whether an option, by its annotation, may be of the value's type."""
    kinds = str(parameter.annotation)
    if isinstance(value, (str, os.PathLike)) and "PathLike" in kinds:
        return parameter.name != "base_dir"
    if isinstance(value, str):
        return "str" in kinds and parameter.name not in ("input", "output")
    if isinstance(value, bool):
        return "bool" in kinds
    wanted = ("float",) if isinstance(value, float) else ("int", "float")
    if isinstance(value, (list, tuple)):
        return "Sequence" in kinds and "str" not in kinds
    return isinstance(value, (int, float)) and any(kind in kinds for kind in wanted)


class Named(type):
    """Of Pipeline and its bases: lets `Pipeline.resise` be answered as `pipeline.resise` is."""

    if not TYPE_CHECKING:  # else every name would pass for a method

        @ends_at_caller
        def __getattr__(cls, name: str) -> Any:
            raise no_method(cls, name)


def no_method(cls: type, name: str) -> AttributeError:
    """The error for a name that `cls` lacks."""
    if name.startswith("_"):
        return AttributeError(name)
    names = [word for word in dir(cls) if not word.startswith("_")]
    told = foreign_advice.of_method(name)
    if not told and not nearest(name, names):
        told = foreign_advice.of_method(foreign_advice.near_method(name))
    if told:
        return meant(
            AttributeError(f"a Pipeline: unknown method `{name}`; {foreign_advice.in_calls(told)}")
        )
    return meant(AttributeError("a Pipeline: " + spec_message.unknown("method", name, names)))
