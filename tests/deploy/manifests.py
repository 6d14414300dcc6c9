"""The files in deploy/kubernetes, and the service that their flags make."""

import os
import pathlib
import re

import bulkhead
import grpc
import yaml
from bulkhead._rpc import proto
from conftest import Service

ROOT = pathlib.Path(os.environ.get("BULKHEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
FOLDER = ROOT / "deploy/kubernetes"
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30, "MiB": 1 << 20, "GiB": 1 << 30}
# What the service sets aside for itself (docs/deploy.md).
SUPERVISOR_BYTES = 48 << 20


def parsed_bytes(text):
    number, unit = re.fullmatch(r"(\d+)(\D+)", text).groups()
    return int(number) * UNITS[unit]


def read(path):
    return yaml.safe_load((FOLDER / path).read_text())


def read_all(path):
    return list(yaml.safe_load_all((FOLDER / path).read_text()))


def flags_of(path):
    """The variables of a ConfigMap's file."""
    lines = (FOLDER / path).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def given(arguments, variables):
    """A container's arguments with the values of variables, as a dict without the dashes; of repeated ones the last."""
    options = {}
    for argument in arguments:
        argument = re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], argument)
        name, _, value = argument.removeprefix("--").partition("=")
        options[name] = value
    return options


# This machine has other ones: Service gives the first two, and TLS is for an address beyond it.
_OF_THE_POD = ("listen", "cache-dir", "tls-cert", "tls-key", "tls-client-ca", "allow-stream", "allow-status")


def described_by(folder, options):
    """The service with these options, this machine's paths aside: its status, and its plan for sidecar/pipeline.yaml."""
    (folder / "data").mkdir()
    options = {name: value for name, value in options.items() if name not in _OF_THE_POD}
    options.update({"root": folder / "data", "metrics": "127.0.0.1:0"})
    service = Service(folder, *(f"--{name}={value}" if value else f"--{name}" for name, value in options.items()))
    try:
        with grpc.insecure_channel(service.target) as channel:
            describe = channel.unary_stream(
                "/bulkhead.v1.Loader/Describe",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=proto._message("bulkhead.v1.DescribeResponse").FromString,
            )
            request = proto._message("bulkhead.v1.DescribeRequest")(schema_only=True)
            request.spec.text.text = (FOLDER / "sidecar/pipeline.yaml").read_text()
            (answer,) = [answer for answer in describe(request, timeout=30) if answer.HasField("description")]
        yield bulkhead.service_status(service.target), answer.description.memory
    finally:
        service.stop()
