#!/usr/bin/env python3
"""Prints what is in an image, as CycloneDX 1.6: Debian's packages, Python's, and what is linked into the programs.

    sbom.py VERSION ROOT LINKED

ROOT holds the image's files; its Debian packages are in var/lib/dpkg/status.d. LINKED has a line `NAME VERSION` for each
Debian package whose library is inside the programs (scripts/wheel.sh). Fails if the result is no CycloneDX.
"""

from __future__ import annotations

import email.parser
import importlib.metadata
import pathlib
import sys

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def component(kind: str, name: str, version: str, *, namespace: str | None = None, linked: bool = False, **qualifiers: str) -> Component:
    url = PackageURL(type=kind, namespace=namespace, name=name, version=version, qualifiers=qualifiers)
    return Component(
        type=ComponentType.LIBRARY, name=name, version=version, purl=url,
        bom_ref=f"{url}{'#linked' if linked else ''}",
        properties=[Property(name="bulkhead:linked", value="statically, into the programs")] if linked else [],
    )


def debian_packages(root: pathlib.Path) -> list[Component]:
    found = []
    for path in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        fields = email.parser.Parser().parsestr(path.read_text())
        found.append(component("deb", fields["Package"], fields["Version"], namespace="debian", arch=fields["Architecture"], distro="debian-12"))
    return found


def linked_packages(listing: pathlib.Path) -> list[Component]:
    pairs = [line.split() for line in listing.read_text().splitlines()]
    return [component("deb", name, version, namespace="debian", linked=True, distro="debian-12") for name, version in pairs]


def python_packages(root: pathlib.Path) -> list[Component]:
    folders = map(str, root.glob("opt/python/lib/python3*/site-packages"))
    found = sorted(importlib.metadata.distributions(path=list(folders)), key=lambda one: one.metadata["Name"].lower())
    return [component("pypi", one.metadata["Name"], one.version) for one in found]


def main() -> None:
    version, root, linked = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    bom = Bom(components=[*debian_packages(root), *python_packages(root), *linked_packages(linked)])
    bom.metadata.component = Component(type=ComponentType.CONTAINER, name="bulkhead", version=version, bom_ref="bulkhead")
    bom.register_dependency(bom.metadata.component, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if (wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        sys.exit(f"sbom: {wrong}")
    print(text)


if __name__ == "__main__":
    main()
