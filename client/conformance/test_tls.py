"""TLS, tokens and rights: the real service, both clients, and certificates that the openssl program made."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import grpc
import pytest
from certificates import SERVER_NAMES, Authority, cut, encrypted
from conftest import BIN, SERVER, Service
from data import range_spec

TOKEN = "0123456789abcdef0123456789abcdef"


class TcpService(Service):
    """bulkheadd on a port of the loopback that it chooses."""

    def __init__(self, folder, root, *options):
        self.listen = "127.0.0.1:0"
        super().__init__(folder, root, *options)

    def start(self):
        self.target = self.listen
        super().start()
        self.target = self.ready.split()[1]


def wait_for_log(service, text):
    """Blocks until the service has logged `text`."""
    path = service.folder / "log"
    deadline = time.monotonic() + 60
    while text not in path.read_text():
        assert time.monotonic() < deadline, path.read_text()
        time.sleep(0.02)


def refused(folder, *options):
    """What bulkheadd says when it does not start."""
    result = subprocess.run(
        [SERVER, "--cache-dir", folder / "cache", *map(str, options)],
        capture_output=True, text=True, timeout=60,
    )
    assert result.returncode == 1, result.stderr
    return result.stderr


class Files:
    """Certificates of a session, and how they are named to service and clients."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = Authority(folder / "own")
        self.stranger = Authority(folder / "other")
        self.lone = Authority(folder / "lone", names=SERVER_NAMES)
        self.server = self.authority.issue("server")
        self.job = self.authority.issue("job-a", "DNS:job-a")
        self.other_job = self.authority.issue("job-b", "DNS:job-b")
        self.expired = self.authority.issue("late", "DNS:job-a,IP:127.0.0.1", days=-1)
        self.misnamed = self.authority.issue("elsewhere", "DNS:elsewhere.example")
        self.foreign = self.stranger.issue("foreign", "DNS:job-a")
        alone = Authority(folder / "alone", "job-a", names="DNS:job-a")
        self.self_signed = (alone.pem, alone.key)
        self.foreign_server = self.stranger.issue("server")
        self.token = folder / "token"
        self.token.write_text(TOKEN + "\n")

    def options(self, server=None):
        """Of a service that job-a may stream from."""
        pem, key = server or self.server
        return (
            "--tls-cert", str(pem), "--tls-key", str(key), "--tls-client-ca", str(self.authority.pem),
            "--allow-stream", "job-a",
        )

    def environment(self, own=None, ca=None, token=None):
        """Of a client with the certificate `own`."""
        pem, key = own or (None, None)
        return {
            "BULKHEAD_TLS_CA": ca or self.authority.pem,
            "BULKHEAD_TLS_CERT": pem,
            "BULKHEAD_TLS_KEY": key,
            "BULKHEAD_TOKEN_FILE": token,
        }


def write_target_file(path, **entries):
    path.write_text("".join(f"{key}: {value}\n" for key, value in entries.items()))
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def start(tmp_path, root):
    """start(*options) starts a service on TCP, which ends with the test."""
    started = []

    def begin(*options):
        folder = tmp_path / f"service-{len(started)}"
        folder.mkdir()
        started.append(TcpService(folder, root, *options))
        return started[-1]

    yield begin
    for service in started:
        service.stop()


@pytest.fixture
def spec(tmp_path):
    return range_spec(tmp_path / "s.yaml", size=100)


def tool(target, environment, *words):
    """`bulkhead …` at a service, when it has ended."""
    return subprocess.run(
        [BIN / "bulkhead", *words, "--target", target],
        env={**os.environ, **{name: str(value) for name, value in environment.items() if value}},
        capture_output=True, text=True, timeout=60,
    )


# Who may connect.


def test_a_named_certificate_streams(client, start, files, spec):
    service = start(*files.options())
    result = client.ok(spec, service.target, environment=files.environment(files.job))
    assert result["samples"] == 100


