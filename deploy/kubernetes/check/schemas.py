#!/usr/bin/env python3
"""Writes JSON Schemas for kubeconform, one a kind, that refuse unknown fields.

    schemas.py OUT SWAGGER CRD...

OUT is a folder, SWAGGER Kubernetes' api/openapi-spec/swagger.json, and each CRD a CustomResourceDefinition. kubeconform reads them
with `-schema-location 'OUT/{{.ResourceKind}}{{.KindSuffix}}.json'`.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import yaml

REF = "#/definitions/"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def strict(node: Any) -> Any:
    """The schema, refusing fields that it does not declare; OpenAPI's two words for "number or text" become JSON Schema's."""
    if isinstance(node, list):
        return [strict(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string") or node.get("format") == "int-or-string":
        return {"type": ["integer", "string"]}
    made = {name: strict(entry) for name, entry in node.items()}
    if isinstance(node.get("properties"), dict) and "additionalProperties" not in node:
        made["additionalProperties"] = False
    return made


def named(node: Any) -> set[str]:
    """The definitions that a schema refers to."""
    if isinstance(node, list):
        return set().union(*map(named, node))
    if not isinstance(node, dict):
        return set()
    found = set().union(*map(named, node.values()))
    if isinstance(node.get("$ref"), str):
        found.add(node["$ref"].removeprefix(REF))
    return found


def with_definitions(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    needed: set[str] = set()
    waiting = {name}
    while waiting:
        entry = waiting.pop()
        needed.add(entry)
        waiting |= named(definitions[entry]) - needed
    return {"$ref": REF + name, "definitions": {entry: definitions[entry] for entry in needed}}


def write(folder: pathlib.Path, kind: str, group: str, version: str, schema: dict[str, Any]) -> None:
    suffix = "-".join(filter(None, [group.split(".")[0], version]))
    (folder / f"{kind.lower()}-{suffix}.json").write_text(json.dumps(schema))


def main() -> None:
    out, swagger, *crds = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    definitions = {name: strict(schema) for name, schema in json.loads(swagger.read_text())["definitions"].items()}
    definitions[QUANTITY] = {"type": ["number", "string"]}
    for name, schema in definitions.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            if "spec" in schema.get("properties", {}) or kind["kind"] == "ConfigMap":
                write(out, kind["kind"], kind["group"], kind["version"], with_definitions(name, definitions))
    for crd in crds:
        custom = yaml.safe_load(crd.read_text())["spec"]
        for version in custom["versions"]:
            write(out, custom["names"]["kind"], custom["group"], version["name"], strict(version["schema"]["openAPIV3Schema"]))


if __name__ == "__main__":
    main()
