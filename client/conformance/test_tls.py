"""Who may connect: the real service, both clients, and certificates that the openssl program made."""

import contextlib
import os
import pathlib
import resource
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import pytest
from certificates import Authority
from conftest import BIN, Service
from tls_service import files, spec, start, tool, wait_for_log, write_target_file  # noqa: F401  (files, spec and start are fixtures)


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
    ("target: loader\n", ':1: `target` is "host:port" or "unix:/path", not \'loader\''),
    ("target: localhost:77777\n", ':1: `target` is "host:port" or "unix:/path", not \'localhost:77777\''),
    ("target: h:1,h:65536\n", ':1: `target` is "host:port" or "unix:/path", not \'h:1,h:65536\''),
])
def test_a_target_file_that_cannot_be_used_is_named_with_its_line(client, spec, tmp_path, text, said):
    path = tmp_path / "t.yaml"
    path.write_text(text)
    error = client.error(spec, path)
    assert error["reason"] == "INVALID_ARGUMENT"
    assert error["message"].startswith(f"{path}{said}"), error


def test_a_target_file_may_begin_with_a_byte_order_mark(client, service, spec, tmp_path):
    path = tmp_path / "t.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + f"target: {service.target}\n".encode())
    assert client.ok(spec, path)["samples"] == 100


@pytest.mark.parametrize("field", ["ca", "cert", "key", "token_file"])
def test_a_file_that_a_target_file_names_is_told_with_its_line(client, files, spec, tmp_path, field):
    entries = dict(ca=files.authority.pem, cert=files.job[0], key=files.job[1], token_file=files.token, target="127.0.0.1:1")
    named = write_target_file(tmp_path / "t.yaml", **{**entries, field: "nope"})
    error = client.error(spec, named)
    assert error["reason"] == "CREDENTIALS_INVALID"
    line = 1 + list(entries).index(field)
    assert error["message"].startswith(f"{named}:{line}: {field} {tmp_path}/nope: cannot be read: No such file"), error


def test_a_file_of_an_argument_is_told_without_the_variable(client, spec):
    error = client.error(spec, "127.0.0.1:1", credential=["ca=/nope"])
    assert "ca /nope: cannot be read: No such file" in error["message"]


def test_a_target_file_that_is_not_there_is_named(client, spec, tmp_path):
    error = client.error(spec, tmp_path / "t.yaml")
    assert error["reason"] == "INVALID_ARGUMENT"
    assert error["message"] == f"the target file {tmp_path}/t.yaml cannot be read: No such file or directory"


def test_without_a_certificate_nothing_is_served(client, start, files, spec):
    service = start(*files.options())
    error = client.error(spec, service.target, environment=files.environment())
    assert error["reason"] == "SERVICE_UNAVAILABLE"
    assert "wants a client certificate; give cert and key (BULKHEAD_TLS_CERT" in error["message"]
    wait_for_log(service, "a client fails in its TLS handshake: peer did not return a certificate")


@pytest.mark.parametrize("kind", ["foreign", "expired", "self_signed", "only_server"])
def test_a_certificate_that_the_service_does_not_take(client, start, files, spec, kind):
    service = start(*files.options())
    own = getattr(files, kind)
    error = client.error(spec, service.target, environment=files.environment(own))
    assert f"hangs up on the certificate {own[0]} of this client; " in error["message"]
    why = error["message"].partition(" of this client; ")[2]
    if kind == "expired":
        until = subprocess.run(
            ["openssl", "x509", "-in", own[0], "-noout", "-enddate"], capture_output=True, text=True, check=True
        ).stdout.strip().partition("=")[2]
        expired = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ssl.cert_time_to_seconds(until)))
        assert why.startswith(f"that expired at {expired} UTC"), error
    else:
        assert why.startswith("the service's --tls-client-ca is not the authority that signed it, or it lacks"), error
        assert "an intermediate certificate, or its extended key usage excludes clients" in why


FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


@pytest.mark.skipif(not FAKETIME.exists(), reason="needs libfaketime")
def test_a_certificate_of_tomorrow_is_told_as_such(client, start, files, spec, tmp_path):
    service = start(*files.options())
    ahead = Authority(tmp_path / "ahead", command=("env", f"LD_PRELOAD={FAKETIME}", "FAKETIME=+1d"))
    own = ahead.issue("job-a", "DNS:job-a")
    error = client.error(spec, service.target, environment=files.environment(own))
    assert " of this client; that is not valid before 20" in error["message"], error