def test_credentials_are_taken_as_an_argument(client, start, files, spec):
    service = start(*files.options(), "--token-instead-of-certificate", files.token)
    pem, key = files.job
    authority = f"ca={files.authority.pem}"
    given = [authority, f"cert={pem}", f"key={key}"]
    assert client.ok(spec, service.target, credential=given)["samples"] == 100
    assert client.ok(spec, service.target, credential=[authority, f"token_file={files.token}"])["samples"] == 100
    # What is given counts before the environment, field by field.
    environment = files.environment(files.other_job)
    assert client.ok(spec, service.target, environment=environment, credential=given)["samples"] == 100
    assert "ACCESS_DENIED" == client.error(spec, service.target, environment=environment)["reason"]


def test_a_target_file_has_address_and_credentials(client, start, files, spec, tmp_path):
    service = start(*files.options(), "--allow-status", "job-a", "--token-instead-of-certificate", files.token)
    for path in (*files.job, files.token):
        shutil.copy(path, tmp_path)
    named = write_target_file(
        tmp_path / "loader.yaml", target=f"'{service.target}'  # ours", ca=f'"{files.authority.pem}"', cert="job-a.pem",
        key=f"{tmp_path}/job-a.key",
    )
    assert client.ok(spec, named)["samples"] == 100
    by_token = write_target_file(tmp_path / "token.yml", target=service.target, ca=files.authority.pem, token_file="token")
    assert client.ok(spec, by_token)["samples"] == 100
    # It counts before the environment, and an argument before it.
    assert client.ok(spec, named, environment=files.environment(files.other_job))["samples"] == 100
    pem, key = files.other_job
    assert client.error(spec, named, credential=[f"cert={pem}", f"key={key}"])["reason"] == "ACCESS_DENIED"
    for words in (("status",), ("health",), ("bench", "run", "--spec", spec), ("validate", spec, "--data")):
        run = tool(named, {}, *words)
        assert run.returncode == 0, run


@pytest.mark.parametrize("text,said", [
    ("", ":1: `target` is missing; a target file has target, ca, cert, key, token_file and socket_user"),
    ("---\n# a comment\nca: a.pem\ntarget: h:1\ntarget: h:2\n", ":5: `target` stands here twice"),
    ("target: h:1\n\nport: 5\n", ":3: there is no `port`; a target file has target,"),
    ("target: h:1\n  ca: a.pem\n", ":2: this is no `key: text`; a target file has target,"),
    ("target:h:1\n", ":1: this is no `key: text`; a target file has target,"),
    ("target:  # none\n", ":1: `target` has no text"),
    ("target: 'h:1\n", ":1: the text of `target` is not in one pair of quotes, without backslashes"),
    ('target: "h:1" h:2\n', ":1: the text of `target` is not in one pair of quotes, without backslashes"),
    ("target: [h:1]\n", ":1: the value of `target` is no plain text; put it in quotes"),
    ("target: h: 1\n", ":1: the value of `target` is no plain text; put it in quotes"),
    ("target: loader\n", ':1: `target` is "host:port" or "unix:/path"'),
])
def test_a_target_file_that_cannot_be_used_is_named_with_its_line(client, spec, tmp_path, text, said):
    path = tmp_path / "t.yaml"
    path.write_text(text)
    error = client.error(spec, path)
    assert error["reason"] == "INVALID_ARGUMENT"
    assert error["message"].startswith(f"{path}{said}"), error


def test_a_target_file_that_is_not_there_is_named(client, spec, tmp_path):
    error = client.error(spec, tmp_path / "t.yaml")
    assert error["reason"] == "INVALID_ARGUMENT"
    assert error["message"] == f"the target file {tmp_path}/t.yaml cannot be read: No such file or directory"


def test_without_a_certificate_nothing_is_served(client, start, files, spec):
    service = start(*files.options())
    error = client.error(spec, service.target, environment=files.environment())
    assert error["reason"] == "SERVICE_UNAVAILABLE"
    assert "wants a client certificate; give BULKHEAD_TLS_CERT" in error["message"]


@pytest.mark.parametrize("kind", ["foreign", "expired", "self_signed"])
def test_a_certificate_that_the_service_does_not_take(client, start, files, spec, kind):
    service = start(*files.options())
    own = getattr(files, kind)
    error = client.error(spec, service.target, environment=files.environment(own))
    assert f"hangs up on the certificate {own[0]} of this client" in error["message"]


