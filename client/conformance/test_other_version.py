"""A service of another version works where it can; else it is a typed error that says so.

So is another program altogether.
"""

import re
import sys
from concurrent import futures

import grpc
import pytest
from conftest import HERE, PYTHON_PACKAGE
from data import range_spec, write_spec

sys.path[:0] = [str(PYTHON_PACKAGE / "tests")]
import fake_bulkheadd  # noqa: E402
from bulkhead._rpc import proto  # noqa: E402

NEWS = b"\xfa\x7f\x03new"  # field 2047, three bytes


@pytest.fixture
def stranger(tmp_path):
    """A gRPC server that knows nothing of Bulkhead."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    target = f"unix:{tmp_path}/stranger.sock"
    server.add_insecure_port(target)
    server.start()
    yield target
    server.stop(0)


class Future(grpc.GenericRpcHandler):
    """A service of a later version, whose answer to Open is a message that this one does not know."""

    def service(self, details):
        if details.method != "/bulkhead.v1.Loader/Stream":
            return None

        def stream(requests, context):
            next(requests)
            yield NEWS

        return grpc.stream_stream_rpc_method_handler(stream)


@pytest.fixture
def later(tmp_path):
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Future()])
    target = f"unix:{tmp_path}/later.sock"
    server.add_insecure_port(target)
    server.start()
    yield target
    server.stop(0)


def is_quoted(message):
    """Whether docs/versions.md has the message, with `…` for names and numbers."""
    page = (HERE.parents[1] / "docs/versions.md").read_text()
    words = [".+".join(map(re.escape, quote.split("…"))) for quote in re.findall(r"`([^`\n]{2,})`", page)]
    return any(re.fullmatch(each, message) for each in words)


def test_a_server_that_is_none_of_ours(client, tmp_path, stranger):
    error = client.error(range_spec(tmp_path / "s.yaml"), stranger, timeout=10)
    assert error["reason"] == "PROTOCOL_VIOLATION"
    assert "is not a Bulkhead service" in error["message"]
    assert is_quoted(error["message"]), error


def test_a_service_of_a_later_version(client, tmp_path, later):
    error = client.error(range_spec(tmp_path / "s.yaml"), later, timeout=10)
    assert error["reason"] == "PROTOCOL_VIOLATION"
    assert "client and service may be of different versions" in error["message"]
    assert is_quoted(error["message"]), error


def with_news(message):
    """Adds a field that nobody knows to the message and to all that are in it."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                with_news(part)
    message.MergeFromString(NEWS)
    return message


class Newer(fake_bulkheadd.Service):
    """The fake service, of a version whose every message has more fields, and which has more messages."""

    def stream(self, requests, context):
        for response in super().stream(requests, context):
            if isinstance(response, bytes):
                response = proto.StreamResponse.FromString(response)
            yield NEWS
            yield with_news(response).SerializeToString()


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_fields_and_messages_that_a_client_does_not_know_are_passed_over(
    client, tmp_path, monkeypatch, transport
):
    spec = write_spec(tmp_path / "s.json", samples=20, epochs=2, mode="substitute", progress=2)
    results = []
    for kind in (fake_bulkheadd.Service, Newer):
        monkeypatch.setattr(fake_bulkheadd, "Service", kind)
        target = f"unix:{tmp_path}/{kind.__name__}"
        service, server, _ = fake_bulkheadd.serve(target, door=transport == "shm")
        assert type(service) is kind
        results.append(client.ok(spec, target, transport=transport))
        service.stopping.set()
        server.stop(None).wait(30)
        if service.door is not None:
            service.door.close()
    assert results[0] == results[1]
    assert results[0]["samples"] == 40 and results[0]["reconnects"] == 0
