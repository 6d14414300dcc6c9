"""What to write instead of a word of PyTorch, torchvision, TensorFlow or Keras, as the service says it."""

from __future__ import annotations

import re
from typing import Any

from .foreign_words import WORDS

_MOST_ITEMS = 8
_MOST_VALUE = 64
_TOP_OF_SPEC = "belongs at the top of the spec"


def advice(message: str, word: str, value: Any = "") -> str:
    """For a word that the message of this full name lacks, before `value`; empty: no library is known to have it.

    A twin of ForeignWordAdvice (server/spec/yaml/foreign_words.cc), which a test compares it with.
    """
    folded = re.sub("[^a-z0-9]", "", word.partition("(")[0].rpartition(".")[2].lower())
    found = WORDS.get(message, {}).get(folded)
    if found is None:
        return ""
    sentence, example = found
    written = _written(value)
    if folded == "shuffle" and written.lower() == "false":
        return "leave it out: samples come in the source's own order"
    shown = written or _argument(word)
    no_number = example[:1].isdigit() and not re.fullmatch(r"[0-9.,\[\] +e-]*", shown)
    if not shown or len(shown) > _MOST_VALUE or no_number or sentence.startswith(_TOP_OF_SPEC):
        shown = example
    return sentence.replace("$0", shown)


def _written(value: Any) -> str:
    """The value as it may be written: of a map that of `size`, or else of its first option; empty for what is nested."""
    if isinstance(value, dict):
        options = [value["size"]] if "size" in value else list(value.values())
        return next((text for text in map(_plain, options) if text), "")
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        items = [_plain(item) for item in value]
        nested = any(isinstance(item, (list, tuple)) for item in value)
        return "" if nested or not all(items) or len(items) > _MOST_ITEMS else f"[{', '.join(items)}]"
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