def test_a_service_of_another_authority_is_not_trusted(client, start, files, spec):
    service = start(*files.options(files.foreign_server))
    error = client.error(spec, service.target, environment=files.environment(files.job))
    assert "its certificate is not trusted" in error["message"]
    assert str(files.authority.pem) in error["message"]


def test_a_certificate_that_its_own_key_signed_is_trusted_only_by_who_names_it(client, start, files, spec):
    lone = files.lone
    service = start(*files.options((lone.pem, lone.key)))
    error = client.error(spec, service.target, environment=files.environment(files.job))
    assert "self-signed certificate" in error["message"].replace("self signed", "self-signed")
    named = files.environment(files.job, ca=lone.pem)
    assert client.ok(spec, service.target, environment=named)["samples"] == 100


def test_a_service_of_another_name_is_not_trusted(client, start, files, spec):
    service = start(*files.options(files.misnamed))
    error = client.error(spec, service.target, environment=files.environment(files.job))
    assert "its certificate is not for 127.0.0.1" in error["message"]


def test_a_service_whose_certificate_has_expired_is_not_trusted(client, files, spec):
    # bulkheadd does not start with such a one, so another server shows it.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files.expired)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                    context.wrap_socket(connection, server_side=True).close()
                except ssl.SSLError:
                    pass
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        error = client.error(spec, target, environment=files.environment(files.job))
        listener.shutdown(socket.SHUT_RDWR)
    assert "its certificate has expired" in error["message"]


def test_tls_to_a_port_without_it(client, start, files, spec):
    service = start("--insecure-tcp")
    error = client.error(spec, service.target, environment=files.environment(files.job))
    assert "it speaks no TLS" in error["message"]
    assert "leave out BULKHEAD_TLS_CA" in error["message"]


def test_no_tls_to_a_port_with_it(client, start, files, spec):
    service = start(*files.options())
    error = client.error(spec, service.target)
    assert "it speaks TLS; give the authority of its certificate with BULKHEAD_TLS_CA" in error["message"]


@pytest.mark.parametrize("version,spoken", [("-tls1_2", False), ("-tls1_3", True)])
def test_only_tls_1_3_is_spoken(start, files, version, spoken):
    service = start(*files.options())
    pem, key = files.job
    result = subprocess.run(
        ["openssl", "s_client", version, "-alpn", "h2", "-connect", service.target, "-CAfile", files.authority.pem,
         "-cert", pem, "-key", key],
        input="", capture_output=True, text=True, errors="replace", timeout=60,
    )
    assert "CONNECTED(" in result.stdout, result
    assert ("New, TLSv1.3, Cipher is TLS_" in result.stdout) == spoken, result.stdout
    assert ("Cipher is (NONE)" in result.stdout) != spoken, result.stdout


# Who may do what.


def test_a_name_without_the_right_is_told_how_to_get_it(client, start, files, spec):
    service = start(*files.options())
    error = client.error(spec, service.target, environment=files.environment(files.other_job))
    assert error["reason"] == "ACCESS_DENIED"
    assert "job-b may not stream or describe specs here" in error["message"]
    assert "--allow-stream job-b" in error["message"]


@pytest.mark.parametrize("right", ["stream", "status", "operate"])
def test_each_right_allows_its_calls_and_no_others(start, files, spec, tmp_path, right):
    options = [word if word != "--allow-stream" else f"--allow-{right}" for word in files.options()]
    service = start(*options)
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
            run.returncode == 0 or "0 workers are being replaced" in run.stdout or "no stream was open" in run.stderr
        )
        assert done == (needed == right), run
        assert (f"bulkheadd allows it by --allow-{needed} job-a" in run.stderr) == (needed != right), run
    run = tool(service.target, environment, "quarantine", "list")
    assert (run.returncode == 0) == (right == "operate"), run
    assert ("--allow-operate" in run.stderr) == (right != "operate"), run


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


# Strangers.


