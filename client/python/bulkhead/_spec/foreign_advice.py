"""What to write instead of a word of PyTorch, torchvision, TensorFlow or Keras, as the service says it."""

from __future__ import annotations

import re
from typing import Any, Iterable

from .._rpc import proto
from .._words import nearest
from .foreign_words import OPTION_NAMES, WORDS

NOTHING = object()  # the value of a word that stands alone
_MOST_ITEMS = 8
_MOST_VALUE = 64
_MOST_MAP = 200
_INTERPOLATIONS = {"bilinear": "linear", "bicubic": "cubic"}
_TOP_OF_SPEC = "belongs at the top of the spec"


def advice(message: str, word: str, value: Any = NOTHING, known: Iterable[str] = ()) -> str:
    """For a word that the message of this full name lacks, before `value`; empty: no library is known to have it.

    `known`: the options that there are. A twin of ForeignWordAdvice (server/spec/yaml/foreign_words.cc), which a
    test compares it with.
    """
    written = _written(value)
    if OPTION_NAMES.get(word) in known:
        name = OPTION_NAMES[word]
        meant = _INTERPOLATIONS.get(written.lower(), written) if name == "interpolation" else written
        shown = meant or ("0.5" if name == "probability" else "...")
        return f"write `{name}: {shown}`"
    folded = re.sub("[^a-z0-9]", "", word.partition("(")[0].rpartition(".")[2].lower())
    found = WORDS.get(message, {}).get(folded)
    if found is None:
        return ""
    sentence, example, stage = found
    if folded == "shuffle" and written.lower() == "false":
        return "leave it out: samples come in the source's own order"
    options = _options_of(stage, value) if stage and isinstance(value, dict) else ""
    if options:
        return f"write `{stage}: {options}`"
    shown = _argument(word) if value is NOTHING else written
    no_number = example[:1].isdigit() and not re.fullmatch(r"[0-9.,\[\] +e-]*", shown)
    too_long = len(shown.encode("utf-8", "replace")) > _MOST_VALUE
    if not shown or too_long or no_number or sentence.startswith(_TOP_OF_SPEC):
        shown = example
    return sentence.replace("$0", shown)


_OF_METHODS = tuple(f"bulkhead.v1.{message}" for message in ("PipelineSpec", "Stage", "Source", "Order"))


def of_method(name: str) -> str:
    """For a method that a Pipeline lacks; empty: no library has that word."""
    return next((told for told in (advice(message, name) for message in _OF_METHODS) if told), "")


def near_method(name: str) -> str:
    """The word of another library that is nearly `name`; empty: none is."""
    words = (word for message in _OF_METHODS for word in WORDS.get(message, {}))
    return nearest(name.replace("_", ""), words, 0.8)


def _options_of(stage: str, values: Any) -> str:
    """ "{size: 32, padding: 4}": those options of a map that `stage` has as well; empty: none."""
    has = proto.PipelineSpec.DESCRIPTOR.fields_by_name["stages"].message_type.fields_by_name[stage].message_type
    options = []
    for key, value in values.items():
        name = OPTION_NAMES.get(key, key)
        text = _times_255(value) if stage == "normalize" else _plain(value)
        if name in has.fields_by_name and text:
            options.append(f"{name}: {text}")
    text = f"{{{', '.join(options)}}}"
    return text if options and len(text.encode("utf-8", "replace")) <= _MOST_MAP else ""


def _times_255(value: Any) -> str:
    """Constants for values of 0 to 1 times 255; as they are where one is another."""
    try:
        numbers = [float(item) for item in (value if isinstance(value, (list, tuple)) else [value])]
    except (TypeError, ValueError):
        return _plain(value)
    if any(number > 1 for number in numbers):
        return _plain(value)
    products = ", ".join(f"{number * 255:.6g}" for number in numbers)
    return f"[{products}]" if isinstance(value, (list, tuple)) else products


def _written(value: Any) -> str:
    """The value as it may be written: of a map that of `size`, or else of its first option; empty for what is nested."""
    if isinstance(value, dict):
        if "size" in value:
            return _plain(value["size"])
        return next((text for text in map(_plain, value.values()) if text), "")
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        plain = len(value) <= _MOST_ITEMS and all(isinstance(item, (str, int, float)) for item in value)
        return f"[{', '.join(map(_plain, value))}]" if plain else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else ""


def _argument(word: str) -> str:
    """ "224" of "Resize(224)", "[256, 256]" of "Resize((256, 256))"; empty: none that can be repeated."""
    _, opened, rest = word.partition("(")
    if not opened or not rest.endswith(")"):
        return ""
    argument = rest[:-1].strip()
    if len(argument) > 2 and argument[0] == "(" and argument[-1] == ")":
        argument = f"[{argument[1:-1]}]"
    return argument if re.fullmatch(r"[0-9., \[\]]*", argument) else ""


# What the advice says of lines of a file, for who writes none.
_PHRASES = {
    "write `stages:` and each step on a line of its own, after a dash": "call each step: `.decode_image().resize(size=224)`",
    "stages are a list, each on a line of its own after a dash": "each stage is a call",
    "write `source:`, such as": "begin with a source, such as",
    "among `stages`, behind": "behind",
    " among `stages`": "",
    "`batch_stages`": "`batch_python`",
    "` below it": "` in it",
    "or `epochs: forever`": "or leave it out to go on forever",
}


def in_calls(text: str) -> str:
    """The same advice for calls of Pipeline's methods: `order: global` becomes `order_global()`."""
    for phrase, words in _PHRASES.items():
        text = text.replace(phrase, words)
    return re.sub("`([^`]+)`", lambda match: f"`{_as_call(match[1]) or match[1]}`", text)


def _as_call(snippet: str) -> str:
    """A YAML snippet as a call; empty if it is not part of a spec, or cannot be read."""
    from . import pipeline_repr, spec_message, spec_text, spec_yaml  # they use this module
    from .._rpc import proto
    from ..errors import SpecError

    try:
        value = spec_yaml.read(snippet).value
    except (spec_yaml.YamlFault, ImportError):  # PyYAML is missing
        return ""
    part = {value: {}} if isinstance(value, str) else value
    for spec in (part, {"stages": [part]}, {"source": part}):
        message = proto.PipelineSpec()
        try:
            spec_message.fill(message, spec)
        except SpecError:
            continue
        calls = pipeline_repr.calls(spec_text.to_dict(message))
        return ", ".join(call.lstrip(".") for call in calls)
    if isinstance(value, dict) and len(value) == 1:
        ((name, single),) = value.items()
        if isinstance(single, str):
            if single in ("true", "false"):
                return f"{name}={single.title()}"
            return f"{name}={single if re.fullmatch('[0-9.]+', single) else repr(str(single))}"
    return ""
