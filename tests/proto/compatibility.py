"""Which changes of the public protos would break specs, cursors and clients of the last version.

A field keeps its number, name and type, for specs are written by name and messages by number. A field or enum value
may go when its number and its name are reserved. New ones may come.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2

PUBLIC = "bulkhead.v1"


def read(data: bytes) -> descriptor_pb2.FileDescriptorSet:
    return descriptor_pb2.FileDescriptorSet.FromString(data)


def breaks(old: descriptor_pb2.FileDescriptorSet, new: descriptor_pb2.FileDescriptorSet) -> list[str]:
    """Each broken rule as a sentence; only files of the public package count."""
    before, after = _of_package(old), _of_package(new)
    found = []
    for name, message in before["message_type"].items():
        if name not in after["message_type"]:
            found.append(f"message {name} is gone")
            continue
        found += _message_breaks(name, message, after["message_type"][name])
    for name, enum in before["enum_type"].items():
        if name not in after["enum_type"]:
            found.append(f"enum {name} is gone")
            continue
        # An enum's reserved ranges end with their last number, a message's behind it.
        taken = [range(r.start, r.end + 1) for r in after["enum_type"][name].reserved_range]
        found += _numbered_breaks(name, "value", enum, after["enum_type"][name], taken, lambda *_: ())
    for name, service in before["service"].items():
        methods = {method.name: method for method in getattr(after["service"].get(name), "method", ())}
        for method in service.method:
            if methods.get(method.name) != method:
                found.append(f"method {name}.{method.name} is gone or takes or gives something else")
    return found


def _message_breaks(name, old, new):
    def kind(message, field):
        oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
        return (field.type, field.type_name, field.label, oneof)

    taken = [range(r.start, r.end) for r in new.reserved_range]
    return _numbered_breaks(name, "field", old, new, taken, kind)


def _numbered_breaks(name, what, old, new, taken, kind):
    """Of what has names and numbers: a message's fields, an enum's values; `what` says which."""
    by_number = {entry.number: entry for entry in getattr(new, what)}
    for entry in getattr(old, what):
        now = by_number.get(entry.number)
        if now is None:
            if entry.name not in new.reserved_name or not any(entry.number in numbers for numbers in taken):
                yield f"{what} {name}.{entry.name} is gone; reserve {entry.number} and \"{entry.name}\""
        elif now.name != entry.name:
            yield f"{what} {name}.{entry.name} = {entry.number} is called {now.name} now"
        elif kind(new, now) != kind(old, entry):
            yield f"{what} {name}.{entry.name} has another type, label or oneof"


def _of_package(files):
    """Messages, enums and services of the public package by their full names, nested ones among them."""
    found = {"message_type": {}, "enum_type": {}, "service": {}}

    def add(prefix, holder, nested):
        for enum in holder.enum_type:
            found["enum_type"][f"{prefix}.{enum.name}"] = enum
        for message in getattr(holder, nested):
            found["message_type"][f"{prefix}.{message.name}"] = message
            add(f"{prefix}.{message.name}", message, "nested_type")

    for file in files.file:
        if file.package == PUBLIC:
            add(file.package, file, "message_type")
            found["service"].update({f"{file.package}.{service.name}": service for service in file.service})
    return found