def connect_from(source, target):
    host, _, port = target.rpartition(":")
    connection = socket.socket()
    connection.bind((source, 0))
    connection.connect((host, int(port)))
    return connection


def test_a_strangers_thousand_connections_leave_a_client_working(client, start, files, spec):
    service = start(*files.options())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(1000):
                stack.enter_context(connect_from("127.0.0.2", service.target))
            wait_for_log(service, "connections are closed a second after they are made, unheard: the host 127.0.0.2 ")
            assert client.ok(spec, service.target, environment=files.environment(files.job))["samples"] == 100
            # Beside the 512 of one host: its own.
            deadline = time.monotonic() + 60
            while len(os.listdir(f"/proc/{service.process.pid}/fd")) > 700:
                assert time.monotonic() < deadline
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Files that change.


def test_new_connections_use_new_certificates(client, start, files, spec, tmp_path):
    pem, key = tmp_path / "now.pem", tmp_path / "now.key"
    shutil.copy(files.server[0], pem)
    shutil.copy(files.server[1], key)
    service = start(*files.options((pem, key)))
    old = files.environment(files.job)
    assert client.ok(spec, service.target, environment=old)["samples"] == 100

    # Half of it is there, then a key that does not fit: what was there before is still shown.
    pem.write_text(cut(files.foreign_server[0], tmp_path).read_text())
    wait_for_log(service, "damaged or cut short; write the whole file again; what was there before stays in use")
    assert client.ok(spec, service.target, environment=old)["samples"] == 100
    shutil.copy(files.foreign_server[0], pem)
    wait_for_log(service, "the key is not that of the certificate; what was there before stays in use")
    assert client.ok(spec, service.target, environment=old)["samples"] == 100

    shutil.copy(files.foreign_server[1], key)
    wait_for_log(service, "new connections use what is there now")
    new = files.environment(files.job, ca=files.stranger.pem)
    assert client.ok(spec, service.target, environment=new)["samples"] == 100
    assert "not trusted" in client.error(spec, service.target, environment=old)["message"]


def test_a_new_authority_of_clients_replaces_the_old_one(client, start, files, spec, tmp_path):
    authority = tmp_path / "clients.pem"
    shutil.copy(files.authority.pem, authority)
    pem, key = files.server
    service = start(
        "--tls-cert", str(pem), "--tls-key", str(key), "--tls-client-ca", str(authority), "--allow-stream", "job-a"
    )
    own, foreign = files.environment(files.job), files.environment(files.foreign)
    assert client.ok(spec, service.target, environment=own)["samples"] == 100
    assert "hangs up on the certificate" in client.error(spec, service.target, environment=foreign)["message"]
    shutil.copy(files.stranger.pem, authority)
    wait_for_log(service, "new connections use what is there now")
    assert client.ok(spec, service.target, environment=foreign)["samples"] == 100
    assert "hangs up on the certificate" in client.error(spec, service.target, environment=own)["message"]


def test_a_client_reads_its_files_for_every_connection(client, start, files, tmp_path):
    service = start(*files.options())
    pem, key = tmp_path / "own.pem", tmp_path / "own.key"
    shutil.copy(files.job[0], pem)
    shutil.copy(files.job[1], key)
    epochs = range_spec(tmp_path / "e.yaml", size=100, epochs=2)
    process = client.pausing(
        epochs, service.target, environment=files.environment((pem, key)), credit_batches=1, pause_after=1
    )
    # The service comes back, at its address, for another name.
    shutil.copy(files.other_job[0], pem)
    shutil.copy(files.other_job[1], key)
    service.listen = service.target
    service.options = (*service.options[:-1], "job-b")
    service.restart()
    process.stdin.write("\n")
    process.stdin.flush()
    result = client.finish(process)
    assert "error" not in result, result
    assert (result["samples"], result["reconnects"]) == (200, 1)


