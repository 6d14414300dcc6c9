"""Writes bulkhead/_rpc/descriptors.binpb from the .proto files; run it whenever one of them changes.

The package makes its message classes from that file, so it needs no generated code and runs with
any protobuf runtime. A test fails while the file is stale.
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OUTPUT = HERE / "bulkhead" / "_rpc" / "descriptors.binpb"
PROTOS = [
    "bulkhead/v1/types.proto",
    "bulkhead/v1/stages.proto",
    "bulkhead/v1/pipeline.proto",
    "bulkhead/v1/trace.proto",
    "bulkhead/v1/loader.proto",
    "bulkhead/v1/arena.proto",
    "bulkhead/internal/v1/rpc_status.proto",
]


def generate(output: pathlib.Path) -> None:
    root = HERE.parent.parent / "proto"
    subprocess.run(
        ["protoc", "--include_imports", f"--descriptor_set_out={output}", "-I", str(root), *PROTOS],
        check=True,
    )


if __name__ == "__main__":
    generate(OUTPUT)
    sys.stdout.write(f"wrote {OUTPUT}\n")
