"""Rights and tokens: who may do what at a service over TLS."""

import contextlib
import itertools
import socket
import ssl
import threading
import time

import grpc
import pytest
from data import range_spec
from tls_service import TOKEN, files, spec, start, tool, wait_for_log  # noqa: F401  (files, spec and start are fixtures)


def most_memory(service):
    """Bytes that it has held at most."""
    with open(f"/proc/{service.process.pid}/status") as status:
        (most,) = (line for line in status if line.startswith("VmHWM:"))
    return int(most.split()[1]) << 10


def test_a_name_without_the_right_is_told_how_to_get_it(client, start, files, spec):
    service = start(*files.options())
    error = client.error(spec, service.target, environment=files.environment(files.other_job))
    assert error["reason"] == "ACCESS_DENIED"
    assert "job-b may not stream or describe specs here" in error["message"]
    assert "--allow-stream job-b" in error["message"]
    wait_for_log(service, "warning a call is refused to ipv4:127.0.0.1:")
    wait_for_log(service, "job-b may not stream or describe specs here")


@pytest.mark.parametrize("right", ["stream", "status", "operate", "code"])
def test_each_right_allows_its_calls_and_no_others(start, files, spec, tmp_path, right):
    options = [word if word != "--allow-stream" else f"--allow-{right}" for word in files.options()]
    more = ("--allow-datasets",) if right == "code" else ()
    service = start(*options, *more)
    environment = files.environment(files.job)
    calls = [
        ("stream", ("validate", str(spec), "--data")),
        ("status", ("status",)),
        ("status", ("trace", "--seconds", "0.1", "--out", tmp_path / "t.json")),
        ("operate", ("recycle",)),
    ]
    for needed, words in calls:
        run = tool(service.target, environment, *words)
        # Without a stream there is no worker to recycle and none to trace, which the tool calls failures.
        done = (
            run.returncode == 0 or run.stderr.startswith("there is no worker") or "no stream was open" in run.stderr
        )
        assert done == (needed == right), run
        assert (f"bulkheadd allows it by --allow-{needed} job-a" in run.stderr) == (needed != right), run
    run = tool(service.target, environment, "quarantine", "list")
    assert (run.returncode == 0) == (right == "operate"), run
    assert ("--allow-operate" in run.stderr) == (right != "operate"), run


def test_a_stream_is_shown_without_the_right_to_the_status(start, files, spec):
    service = start(*files.options(), "--allow-status", "job-b")
    run = tool(service.target, files.environment(files.job), "stream", spec)
    assert run.returncode == 0 and "100 samples" in run.stdout, run
    assert "memory: supervisor" not in run.stdout + run.stderr
    assert "the service's is told to clients with the right `status`" in run.stdout
    refusals = (service.folder / "log").read_text().count("may not ask for the status")
    assert refusals == 1  # the memory is not asked for again
    run = tool(service.target, files.environment(files.other_job), "stream", spec)
    assert run.returncode == 1 and "bulkheadd allows it by --allow-stream job-b" in run.stderr, run


def test_requests_of_callers_without_a_right_take_no_memory(start, files):
    service = start(*files.options())
    pem, key = files.other_job
    own = grpc.ssl_channel_credentials(files.authority.pem.read_bytes(), key.read_bytes(), pem.read_bytes())
    request = bytes(100 << 20)
    names = ["Describe", "Stream", "GetStatus", "Recycle", "Quarantine", "Trace", "PutDataset"]
    methods = [f"/bulkhead.v1.Loader/{name}" for name in names]
    methods += ["/grpc.health.v1.Health/Check"]
    before = most_memory(service)
    for method, refusal in [*((method, "PERMISSION_DENIED") for method in methods), ("/x.Y/Z", "UNIMPLEMENTED")]:
        # A connection of its own: each sends some of its request before it is refused, and may not send much.
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(service.target, own, options) as channel, pytest.raises(grpc.RpcError, match=refusal):
            # Whatever a method is, on the wire it is two streams.
            list(channel.stream_stream(method)(iter([request]), timeout=60))
    assert most_memory(service) < before + (20 << 20)