def test_a_new_token_replaces_the_old_one(client, start, files, spec, tmp_path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    pem, key = files.server
    service = start("--tls-cert", str(pem), "--tls-key", str(key), "--token-instead-of-certificate", str(token))
    assert client.ok(spec, service.target, environment=files.environment(token=token))["samples"] == 100
    old = tmp_path / "old"
    shutil.copy(token, old)
    token.write_text(TOKEN[::-1])
    wait_for_log(service, "new connections use what is there now")
    assert client.ok(spec, service.target, environment=files.environment(token=token))["samples"] == 100
    assert "not this service's" in client.error(spec, service.target, environment=files.environment(token=old))["message"]


def test_a_token_file_that_becomes_empty_leaves_the_last_token_in_use(client, start, files, spec, tmp_path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    pem, key = files.server
    service = start("--tls-cert", str(pem), "--tls-key", str(key), "--token-instead-of-certificate", str(token))
    token.write_text("")
    wait_for_log(service, f"--token-instead-of-certificate {token}: is empty; ")
    wait_for_log(service, "what was there before stays in use")
    assert client.ok(spec, service.target, environment=files.environment(token=files.token))["samples"] == 100
    assert client.error(spec, service.target, environment=files.environment())["reason"] == "ACCESS_DENIED"


def test_a_hangup_changes_rights_and_log_level(client, start, files, spec, tmp_path):
    config = tmp_path / "bulkheadd.yaml"
    config.write_text("allow-stream: job-a\n")
    service = start(*files.options()[:-2], "--config", config)
    first, second = (files.environment(own) for own in (files.job, files.other_job))
    assert client.ok(spec, service.target, environment=first)["samples"] == 100
    assert client.error(spec, service.target, environment=second)["reason"] == "ACCESS_DENIED"

    config.write_text("allow-stream: job-b\nlog-level: nonsense\n")
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "nothing has changed")
    assert f"{config}:2:12: log-level" in (service.folder / "log").read_text()
    assert client.ok(spec, service.target, environment=first)["samples"] == 100

    config.write_text("allow-stream: job-b\nlog-level: debug\nthreads: 2\n")
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "other options have changed, too; they take effect at the next start")
    assert client.ok(spec, service.target, environment=second)["samples"] == 100
    assert client.error(spec, service.target, environment=first)["reason"] == "ACCESS_DENIED"
    client.error(spec, service.target, environment=files.environment())
    wait_for_log(service, " debug gRPC: Handshake failed")


# What cannot be used.


def test_a_service_names_the_file_that_it_cannot_use(files, tmp_path):
    def said(**changes):
        pem, key = files.server
        given = {"cert": pem, "key": key, "client-ca": files.authority.pem, **changes}
        options = [word for name, path in given.items() for word in (f"--tls-{name}", path)]
        return refused(tmp_path, "--listen", "127.0.0.1:0", "--allow-stream", "job-a", *options)

    half = cut(files.server[0], tmp_path)
    empty = tmp_path / "empty"
    empty.write_text("")
    missing = tmp_path / "missing"
    assert f"--tls-cert {files.expired[0]}: the certificate expired at " in said(cert=files.expired[0], key=files.expired[1])
    assert f"--tls-cert {half}: certificate 1 in it is damaged or cut short" in said(cert=half)
    assert f"--tls-cert {empty}: holds no certificate" in said(cert=empty)
    assert f"--tls-cert {missing}: " in said(cert=missing)
    assert "the key is not that of the certificate" in said(key=files.job[1])
    half_key = cut(files.server[1], tmp_path)
    assert f"--tls-key {half_key}: holds no private key" in said(key=half_key)
    assert f"--tls-client-ca {half}: certificate 1 in it is damaged" in said(**{"client-ca": half})


@pytest.mark.parametrize("text,word", [("", "is empty"), ("short", "has 5 characters"), (f"{TOKEN} {TOKEN}", "more than a token")])
def test_a_service_refuses_a_token_that_is_none(files, tmp_path, text, word):
    token = tmp_path / "token"
    token.write_text(text + "\n")
    pem, key = files.server
    said = refused(
        tmp_path, "--listen", "127.0.0.1:0", "--tls-cert", pem, "--tls-key", key, "--token-instead-of-certificate", token
    )
    assert f"--token-instead-of-certificate {token}: " in said and word in said


