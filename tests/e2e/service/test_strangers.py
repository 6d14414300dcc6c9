"""Clients with a certificate and no right, who write HTTP/2 by hand, beside a trainer that has the right."""

import contextlib
import itertools
import socket
import ssl

import bulkhead
import grpc
import pytest
from certificates import Authority
from conftest import write_spec
from test_connections import field, wait_until
from test_floods import BEGIN, frame, header, most_memory, outcome

BLOCK = b"".join(itertools.starmap(header, [
    (b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"localhost"),
    (b":path", b"/bulkhead.v1.Loader/Stream"), (b"content-type", b"application/grpc"), (b"te", b"trailers"),
]))
HEADERS, RST_STREAM, SETTINGS, CONTINUATION = 1, 3, 4, 9
END_STREAM, END_HEADERS = 1, 4
CANCEL = (8).to_bytes(4, "big")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls"))
    authority.issue("loader")
    authority.issue("trainer", "DNS:trainer")
    authority.issue("stranger", "DNS:stranger")
    return authority


@pytest.fixture
def service(folder, services, authority):
    own = authority.folder / "loader"
    return services(
        folder, "--workers", "1", "--open-rate", "0", "--tls-cert", f"{own}.pem", "--tls-key", f"{own}.key",
        "--tls-client-ca", authority.pem, "--allow-stream", "trainer", listen="127.0.0.1:0",
    )


@pytest.fixture
def spec(folder):
    return write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10}, epochs=1)


def credentials(authority):
    own = authority.folder / "trainer"
    return bulkhead.Credentials(ca=str(authority.pem), cert=f"{own}.pem", key=f"{own}.key")


@contextlib.contextmanager
def stranger(service, authority):
    """A connection with that certificate, ready for HTTP/2."""
    context = ssl.create_default_context(cafile=authority.pem)
    own = authority.folder / "stranger"
    context.load_cert_chain(f"{own}.pem", f"{own}.key")
    context.set_alpn_protocols(["h2"])
    host, port = service.target.split(":")
    with socket.create_connection((host, int(port)), 60) as plain:
        with context.wrap_socket(plain, server_hostname=host) as connection:
            connection.sendall(BEGIN)
            yield connection


def frames(connection):
    """Kind, flags, stream and content of each frame that comes, until the service hangs up."""
    with connection.makefile("rb") as stream:
        while len(begin := stream.read(9)) == 9:
            yield begin[3], begin[4], int.from_bytes(begin[5:], "big"), stream.read(int.from_bytes(begin[:3], "big"))


@pytest.mark.parametrize("name", [b"grpclb_client_stats", b"grpc-internal-encoding-request", b"te", b":scheme"])
@pytest.mark.parametrize("first", [True, False])
def test_no_header_ends_the_service(service, authority, spec, name, first):
    """gRPC cannot copy some, and ends the process where it is asked to."""
    parts = [header(name, b"x"), BLOCK]
    block = b"".join(parts if first else reversed(parts))
    with stranger(service, authority) as connection:
        connection.sendall(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
        with contextlib.suppress(OSError):
            assert any(number == 1 for _, _, number, _ in frames(connection)), "the call is refused"
    with bulkhead.Loader(spec, service.target, credentials=credentials(authority), timeout=120) as loader:
        assert sum(len(batch["index"]) for batch in loader.stream()) == 1000
    assert service.process.poll() is None


def cancelled_calls():
    """Calls that are cancelled at once."""
    for number in itertools.count(1, 2):
        yield frame(HEADERS, END_HEADERS, number, BLOCK) + frame(RST_STREAM, 0, number, CANCEL)


def block_without_end(begin, then):
    """The headers of a call, in one frame after another."""
    yield frame(HEADERS, 0, 1, BLOCK + begin)
    yield from itertools.repeat(then)


LONG_VALUE = b"\0\3x-y" + b"\x7f\x80\x80\x80\x80\x04"  # a field whose value has 1 GiB
FLOODS = {
    "fields": lambda: block_without_end(b"", frame(CONTINUATION, 0, 1, 100 * header(b"x-y", b"z" * 100))),
    "value": lambda: block_without_end(LONG_VALUE, frame(CONTINUATION, 0, 1, bytes(16000))),
    "value by bytes": lambda: block_without_end(LONG_VALUE, 1000 * frame(CONTINUATION, 0, 1, b"z")),
    "settings": lambda: itertools.repeat(3000 * frame(SETTINGS, 0, 0, b"")),
    "cancelled calls": cancelled_calls,
}


@pytest.mark.parametrize("kind", FLOODS)
def test_who_sends_without_end_is_hung_up_on_and_a_trainer_goes_on(folder, service, authority, spec, kind):
    with bulkhead.Loader(spec, service.target, credentials=credentials(authority), timeout=120) as loader:
        batches = loader.stream()
        read = len(next(batches)["index"])
        before = most_memory(service)
        for _ in range(4):
            with stranger(service, authority) as connection, contextlib.suppress(ConnectionError, ssl.SSLError):
                for said in FLOODS[kind]():  # until the service hangs up
                    connection.sendall(said)
        assert most_memory(service) < before + (128 << 20)
        read += sum(len(batch["index"]) for batch in batches)
        assert (read, loader.stats.reconnects) == (1000, 0)
    assert wait_until(lambda: ": its connection is closed" in (folder / "service.log").read_text())


def test_the_largest_requests_of_a_trainer_are_no_flood(service, authority):
    own = authority.folder / "trainer"
    files = [authority.pem, own.with_suffix(".key"), own.with_suffix(".pem")]
    secrets = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
    request = field(1, field(2, field(1, b" " * (8_000_000))))
    with grpc.secure_channel(service.target, secrets, [("grpc.max_send_message_length", -1)]) as channel:
        for _ in range(4):
            call = channel.unary_stream("/bulkhead.v1.Loader/Describe")
            assert outcome(call(request, timeout=120))[0] == grpc.StatusCode.INVALID_ARGUMENT