def frame(kind, flags, stream, payload=b""):
    """Of HTTP/2 (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header(name, value):
    """Without Huffman coding, and kept in no table (RFC 7541, 6.2.2)."""
    return b"".join([b"\x00", *(bytes([len(text)]) + text.encode() for text in (name, value))])


def reset_calls(service, files, own, method, seconds):
    """Makes calls of `method` and cancels each at once, on one connection after another; returns their number."""
    host, port = service.target.split(":")
    context = ssl.create_default_context(cafile=files.authority.pem)
    context.load_cert_chain(*own)
    context.set_alpn_protocols(["h2"])
    block = b"".join(header(*each) for each in (
        (":method", "POST"), (":scheme", "https"), (":path", method), (":authority", host),
        ("content-type", "application/grpc"), ("te", "trailers"),
    ))
    calls, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 10) as plain:
            with context.wrap_socket(plain, server_hostname=host) as connection:
                connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
                for first in itertools.count(1, 200):
                    if time.monotonic() > until:
                        break
                    # HEADERS, DATA with an empty message, RST_STREAM with CANCEL.
                    connection.sendall(b"".join(
                        frame(1, 4, stream, block) + frame(0, 1, stream, bytes(5)) + frame(3, 0, stream, bytes([0, 0, 0, 8]))
                        for stream in range(first, first + 200, 2)
                    ))
                    calls += 100
    return calls


@pytest.mark.parametrize("method", ["/bulkhead.v1.Loader/GetStatus", "/grpc.health.v1.Health/Check", "/x.Y/Z"])
def test_calls_that_are_cancelled_at_once_take_no_memory_and_end_their_connection(start, files, spec, client, method):
    service = start(*files.options())
    trains = client.pausing(
        range_spec(spec.parent / "e.yaml", size=100, epochs=10), service.target,
        environment=files.environment(files.job), pause_after=1,
    )
    before = most_memory(service)
    assert reset_calls(service, files, files.other_job, method, 2.0) > 500
    assert most_memory(service) < before + (128 << 20)
    trains.stdin.write("\n")
    trains.stdin.flush()
    result = client.finish(trains)
    assert "error" not in result and result["reconnects"] == 0


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_request_that_inflates_is_not_inflated(start, files, coding):
    service = start(*files.options())
    pem, key = files.job
    own = grpc.ssl_channel_credentials(files.authority.pem.read_bytes(), key.read_bytes(), pem.read_bytes())
    before = most_memory(service)
    with grpc.secure_channel(service.target, own, [("grpc.max_send_message_length", -1)]) as channel:
        for method in ("Describe", "Stream"):
            call = channel.stream_stream(f"/bulkhead.v1.Loader/{method}")
            with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
                list(call(iter([bytes(300 << 20)]), timeout=60, compression=getattr(grpc.Compression, coding.capitalize())))
    assert most_memory(service) < before + (20 << 20)


def test_a_star_allows_every_name_of_the_authority(client, start, files, spec):
    service = start(*files.options()[:-1], "*")
    assert client.ok(spec, service.target, environment=files.environment(files.other_job))["samples"] == 100


def test_a_name_takes_over_no_stream_of_another(client, start, files, tmp_path):
    service = start(*files.options(), "--allow-stream", "job-b")
    endless = range_spec(tmp_path / "e.yaml", size=100, epochs=1000)
    first = client.pausing(
        endless, service.target, environment=files.environment(files.job), name="train", pause_after=1
    )
    second = client.ok(
        endless, service.target, environment=files.environment(files.other_job), name="train", batches=3
    )
    assert second["batches"] == 3
    first.stdin.write("\n")
    first.stdin.flush()
    assert "error" not in client.finish(first)


def test_a_name_that_takes_all_the_calls_it_can_leaves_some_to_others(client, start, files, spec):
    service = start(*files.options(), "--allow-stream", "job-b", "--open-rate", "1000")
    pem, key = files.other_job
    own = grpc.ssl_channel_credentials(files.authority.pem.read_bytes(), key.read_bytes(), pem.read_bytes())
    ended = threading.Event()

    def say_nothing():
        ended.wait()
        yield from ()

    with grpc.secure_channel(service.target, own) as channel:
        stream = channel.stream_stream("/bulkhead.v1.Loader/Stream")
        calls = []
        result = {}
        deadline = time.monotonic() + 60
        while "error" not in result:
            assert time.monotonic() < deadline
            # Those that the service ended, or refused while the client's own call took their place, are made again.
            calls = [call for call in calls if call.is_active()]
            calls += [stream(say_nothing()) for _ in range(128 - len(calls))]
            result = client.run(spec, service.target, environment=files.environment(files.other_job))
        assert result["error"]["reason"] == "TOO_MANY_CALLS"
        assert "for job-b this service already serves 128 calls" in result["error"]["message"]
        environment = files.environment(files.job)
        assert client.ok(spec, service.target, environment=environment)["samples"] == 100
        for call in calls:
            call.cancel()
        ended.set()


def test_a_call_that_opens_nothing_ends(service):
    ended = threading.Event()

    def say_nothing():
        ended.wait()
        yield from ()

    with grpc.insecure_channel(service.target) as channel:
        call = channel.stream_stream("/bulkhead.v1.Loader/Stream")(say_nothing())
        assert "no Open came within 30 s" in call.details()
        ended.set()


def test_the_token_stands_for_a_certificate(client, start, files, spec):
    service = start(*files.options(), "--token-instead-of-certificate", files.token)
    environment = files.environment(token=files.token)
    assert client.ok(spec, service.target, environment=environment)["samples"] == 100
    assert client.ok(spec, service.target, environment=files.environment(files.job))["samples"] == 100
    said = tool(service.target, environment, "recycle").stderr
    assert "the token may not recycle workers" in said and "--token-rights" in said


def test_a_wrong_token_and_none_are_refused(client, start, files, spec, tmp_path):
    pem, key = files.server
    service = start("--tls-cert", str(pem), "--tls-key", str(key), "--token-instead-of-certificate", str(files.token))
    wrong = tmp_path / "wrong"
    wrong.write_text("f" * len(TOKEN))
    error = client.error(spec, service.target, environment=files.environment(token=wrong))
    assert error["reason"] == "ACCESS_DENIED"
    assert "the token is not this service's" in error["message"]
    error = client.error(spec, service.target, environment=files.environment())
    assert error["reason"] == "ACCESS_DENIED"
    assert "BULKHEAD_TOKEN_FILE" in error["message"]
