"""A service of another version, or another program altogether, is a typed error that says so."""

from concurrent import futures

import grpc
import pytest
from data import range_spec


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
            yield b"\xfa\x7f\x03new"  # field 2047, three bytes

        return grpc.stream_stream_rpc_method_handler(stream)


@pytest.fixture
def later(tmp_path):
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Future()])
    target = f"unix:{tmp_path}/later.sock"
    server.add_insecure_port(target)
    server.start()
    yield target
    server.stop(0)


def test_a_server_that_is_none_of_ours(client, tmp_path, stranger):
    error = client.error(range_spec(tmp_path / "s.yaml"), stranger, timeout=10)
    assert error["reason"] == "PROTOCOL_VIOLATION"
    assert "is not a Bulkhead service" in error["message"]


def test_a_service_of_a_later_version(client, tmp_path, later):
    error = client.error(range_spec(tmp_path / "s.yaml"), later, timeout=10)
    assert error["reason"] == "PROTOCOL_VIOLATION"
    assert "client and service may be of different versions" in error["message"]
