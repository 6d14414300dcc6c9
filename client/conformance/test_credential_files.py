"""Files of certificates, keys and tokens that change while a service runs, or cannot be used."""

import contextlib
import os
import shutil
import signal

import pytest
from certificates import cut, encrypted
from data import range_spec
from tls_service import TOKEN, files, refused, spec, start, wait_for_log  # noqa: F401  (files, spec and start are fixtures)


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


def test_a_fifo_in_a_files_place_holds_nobody_up(client, start, files, spec, tmp_path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    pem, key = files.server
    service = start("--tls-cert", str(pem), "--tls-key", str(key), "--token-instead-of-certificate", str(token))
    token.unlink()
    os.mkfifo(token)
    wait_for_log(service, f"--token-instead-of-certificate {token}: is no file; ")
    token.unlink()
    token.write_text(TOKEN[::-1])
    wait_for_log(service, "new connections use what is there now")
    assert client.ok(spec, service.target, environment=files.environment(token=token))["samples"] == 100


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


def test_a_hangup_changes_rights_beside_a_damaged_file(client, start, files, spec, tmp_path):
    config, pem, key = tmp_path / "bulkheadd.yaml", tmp_path / "now.pem", tmp_path / "now.key"
    config.write_text("allow-stream: job-a\n")
    shutil.copy(files.server[0], pem)
    shutil.copy(files.server[1], key)
    service = start(*files.options((pem, key))[:-2], "--config", config)
    first, second = (files.environment(own) for own in (files.job, files.other_job))
    assert client.ok(spec, service.target, environment=first)["samples"] == 100

    pem.write_text("half")
    config.write_text("allow-stream: job-b\n")
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "SIGHUP: log level and rights were read again; the TLS files that were valid last stay in use: ")
    assert client.error(spec, service.target, environment=first)["reason"] == "ACCESS_DENIED"
    assert client.ok(spec, service.target, environment=second)["samples"] == 100


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
    assert f"--tls-cert {missing}: No such file" in said(cert=missing)
    swapped = said(cert=files.server[1], key=files.server[0])
    assert f"--tls-cert {files.server[1]}: holds no certificate but a private key" in swapped
    assert "holds no private key that can be read but a certificate" in said(key=files.server[0])
    assert "the key is not that of the certificate" in said(key=files.job[1])
    half_key = cut(files.server[1], tmp_path)
    assert f"--tls-key {half_key}: holds no private key" in said(key=half_key)
    assert f"--tls-client-ca {half}: certificate 1 in it is damaged" in said(**{"client-ca": half})


def test_a_service_says_where_a_wrong_value_stands(tmp_path, monkeypatch):
    config = tmp_path / "b.yaml"
    config.write_text("# ours\nroot: /nosuch\n")
    listen = ("--listen", f"unix:{tmp_path}/s.sock")
    assert refused(tmp_path, *listen, "--config", config).endswith(f"; --root is set at {config}:2:7\n")
    monkeypatch.setenv("BULKHEADD_ROOT", "/nosuch")
    assert refused(tmp_path, *listen).endswith("; --root is set by BULKHEADD_ROOT\n")


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
    assert f"ca (BULKHEAD_TLS_CA) {half}: holds no " in said(BULKHEAD_TLS_CA=half)
    assert f"cert (BULKHEAD_TLS_CERT) {half}: holds no " in said(BULKHEAD_TLS_CERT=half)
    assert f"cert (BULKHEAD_TLS_CERT) {missing}: cannot be read: No such file" in said(BULKHEAD_TLS_CERT=missing)
    key = files.other_job[1]
    assert f"key (BULKHEAD_TLS_KEY) {key}: is not the key of the certificate in" in said(BULKHEAD_TLS_KEY=key)
    assert f"key (BULKHEAD_TLS_KEY) {half}: holds no private key" in said(BULKHEAD_TLS_KEY=half)
    assert "belong together" in said(BULKHEAD_TLS_KEY=None)
    assert f"token_file (BULKHEAD_TOKEN_FILE) {empty}: is empty" in said(BULKHEAD_TOKEN_FILE=empty)
    assert f"token_file (BULKHEAD_TOKEN_FILE) {missing}: cannot be read: No such file" in said(BULKHEAD_TOKEN_FILE=missing)
    for no_file in (tmp_path, "/dev/zero"):
        for variable in ("BULKHEAD_TLS_CA", "BULKHEAD_TLS_CERT", "BULKHEAD_TLS_KEY", "BULKHEAD_TOKEN_FILE"):
            assert f"({variable}) {no_file}: cannot be read: it is no file" in said(**{variable: no_file})
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
    assert f"key (BULKHEAD_TLS_KEY) {locked}: holds no private key" in error["message"]
