"""Writes bulkhead/_spec/pipeline_methods.py; scripts/update_generated.sh runs it.

Names, types and docstrings of the methods of bulkhead.Pipeline are those of the messages and their
comments; what is required, default and allowed is declared in server/stages and
server/spec/declared_options.cc. Each family of stages is a class. A test fails while the file is
stale.
"""

import keyword
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

from google.protobuf import descriptor_pb2

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import option_table  # noqa: E402

OUTPUT = HERE / "bulkhead" / "_spec" / "pipeline_methods.py"
PROTOS = ["bulkhead/v1/types.proto", "bulkhead/v1/stages.proto", "bulkhead/v1/pipeline.proto"]
# Methods that are written by hand (pipeline.py), because they take pipelines.
BY_HAND = ["mixture"]
Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    Field.TYPE_STRING: "str",
    Field.TYPE_BOOL: "bool",
    Field.TYPE_DOUBLE: "float",
    Field.TYPE_FLOAT: "float",
}

HEADER = '''"""Methods of bulkhead.Pipeline. Written by update_pipeline.py from the .proto files."""

from __future__ import annotations

import builtins
from typing import (
    Any,
    Dict,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypedDict,
    TypeVar,
    Union,
)

from .pipeline_base import PathLike, PipelineBase, given
from .pipeline_calls import names_options

_Self = TypeVar("_Self", bound=PipelineBase)
'''


class Descriptors:
    """Messages and enums by full name, with their comments."""

    def __init__(self):
        self.messages, self.enums, self.comments = {}, {}, {}
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "set"
            subprocess.run(
                ["protoc", "--include_source_info", f"--descriptor_set_out={output}"]
                + ["-I", str(HERE.parent.parent / "proto"), *PROTOS],
                check=True,
            )
            files = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file
        for file in files:
            comments = {
                tuple(place.path): place.leading_comments or place.trailing_comments
                for place in file.source_code_info.location
            }
            for i, message in enumerate(file.message_type):
                name = f".{file.package}.{message.name}"
                self.messages[name] = message
                self.comments[name] = clean(comments.get((4, i), ""))
                for j, field in enumerate(message.field):
                    self.comments[f"{name}.{field.name}"] = clean(comments.get((4, i, 2, j), ""))
            for enum in file.enum_type:
                self.enums[f".{file.package}.{enum.name}"] = enum
        told = option_table.read()
        self.families = {last(name): stage["family"] for name, stage in told.items() if "family" in stage}
        self.options = {f".{name}": option for name, option in option_table.by_field().items()}
        self.comments.update((name, sentences(option)) for name, option in self.options.items())

    def name_methods(self):
        """Comments that point at a message point at its method from now on."""
        methods = {"Int64Feature": "int64", "ImageListSource": "image_list"}
        for choice in ("Stage", "BatchStage"):
            methods.update((m.name, name) for name, m in members(self, choice))
        for name, text in self.comments.items():
            self.comments[name] = re.sub(
                r"As in (\w+)", lambda m: f"As for `{methods.get(m[1], m[1])}`", text
            )

    def message(self, name):
        return self.messages[f".bulkhead.v1.{name}"]

    def is_map(self, field):
        return field.type == Field.TYPE_MESSAGE and field.type_name not in self.messages


def sentences(option):
    """What a docstring says of an option; nothing where the comment before it says it."""
    text, default = option["meaning"], option["default"]
    if not text:
        return ""
    if option["allowed"]:
        text += f" Allowed: {option['allowed']}."
    if option["required"]:
        return f"{text} Required."
    if default == "none":
        return text
    return f"{text} Default{'' if re.match(r'[-`[0-9]|true|false', default) else ':'} {default}."


def clean(comment):
    return " ".join(comment.split())


def enum_values(enum):
    prefix = len(enum.value[0].name) - len("UNSPECIFIED")
    return [value.name[prefix:].lower() for value in enum.value[1:]]


def last(name):
    return name.rpartition(".")[2]


