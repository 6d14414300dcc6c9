"""The metrics of a fleet's pod: a real nginx with the configuration of deploy/kubernetes, and a real Prometheus with its certificate."""

import contextlib
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess

import pytest
import yaml
from conftest import Service, folder  # noqa: F401  (folder is a fixture)
from prometheus import ROOT, Prometheus, program
from watched import metrics_url, target_of, wait_until

FLEET = ROOT / "deploy/kubernetes/overlays/fleet"
(ENDPOINT,) = yaml.safe_load((FLEET / "pod-monitor.yaml").read_text())["spec"]["podMetricsEndpoints"]


def openssl(folder, *words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, cwd=folder)


class Authority:
    """Fills folders as cert-manager fills Secrets."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self._key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        openssl(folder, "req", "-x509", *self._key, "-days", "1", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")

    def issue(self, secret, name):
        """A certificate for `name` in the folder `secret`, in the place of an older one."""
        new = self.folder / "new"
        new.mkdir()
        openssl(new, "req", *self._key, "-subj", f"/CN={name}", "-keyout", "tls.key", "-out", "tls.csr")
        (new / "names").write_text(f"subjectAltName=DNS:{name}")
        openssl(new, "x509", "-req", "-in", "tls.csr", "-CA", "../ca.crt", "-CAkey", "../ca.key", "-CAcreateserial", "-days", "1",
                "-extfile", "names", "-out", "tls.crt")  # fmt: skip
        shutil.copy(self.folder / "ca.crt", new)
        secret.mkdir(exist_ok=True)
        for path in new.iterdir():
            path.replace(secret / path.name)
        new.rmdir()
        return secret


class Pod:
    """bulkheadd and nginx, as the containers of a pod."""

    def __init__(self, folder):
        with contextlib.ExitStack() as ends:  # what has begun ends, also where the rest does not begin
            self._begin(folder, ends)
            self.stop = ends.pop_all().close

    def _begin(self, folder, ends):
        service = Service(folder, "--metrics", "127.0.0.1:0")
        ends.callback(service.stop)
        self.authority = Authority(folder / "authority")
        self.tls = self.authority.issue(folder / "tls", ENDPOINT["tlsConfig"]["serverName"])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        text = (FLEET / "nginx.conf").read_text()
        changes = {
            "/tmp/": f"{folder}/nginx-", "/etc/bulkhead/tls": str(self.tls), "listen 9465": f"listen 127.0.0.1:{self.port}",
            "http://127.0.0.1:9464": f"http://{target_of(metrics_url(folder))}",
        }  # fmt: skip
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        if os.geteuid() == 0:  # in the pod it is nobody else either
            text = "user root;\n" + text
        (folder / "nginx.conf").write_text(text)
        with (folder / "nginx.log").open("w") as log:
            self.nginx = subprocess.Popen(
                [program("nginx", "nginx/usr/sbin"), "-c", folder / "nginx.conf", "-e", "stderr", "-p", folder], stderr=log
            )
        ends.callback(self.nginx.wait, 20)
        ends.callback(self.nginx.terminate)
        wait_until(self._listens, (folder / "nginx.log").read_text)

    def _listens(self):
        assert self.nginx.poll() is None, (self.tls.parent / "nginx.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def connect(self, secret=None, most=None):
        context = ssl.create_default_context(cafile=str(self.authority.folder / "ca.crt"))
        if secret is not None:
            context.load_cert_chain(secret / "tls.crt", secret / "tls.key")
        if most is not None:
            context.maximum_version = most
        raw = socket.create_connection(("127.0.0.1", self.port), 10)
        return context.wrap_socket(raw, server_hostname=ENDPOINT["tlsConfig"]["serverName"])

    def ask(self, secret=None, path="/metrics"):
        """(status, body)"""
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = self.connect(secret)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def serial(self, secret):
        with self.connect(secret) as connection:
            return connection.getpeercert()["serialNumber"]


@pytest.fixture
def pod(folder):
    made = Pod(folder)
    yield made
    made.stop()


def test_prometheus_gets_the_metrics_and_others_do_not(pod, folder):
    secret = pod.authority.issue(folder / "prometheus-tls", "bulkhead-prometheus")
    trainer = pod.authority.issue(folder / "trainer-tls", "bulkhead-trainer")
    status, body = pod.ask(secret)
    assert status == 200 and re.search("^bulkhead_build_info", body, re.MULTILINE)
    assert pod.ask(secret, "/status.json")[0] == 404 and pod.ask(secret, "/")[0] == 404
    assert pod.ask(trainer)[0] == 403
    assert pod.ask()[0] == 400  # nginx's answer to who shows no certificate
    with pytest.raises(ssl.SSLError):
        pod.connect(secret, ssl.TLSVersion.TLSv1_2)
    job = {
        "job_name": "bulkhead",
        "scheme": ENDPOINT["scheme"],
        "metrics_path": ENDPOINT["path"],
        "tls_config": {
            "ca_file": str(secret / "ca.crt"), "cert_file": str(secret / "tls.crt"), "key_file": str(secret / "tls.key"),
            "server_name": ENDPOINT["tlsConfig"]["serverName"],
        },
        "static_configs": [{"targets": [f"127.0.0.1:{pod.port}"]}],
    }  # fmt: skip
    prometheus = Prometheus(folder / "prometheus", [], jobs=[job])
    try:
        wait_until(lambda: prometheus.value("up") == 1, lambda: prometheus.get("targets")["activeTargets"])
        assert prometheus.value("bulkhead_build_info") == 1
    finally:
        prometheus.stop()


def test_a_renewed_certificate_takes_effect_by_itself(pod, folder):
    secret = pod.authority.issue(folder / "prometheus-tls", "bulkhead-prometheus")
    before = pod.serial(secret)
    pod.authority.issue(pod.tls, ENDPOINT["tlsConfig"]["serverName"])
    assert pod.serial(secret) != before