def test_a_client_names_the_file_that_it_cannot_use(client, files, spec, tmp_path):
    def said(target="127.0.0.1:1", **changes):
        environment = {**files.environment(files.job), **changes}
        error = client.error(spec, target, environment=environment)
        assert error["reason"] == "CREDENTIALS_INVALID"
        return error["message"]

    half = cut(files.job[0], tmp_path)
    empty = tmp_path / "empty"
    empty.write_text("")
    missing = tmp_path / "missing"
    assert f"BULKHEAD_TLS_CA {half}: holds no " in said(BULKHEAD_TLS_CA=half)
    assert f"BULKHEAD_TLS_CERT {half}: holds no " in said(BULKHEAD_TLS_CERT=half)
    assert f"BULKHEAD_TLS_CERT {missing}: cannot be read: No such file" in said(BULKHEAD_TLS_CERT=missing)
    key = files.other_job[1]
    assert f"BULKHEAD_TLS_KEY {key}: is not the key of the certificate in" in said(BULKHEAD_TLS_KEY=key)
    assert f"BULKHEAD_TLS_KEY {half}: holds no private key" in said(BULKHEAD_TLS_KEY=half)
    assert "belong together" in said(BULKHEAD_TLS_KEY=None)
    assert f"BULKHEAD_TOKEN_FILE {empty}: is empty" in said(BULKHEAD_TOKEN_FILE=empty)
    assert f"BULKHEAD_TOKEN_FILE {missing}: cannot be read: No such file" in said(BULKHEAD_TOKEN_FILE=missing)
    assert "over TLS only" in said(BULKHEAD_TLS_CA=None)
    assert "over TLS only" in said(BULKHEAD_TLS_CA=None, BULKHEAD_TLS_CERT=None, BULKHEAD_TLS_KEY=None, BULKHEAD_TOKEN_FILE=empty)


def test_nobody_is_asked_for_the_passphrase_of_a_key(client, files, spec, tmp_path):
    locked = encrypted(files.job[1], tmp_path)
    environment = files.environment((files.job[0], locked))
    process = client.start(spec, "127.0.0.1:1", environment=environment, timeout=30)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write("sesame\n")
        process.stdin.flush()
    error = client.finish(process)["error"]
    assert error["reason"] == "CREDENTIALS_INVALID"
    assert f"BULKHEAD_TLS_KEY {locked}: holds no private key" in error["message"]


# Unix sockets.

STRANGER = 54321


class StrangersService(Service):
    """bulkheadd of another user."""

    popen = {"user": STRANGER, "group": STRANGER, "extra_groups": []}

    @property
    def program(self):
        return self.folder / "bulkheadd"


@pytest.fixture
def strangers_service():
    with tempfile.TemporaryDirectory(prefix="bulkhead-") as folder:  # pytest's are closed to others
        os.chown(folder, STRANGER, STRANGER)
        os.chmod(folder, 0o755)
        for program in ("bulkheadd", "bulkhead-worker"):  # the build's folder may be closed to it, too
            shutil.copy(BIN / program, folder)
        service = StrangersService(pathlib.Path(folder), folder)
        yield service
        service.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a service of another user")
def test_who_listens_on_a_socket_must_be_trusted(client, strangers_service, spec, tmp_path):
    error = client.error(spec, strangers_service.target)
    assert error["reason"] == "UNTRUSTED_SERVICE"
    assert f"set BULKHEAD_SOCKET_USER={STRANGER}" in error["message"]
    trusted = {"BULKHEAD_SOCKET_USER": str(STRANGER)}
    result = client.ok(spec, strangers_service.target, environment=trusted)
    assert result["samples"] == 100
    named = write_target_file(tmp_path / "t.yaml", target=strangers_service.target, socket_user=STRANGER)
    assert client.ok(spec, named)["samples"] == 100
    assert client.ok(spec, strangers_service.target, credential=[f"socket_user={STRANGER}"])["samples"] == 100
    unknown = client.error(spec, strangers_service.target, environment={"BULKHEAD_SOCKET_USER": "no-such-user"})
    assert unknown["reason"] == "INVALID_ARGUMENT"