def type_of(all_types, owner, field):
    """The type of a parameter."""
    if all_types.is_map(field):
        entry = next(t for t in owner.nested_type if field.type_name.endswith("." + t.name))
        if entry.field[1].type == Field.TYPE_MESSAGE:
            return "Mapping[str, Union[str, Mapping[str, Any]]]"
        if entry.field[1].type == Field.TYPE_STRING:
            return "Mapping[str, Union[str, float, bool]]"
        return "Mapping[str, float]"
    repeated = field.label == Field.LABEL_REPEATED
    if field.type == Field.TYPE_MESSAGE:
        single = f"{last(field.type_name)}"
        return f"Union[{single}, Sequence[{single}]]" if repeated else single
    if field.type == Field.TYPE_ENUM:
        single = last(field.type_name)
    elif field.type == Field.TYPE_STRING and field.name in ("files", "path", "library"):
        single = "PathLike"
    else:
        single = SCALARS.get(field.type, "int")
    return f"Union[{single}, Sequence[{single}]]" if repeated else single


def parameters(all_types, message):
    """(name, type, field) of each; the required ones first."""
    fields = [
        (f.name + "_" * keyword.iskeyword(f.name), type_of(all_types, message, f), f)
        for f in message.field
    ]
    required = [item for item in fields if is_required(all_types, message, item[2])]
    return required, [item for item in fields if item not in required]


def is_required(all_types, message, field):
    return all_types.options[f".bulkhead.v1.{message.name}.{field.name}"]["required"]


def docstring(summary, fields, comments, owner, indent):
    """The message's comment, and each option with its own."""
    paragraphs = [textwrap.fill(summary, 96 - indent)]
    before = ""
    for name, _, field in fields:
        text = comments[f".bulkhead.v1.{owner}.{field.name}"] or f"As `{before}`."
        before = name
        paragraphs.append(textwrap.fill(f"{name}: {text}", 96 - indent, subsequent_indent="    "))
    body = paragraphs[0] + ("\n\n" + "\n".join(paragraphs[1:]) if fields else "")
    lines = ('"""' + body + ('\n"""' if "\n" in body else '"""')).split("\n")
    return [" " * indent + line if line else "" for line in lines]


def signature(name, first, required, optional, result, extra=()):
    parts = [first] + [f"{n}: {t}" for n, t, _ in required]
    tail = [f"{n}: Optional[{t}] = None" for n, t, _ in optional] + list(extra)
    if tail:
        parts += ["*", *tail]
    return [f"    def {name}(", *(f"        {part}," for part in parts), f"    ) -> {result}:"]


def options_lines(fields):
    """`options = given(size=size, …)`, in lines that are not too long."""
    inner = [f"{field.name}={name}" for name, _, field in fields if name == field.name]
    inner += [f'**{{"{field.name}": {name}}}' for name, _, field in fields if name != field.name]
    line = f"        options = given({', '.join(inner)})"
    if len(line) <= 100:
        return [line]
    body = textwrap.fill(
        ", ".join(inner) + ",", 99, initial_indent=" " * 12, subsequent_indent=" " * 12
    )
    return ["        options = given(", *body.split("\n"), "        )"]


def method(all_types, name, message, how, summary=None):
    required, optional = parameters(all_types, message)
    fields = required + optional
    text = summary or all_types.comments[f".bulkhead.v1.{message.name}"]
    return [
        *signature(name, "self: _Self", required, optional, "_Self"),
        *docstring(text, fields, all_types.comments, message.name, 8),
        *options_lines(fields),
        f"        return self.{how}",
        "",
    ]


# Types of features that the steps of a SequenceExample may have.
SEQUENCES = ("bytes", "int64", "float")

# Sources whose features the spec declares, and an example of a declaration.
DECLARED = {
    "tfrecord": '{"image": Feature.bytes(key="img_raw"), "label": "int64"}',
    "tar": '{"image": Feature.bytes(key="jpg;png"), "label": Feature.int64(key="cls")}',
}


