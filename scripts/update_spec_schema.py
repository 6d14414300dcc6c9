"""Writes docs/spec.schema.json, the JSON Schema of specs; scripts/update_generated.sh runs it.

Keys and types are those of the .proto files, the descriptions are their comments, and limits and choices are what is
declared of the options. It follows what people write in YAML: one value for a list of one, `- random_horizontal_flip`
for a stage without options. A test fails while the file is stale.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "docs" / "spec.schema.json"
sys.path.insert(0, str(ROOT / "client" / "python"))

import option_table  # noqa: E402
from update_pipeline import Descriptors, Field, enum_values  # noqa: E402

INTEGERS = {
    Field.TYPE_INT32: (-(2**31), 2**31 - 1),
    Field.TYPE_INT64: (-(2**63), 2**63 - 1),
    Field.TYPE_UINT32: (0, 2**32 - 1),
    Field.TYPE_UINT64: (0, 2**64 - 1),
}
# What is not finite in YAML is a number to most readers, and a text to some.
NOT_FINITE = {"type": "string", "pattern": r"^-?\.?(nan|NaN|inf|Inf|infinity)$"}


class Schema:
    """The definitions of all messages, each made when it is first needed."""

    def __init__(self):
        self.types = Descriptors()
        self.limits = option_table.by_field()
        self.definitions = {}

    def scalar(self, field, limits):
        """One value of a field that is no message."""
        if field.type == Field.TYPE_ENUM:
            names = limits.get("values") or enum_values(self.types.enums[field.type_name])
            return {"enum": names + [name.upper() for name in names]}
        if field.type == Field.TYPE_BOOL:
            return {"type": "boolean"}
        if field.type == Field.TYPE_STRING:
            # The text of 2024 and of true is what stands there.
            return {"type": ["string", "number", "boolean"]}
        if "values" in limits:
            return {"enum": limits["values"]}
        schema = {"type": "number"}
        if field.type in INTEGERS:
            low, high = INTEGERS[field.type]
            schema = {"type": "integer", "minimum": low, "maximum": high}
        if "least" in limits:
            schema["minimum"] = limits["least"]
        if "above" in limits and "pair" not in limits:
            schema["exclusiveMinimum"] = limits["above"]
        if "most" in limits:
            schema["maximum"] = limits["most"]
        finite = field.type in INTEGERS or set(limits) & {"least", "above", "most"}
        return schema if finite else {"anyOf": [schema, NOT_FINITE]}

    def field(self, owner, field):
        """The value of one key."""
        name = f"bulkhead.v1.{owner.name}.{field.name}"
        limits = self.limits.get(name, {})
        description = self.types.comments.get("." + name, "")
        if self.types.is_map(field):
            entry = next(t for t in owner.nested_type if field.type_name.endswith("." + t.name))
            schema = {"type": "object", "additionalProperties": self.single(entry.field[1], {})}
        elif field.label == Field.LABEL_REPEATED:
            schema = self.list(self.single(field, limits), limits)
        elif name == "bulkhead.v1.PipelineSpec.epochs":
            schema = {"anyOf": [self.single(field, limits), {"const": "forever"}]}
        else:
            schema = self.single(field, limits)
        return {"description": description, **schema} if description else schema

    def single(self, field, limits):
        if field.type == Field.TYPE_MESSAGE:
            return self.reference(field.type_name)
        return self.scalar(field, limits)

    def list(self, item, limits):
        """A list, or its only item."""
        items = {"type": "array", "items": item}
        if limits.get("pair"):
            items.update(minItems=2, maxItems=2)
        elif "most_count" in limits:
            low = 1 if limits.get("one_stands_for", 1) > 1 else limits["least_count"]
            items.update(minItems=low, maxItems=limits["most_count"])
        return items if limits.get("pair") else {"anyOf": [item, items]}

    def reference(self, type_name):
        name = type_name.rpartition(".")[2]
        if name not in self.definitions:
            self.definitions[name] = {}  # a mixture holds sources
            self.definitions[name] = self.message(self.types.messages[type_name])
        return {"$ref": f"#/definitions/{name}"}

    def message(self, message):
        """A map of the message's keys; where it is a choice, also the bare name of one."""
        properties = {f.name: self.field(message, f) for f in message.field}
        choices = [f for f in message.field if f.HasField("oneof_index") and not f.proto3_optional]
        # An option may also stand in for what is left out: `decode_image:` with nothing after it.
        schema = {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
        required = [f.name for f in message.field if self.is_required(message, f)]
        if required:
            schema.update(type="object", required=required)
        forms = [schema]
        if choices:
            names = [f.name for f in choices if f.type == Field.TYPE_MESSAGE]
            if len(choices) == len(message.field):
                schema.update(type="object", minProperties=1, maxProperties=1)
            if names:
                forms.append({"enum": names})
        return {"anyOf": forms} if len(forms) > 1 else schema

    def is_required(self, message, field):
        return self.limits.get(f"bulkhead.v1.{message.name}.{field.name}", {}).get("required", False)


def generate():
    """The text of the file."""
    schema = Schema()
    spec = schema.message(schema.types.message("PipelineSpec"))
    whole = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Written by scripts/update_spec_schema.py.",
        "title": "Bulkhead pipeline spec",
        "description": "What to read, what is done to each sample, and how samples are grouped and ordered.",
        **spec,
        "definitions": dict(sorted(schema.definitions.items())),
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(generate())
    sys.stdout.write(f"wrote {OUTPUT}\n")
