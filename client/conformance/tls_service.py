"""A service over TCP with TLS, and certificates that the openssl program made."""

import os
import subprocess
import time

import pytest
from certificates import SERVER_NAMES, Authority
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
        self.only_server = self.authority.issue("only-server", usage="serverAuth")
        self.only_client = self.authority.issue("only-client", usage="clientAuth")
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