def source_method(all_types, name, message):
    required, optional = parameters(all_types, message)
    fields = required + optional
    declares = name in DECLARED
    beside = [("features", "Mapping[str, Union[str, Mapping[str, Any]]]", None)] if declares else []
    if name == "tfrecord":
        required = required + beside
    else:
        optional = beside + optional
    lines = ["    @classmethod"]
    base = ["base_dir: Optional[PathLike] = None"]
    lines += signature(name, "cls: Type[_Self]", required, optional, "_Self", base)
    doc = docstring(
        all_types.comments[f".bulkhead.v1.{message.name}"],
        fields,
        all_types.comments,
        message.name,
        8,
    )
    extra = []
    if declares:
        extra += [
            "features: What to read from each record, by the name under which stages and batches",
            f"    know it: `{DECLARED[name]}`.",
        ]
    extra += [
        "base_dir: Folder that relative paths start from. Default: the current one, when the",
        "    Loader is made.",
    ]
    doc[-1:] = [" " * 8 + line for line in extra] + ['        """']
    own = ", features=features" if declares else ""
    return [
        *lines,
        *doc,
        *options_lines([item for item in fields if item[2] is not None]),
        f'        return cls._source("{name}", options, base_dir{own})',
        "",
    ]


def option_method(all_types, field):
    """For a field of PipelineSpec that is a single value or a list of texts."""
    text = all_types.comments[f".bulkhead.v1.PipelineSpec.{field.name}"]
    single = SCALARS.get(field.type, "int")
    if field.label == Field.LABEL_REPEATED:
        head, value = f"def {field.name}(self: _Self, *names: {single}) -> _Self:", "list(names)"
    elif field.proto3_optional and field.type != Field.TYPE_BOOL:
        head = f"def {field.name}(self: _Self, value: Optional[{single}]) -> _Self:"
        text += " `None` leaves it out again."
        value = "value"
    else:
        default = " = True" if field.type == Field.TYPE_BOOL else ""
        head, value = f"def {field.name}(self: _Self, value: {single}{default}) -> _Self:", "value"
    doc = ['        """' + textwrap.fill(text, 85).replace("\n", "\n        ")]
    doc[0] += '\n        """' if "\n" in doc[0] else '"""'
    return [f"    {head}", *doc, f'        return self._option("{field.name}", {value})', ""]


def enum_lines(all_types, used):
    for name in sorted(used):
        values = ", ".join(f'"{value}"' for value in enum_values(all_types.enums[name]))
        line = f"{last(name)} = Literal[{values}]"
        if len(line) <= 100:
            yield line
        else:
            yield f"{last(name)} = Literal["
            yield textwrap.fill(values, 96, initial_indent="    ", subsequent_indent="    ") + ","
            yield "]"


def typed_dict(all_types, name):
    message = all_types.message(name)
    required, optional = parameters(all_types, message)
    lines = [f"class {name}(TypedDict, total=False):"]
    lines += docstring(
        all_types.comments[f".bulkhead.v1.{name}"], required + optional, all_types.comments, name, 4
    )
    lines += [""] + [f"    {n}: {t}" for n, t, _ in required + optional]
    return [*lines, ""]


def feature_class(all_types):
    lines = [
        "@names_options",
        "class Feature:",
        '    """How features of records are read; for `Pipeline.tfrecord` and `Pipeline.tar`."""',
        "",
    ]
    for choice in all_types.message("Feature").field:
        if not choice.HasField("oneof_index"):
            continue
        message = all_types.messages[choice.type_name]
        required, optional = parameters(all_types, message)
        doc = docstring(
            all_types.comments[choice.type_name],
            required + optional,
            all_types.comments,
            message.name,
            8,
        )
        if not doc[-1].endswith('    """'):
            doc = [doc[0][:-3], "", '        """']
        sequence = choice.name in SEQUENCES
        said = ["        key: The record's name for it, where it differs."]
        if sequence:
            said += ["        sequence: The axis of a list of steps of a tf.train.SequenceExample."]
        doc[-1:] = [*said, '        """']
        # Inside the class `int`-like names are methods.
        plain = {"float": "builtins.float", "bool": "builtins.bool"}

        def spelled(kind):
            for word, full in plain.items():
                kind = kind.replace(f"[{word}]", f"[{full}]").replace(f"[{word},", f"[{full},")
                kind = full if kind == word else kind
            return kind

        required = [(n, spelled(t), f) for n, t, f in required]
        optional = [(n, spelled(t), f) for n, t, f in optional]
        extra = ["key: Optional[str] = None"]
        extra += ["sequence: Optional[str] = None"] if sequence else []
        head = signature(choice.name, "", required, optional, "Dict[str, Any]", extra)
        lines += ["    @staticmethod", head[0], *head[2:], *doc]
        lines += options_lines(required + optional)
        around = "key=key, sequence=sequence" if sequence else "key=key"
        lines += [f'        return given({around}, **{{"{choice.name}": options}})', ""]
    return lines


