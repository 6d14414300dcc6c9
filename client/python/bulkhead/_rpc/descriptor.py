"""Queries of message descriptors, whose interface differs between versions of protobuf."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

# FieldDescriptor.CPPTYPE_… and LABEL_REPEATED, which not every version's descriptors have.
INT32, INT64, UINT32, UINT64, DOUBLE, FLOAT, BOOL, ENUM, STRING = range(1, 10)
_LABEL_REPEATED = 3


def is_repeated(field) -> bool:
    """Also true for maps."""
    repeated = getattr(field, "is_repeated", None)  # new in protobuf 6, which took `label` away later
    return field.label == _LABEL_REPEATED if repeated is None else bool(repeated)


def is_map(field) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_optional(field) -> bool:
    """Whether it is declared `optional`: the only member of a oneof that protoc made."""
    oneof = field.containing_oneof
    return oneof is not None and oneof.name == "_" + field.name


def choice_of(field) -> Optional[str]:
    """Name of the oneof that the field is a member of; None for `optional` fields."""
    if field.containing_oneof is None or is_optional(field):
        return None
    return str(field.containing_oneof.name)


def choices_of(message_type) -> List[str]:
    """Names of its oneofs: ["stage"] for a stage, ["type"] for a feature."""
    return list(dict.fromkeys(filter(None, map(choice_of, message_type.fields))))


def is_choice(message_type) -> bool:
    """Whether the message is one oneof and nothing else: a stage, a source, an order."""
    return {choice_of(field) for field in message_type.fields} == set(
        choices_of(message_type)
    ) and (len(choices_of(message_type)) == 1)


def enum_names(enum_type) -> Dict[int, str]:
    """The spelling of each value in specs: {2: "linear"} for INTERPOLATION_LINEAR."""
    values = list(enum_type.values)
    prefix = values[0].name[: -len("UNSPECIFIED")]
    return {value.number: value.name[len(prefix) :].lower() for value in values[1:]}


def field_names(message_type) -> List[str]:
    return [str(field.name) for field in message_type.fields]


def find_field(message_type, name: str) -> Optional[Any]:
    """By the name of a spec, or by that of proto's JSON."""
    return next((field for field in message_type.fields if name in (field.name, field.json_name)), None)