def test_a_service_with_a_certificate_of_a_client_is_not_trusted(client, start, files, spec):
    service = start(*files.options(files.only_client))
    error = client.error(spec, service.target, environment=files.environment(files.job))
    assert "its certificate is not one of a server by its extended key usage; the service needs another" in error["message"]


def test_a_service_of_another_authority_is_not_trusted(client, start, files, spec):
    service = start(*files.options(files.foreign_server))
    error = client.error(spec, service.target, environment=files.environment(files.job))
    assert "its certificate is not trusted" in error["message"]
    assert f"ca (BULKHEAD_TLS_CA) {files.authority.pem} is not the authority that signed it, or the service's" in error["message"]


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
    assert "leave out ca (BULKHEAD_TLS_CA)" in error["message"]


def test_no_tls_to_a_port_with_it(client, start, files, spec):
    service = start(*files.options())
    error = client.error(spec, service.target)
    assert "it speaks TLS; give the authority of its certificate with ca (BULKHEAD_TLS_CA)" in error["message"]


def test_status_lists_services_on_tcp_too(start, files):
    plain, secure = start("--insecure-tcp"), start(*files.options(), "--allow-status", "job-a")

    def lines(**environment):
        run = subprocess.run([BIN / "bulkhead", "status", "--all"], capture_output=True, text=True, timeout=60, check=True,
                             env={**os.environ, **{name: str(value) for name, value in environment.items() if value}})
        told = {line.split("  ")[0]: line for line in run.stdout.splitlines()}
        return [told.get(service.target, "") for service in (plain, secure)]

    first, second = lines()
    assert f"pid {plain.process.pid}," in first and "  tells nothing: " in second and "it speaks TLS" in second
    assert f"pid {secure.process.pid}," in lines(**files.environment(files.job))[1]
    plain.stop()
    assert lines()[0] == ""


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


# Unix sockets.

STRANGER = 54321


class StrangersService(Service):
    """bulkheadd of another user."""

    popen = {"user": STRANGER, "group": STRANGER, "extra_groups": []}

    @property
    def program(self):
        return self.folder / "bulkheadd"


# Of an abstract socket nobody can be asked who listens, and gRPC would take a host alone for its port 443.
@pytest.mark.parametrize("target", [
    "unix-abstract:bulkhead", "localhost", "127.0.0.1:72614", "127.0.0.1:0", ":-5", "127.0.0.1:-5", "localhost:7077:1",
    "unxi:/x", "https://localhost:7077", "unix:",
])
def test_what_gRPC_would_take_and_nobody_means_is_no_target(client, spec, target):
    error = client.error(spec, target)
    assert error["reason"] == "INVALID_ARGUMENT"
    assert f'target is "host:port", "unix:/path" or a target file (*.yaml), not \'{target}\'' in error["message"]


def test_a_file_in_a_sockets_place_is_told_as_such(client, spec, tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text("")
    error = client.error(spec, f"unix:{path}")
    assert error["reason"] == "SERVICE_UNAVAILABLE"
    assert "it is no socket" in error["message"]


def test_a_fifo_is_no_target_file(client, spec, tmp_path):
    os.mkfifo(tmp_path / "t.yaml")
    error = client.error(spec, str(tmp_path / "t.yaml"))
    assert error["message"] == f"the target file {tmp_path}/t.yaml cannot be read: it is no file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_socket_of_another_user_is_told_as_such(client, service, spec):
    run = subprocess.run(
        [BIN / "bulkhead", "status", "--target", service.target],
        user=STRANGER, group=STRANGER, extra_groups=[], capture_output=True, text=True, timeout=60,
    )
    assert "only the user that the service runs as, and root, may connect" in run.stderr


def test_a_question_is_for_one_service(service, tmp_path):
    run = tool(f"{service.target},unix:/elsewhere", {}, "status")
    assert f"names several services ({service.target},unix:/elsewhere); this asks one of them" in run.stderr


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
def test_a_root_that_the_services_user_may_not_read_is_warned_of(strangers_service, tmp_path):
    with tempfile.TemporaryDirectory(prefix="bulkhead-") as closed:  # by its mode, 0700
        strangers_service.options = ("--root", closed)
        strangers_service.restart()
        wait_for_log(strangers_service, f"--root {closed}: the service's user, {STRANGER}, may not read it (Permission denied)")
        text = (strangers_service.folder / "log").read_text()
        assert f"--root {strangers_service.root}: the service's user" not in text


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
