"""Writes docs/api/python.md from the docstrings of the package; run it when they change.

A test fails while the file is stale.
"""

import inspect
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
OUTPUT = HERE.parent.parent / "docs" / "api" / "python.md"
sys.path.insert(0, str(HERE))

import adapters_alone  # noqa: E402
import bulkhead  # noqa: E402

HEAD = """# API of the Python package

Written by `client/python/update_api.py` from the docstrings. By task: [python.md](../python.md).
"""
# The guide to each adapter, and its classes that a program constructs by itself.
ADAPTERS = {
    "torch": ("pytorch.md", ("Dataset",)),
    "tf": ("tensorflow.md", ("Loader",)),
    "keras": ("tensorflow.md", ("PyDataset",)),
    "jax": ("jax.md", ("Loader",)),
    "ray": ("ray.md", ("Fleet",)),
}
_OPTION = re.compile(r"^([a-z]\w*): (.*)")
_FIELD = re.compile(r"^    (\w+): ([^=#]+?)(?: = .*?)?(?:  # (.*))?$", re.MULTILINE)


def prose(doc):
    """A docstring as Markdown: `name: text` lines become a list."""
    lines, in_option = [], False
    for line in doc.split("\n"):
        option = _OPTION.match(line)
        if option and lines and (lines[-1] == "" or in_option):
            lines.append(f"- `{option[1]}`: {option[2]}")
            in_option = True
        elif in_option and line.startswith("    "):
            lines[-1] += " " + line.strip()
        else:
            in_option = False
            lines.append(line)
    return "\n".join(lines).strip()


def spelled(annotation):
    text = (
        annotation
        if isinstance(annotation, str)
        else getattr(annotation, "__name__", str(annotation))
    )
    return re.sub(r"\b(_\w+|np)\.", lambda m: "" if m[1] != "np" else "np.", text).replace("'", "")


def signature(name, function, drop_first):
    """The call as one writes it, a parameter a line when it is long."""
    parameters = list(inspect.signature(function).parameters.values())[drop_first:]
    words, starred = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        word = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            word, starred = "*" + word, True
        if parameter.kind is parameter.VAR_KEYWORD:
            word = "**" + word
        if parameter.annotation is not parameter.empty:
            word += f": {spelled(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            word += f" = {parameter.default!r}"
        words.append(word)
    result = inspect.signature(function).return_annotation
    arrow = (
        "" if result is inspect.Signature.empty or drop_first is None else f" -> {spelled(result)}"
    )
    arrow = arrow.replace("_Self", "Pipeline").replace('"', "")
    line = f"{name}({', '.join(words)}){arrow}"
    if len(line) > 100:
        line = f"{name}(\n    " + ",\n    ".join(words) + f",\n){arrow}"
    return f"```python\n{line}\n```\n"


def members(cls):
    """(name, object) of what is public and documented, in the order of the source."""
    for base in [cls, *cls.__mro__[1:]]:
        if not base.__module__.startswith("bulkhead"):
            continue
        for name, value in vars(base).items():
            if not name.startswith("_") and inspect.getdoc(getattr(cls, name)):
                yield name, value


def method_text(title, cls, name, value):
    if isinstance(value, property):
        result = inspect.signature(value.fget).return_annotation
        kind = "" if result is inspect.Signature.empty else f": {spelled(result)}"
        head = f"```python\n{cls.__name__}.{name}{kind}\n```\n"
    else:
        plain = isinstance(value, staticmethod)
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        owner = (
            cls.__name__ if isinstance(value, (classmethod, staticmethod)) else cls.__name__.lower()
        )
        head = signature(f"{owner}.{name}", function, 0 if plain else 1)
    doc = prose(inspect.getdoc(getattr(cls, name)))
    return f"### {title}.{name}\n\n{head}\n{doc}\n"


def fields_text(cls):
    found = _FIELD.findall(inspect.getsource(cls))
    return "".join(
        f"- `{name}: {kind.strip()}`{': ' + text if text else ''}\n" for name, kind, text in found
    )


def class_text(name, cls, constructed):
    """`constructed`: whether programs call the class."""
    parts = [f"## {name}\n"]
    if hasattr(cls, "_fields"):
        return "\n".join([*parts, prose(inspect.getdoc(cls)) + "\n", fields_text(cls)])
    if constructed:
        parts.append(signature(name, cls.__init__, 1).replace(" -> None", ""))
    parts.append(prose(inspect.getdoc(cls)) + "\n")
    seen = set()
    for member, value in members(cls):
        if member not in seen and not issubclass(cls, dict):
            seen.add(member)
            parts.append(method_text(name, cls, member, value))
    return "\n".join(parts)


def function_text(name, function):
    return f"## {name}\n\n{signature(name, function, 0)}\n{prose(inspect.getdoc(function))}\n"


def is_error(value):
    return inspect.isclass(value) and issubclass(value, bulkhead.BulkheadError)


def adapters_text():
    """The classes of bulkhead.torch and the like."""
    with adapters_alone.adapters(ADAPTERS) as modules:
        for name, (guide, constructed) in ADAPTERS.items():
            for public in modules[name].__all__:
                value, title = getattr(modules[name], public), f"bulkhead.{name}.{public}"
                yield class_text(title, value, public in constructed) if inspect.isclass(value) else function_text(title, value)
            yield f"By task: [{guide}](../{guide}).\n"


def generate():
    """The text of the page."""
    parts = [HEAD]
    public = {name: getattr(bulkhead, name) for name in bulkhead.__all__}
    first = ["Loader", "Batch", "Pipeline"]
    for name in [*first, *(name for name in public if name not in first)]:
        value = public[name]
        if is_error(value):
            continue
        if inspect.isclass(value):
            parts.append(class_text(name, value, constructed=name == "Loader"))
        else:
            parts.append(function_text(name, value))
    parts += adapters_text()
    parts.append("## Errors\n\nReasons and what to do: [errors.md](../errors.md).\n")
    parts.append(prose(inspect.getdoc(bulkhead.BulkheadError)) + "\n")
    rows = ["| class | is a | raised when |", "|---|---|---|"]
    for name, value in public.items():
        if is_error(value):
            bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
            text = inspect.getdoc(value).split("\n")[0]
            rows.append(f"| `{name}` | {bases} | {text} |")
    parts.append("\n".join(rows) + "\n")
    text = "\n".join(parts)
    return "\n".join(line.rstrip() for line in text.split("\n"))


if __name__ == "__main__":
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(generate())
    sys.stdout.write(f"wrote {OUTPUT}\n")