def enums_used(all_types, names):
    for name in names:
        for field in all_types.message(name).field:
            if field.type == Field.TYPE_ENUM:
                yield field.type_name


def members(all_types, choice):
    for field in all_types.message(choice).field:
        yield field.name, all_types.messages[field.type_name]


def generate():
    """The text of the file."""
    all_types = Descriptors()
    all_types.name_methods()
    sources = [item for item in members(all_types, "Source") if item[0] not in BY_HAND]
    stages = list(members(all_types, "Stage"))
    batch_stages = list(members(all_types, "BatchStage"))
    orders = list(members(all_types, "Order"))
    spec = all_types.message("PipelineSpec")
    named = [m.name for _, m in sources + stages + batch_stages + orders]
    named += ["Batch", "ErrorPolicy", "StageOutput", "TensorFeature", "MixtureSource"]

    classes = {"Sources": []}  # the lines of their methods
    for name, message in sources:
        classes["Sources"] += source_method(all_types, name, message)
    for name, message in stages:
        family = all_types.families[message.name].capitalize()
        lines = method(all_types, name, message, f'_stage("stages", "{name}", options)')
        classes.setdefault(f"{family}Stages", []).extend(lines)
    taken = {name for name, _ in stages}
    methods = classes["BatchStages"] = []
    for name, message in batch_stages:
        how = f'_stage("batch_stages", "{name}", options)'
        if name in taken:
            comment = all_types.comments[f".bulkhead.v1.{message.name}"]
            text = f"The stage `{name}` for whole batches. {comment}"
            methods += method(all_types, f"batch_{name}", message, how, text)
        else:
            methods += method(all_types, name, message, how)
    methods = classes["Options"] = []
    methods += method(
        all_types,
        "batch",
        all_types.message("Batch"),
        '_option("batch", options)',
        all_types.comments[".bulkhead.v1.PipelineSpec.batch"],
    )
    for name, message in orders:
        methods += method(all_types, f"order_{name}", message, f'_order("{name}", options)')
    methods += method(
        all_types, "filter", all_types.message("Condition"), '_append("filter", options)'
    )
    methods += method(all_types, "split", all_types.message("Split"), '_option("split", options)')
    methods += method(
        all_types,
        "errors",
        all_types.message("ErrorPolicy"),
        '_option("errors", options)',
        all_types.comments[".bulkhead.v1.PipelineSpec.errors"],
    )
    for field in spec.field:
        if field.type != Field.TYPE_MESSAGE:
            methods += option_method(all_types, field)

    lines = [HEADER]
    lines += [*enum_lines(all_types, set(enums_used(all_types, named))), "", ""]
    for name in ("Frames", "StageOutput", "TruncatedImages"):
        lines += [*typed_dict(all_types, name), ""]
    lines += [*feature_class(all_types), ""]
    for name, methods in classes.items():
        lines += ["@names_options", f"class {name}(PipelineBase):", "    __slots__ = ()", "", *methods, ""]
    lines += ["class PipelineMethods(", *(f"    {name}," for name in classes), "):"]
    lines += ['    """Sources, stages and options, each with the words of the specification."""', ""]
    lines += ["    __slots__ = ()"]
    text = "\n".join(line.rstrip() for line in lines)
    return text.rstrip() + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(generate())
    sys.stdout.write(f"wrote {OUTPUT}\n")
