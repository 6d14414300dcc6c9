#!/usr/bin/env python3
"""Makes the wheel with the programs from the client's wheel and what `cmake --install` put into a folder.

    scripts/wheel_pack.py CLIENT_WHEEL FOLDER PLATFORM OUT

FOLDER's files go into the package bulkhead_programs, which gives the commands `bulkhead` and `bulkheadd`. PLATFORM is the
tag, such as manylinux_2_34_x86_64. The same input gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ENTRY_POINTS = """[console_scripts]
bulkhead = bulkhead_programs:bulkhead
bulkheadd = bulkhead_programs:bulkheadd
"""


def with_platform(wheel_file: str, platform: str) -> str:
    lines = []
    for line in wheel_file.splitlines():
        if line.startswith("Tag: "):
            line = f"Tag: py3-none-{platform}"
        elif line.startswith("Root-Is-Purelib: "):
            line = "Root-Is-Purelib: false"
        lines.append(line)
    return "\n".join(lines) + "\n"


def write(out: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = (0o100000 | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    out.writestr(info, data, compresslevel=9)


def contents(client: zipfile.ZipFile, installed: pathlib.Path, platform: str) -> dict[str, tuple[bytes, int]]:
    """Name → bytes and permissions, RECORD excepted."""
    files = {name: (client.read(name), 0o644) for name in client.namelist() if not name.endswith("/RECORD")}
    (wheel,) = (name for name in files if name.endswith(".dist-info/WHEEL"))
    files[wheel] = (with_platform(files[wheel][0].decode(), platform).encode(), 0o644)
    files[wheel.replace("/WHEEL", "/entry_points.txt")] = (ENTRY_POINTS.encode(), 0o644)
    files["bulkhead_programs/__init__.py"] = ((ROOT / "client/python/bulkhead_programs/__init__.py").read_bytes(), 0o644)
    for path in sorted(path for path in installed.rglob("*") if path.is_file()):
        name = path.relative_to(installed).as_posix()
        files[f"bulkhead_programs/{name}"] = (path.read_bytes(), 0o755 if name.startswith("bin/") else 0o644)
    return files


def main() -> None:
    client_wheel, installed, platform, folder = sys.argv[1:]
    name = pathlib.Path(client_wheel).name.replace("-any.whl", f"-{platform}.whl")
    with zipfile.ZipFile(client_wheel) as client:
        files = contents(client, pathlib.Path(installed), platform)
        (record,) = (name for name in client.namelist() if name.endswith("/RECORD"))
    rows = []
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as out:
        for file, (data, mode) in files.items():
            write(out, file, data, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{file},sha256={digest},{len(data)}\n")
        write(out, record, ("".join(rows) + f"{record},,\n").encode(), 0o644)
    print(pathlib.Path(folder) / name)


if __name__ == "__main__":
    main()
