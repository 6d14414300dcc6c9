"""Datasets of the user's own at a service that somebody else started: --allow-datasets."""

import contextlib
import json
import pathlib
import subprocess
import threading
import time

import bulkhead
import numpy as np
import own_sources as own
import pytest
from bulkhead._dataset import stages
from bulkhead._dataset import upload as upload_module
from bulkhead._dataset.upload import Upload
from bulkhead._dataset.image import Image
from bulkhead._dataset.words import of_data_loader
from bulkhead._rpc import proto
from bulkhead._rpc.connection import Connection
from certificates import Authority
from conftest import BIN, PYTHON

CODE = pathlib.Path(own.__file__).parent
ALLOWED = ("--allow-datasets", "--python", PYTHON, "--python-path", CODE, "--workers", "1")


def spec_of(dataset, batch=4, **more):
    return {"source": {"python": bulkhead.Source(dataset, ("x", "y"))}, "batch": {"size": batch}, **more}


def labels(loader):
    return [batch["y"].tolist() for batch in loader]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def sent(monkeypatch):
    """How many bytes go to services, call by call."""
    put, lengths = upload_module._Service.put, []

    def counted(self, id, whole, offset, data):
        lengths.append(len(data))
        return put(self, id, whole, offset, data)

    monkeypatch.setattr(upload_module._Service, "put", counted)
    return lengths


def test_a_dataset_is_brought_once_and_read_by_the_services_workers(services, tmp_path, sent):
    service = services(tmp_path / "s", *ALLOWED)
    table = np.arange(3 << 20, dtype=np.int64)  # several parts of 4 MiB
    spec = spec_of(own.Table(table), order="global", seed=3)
    with bulkhead.Loader(spec, service.target) as loader:
        first = next(iter(loader))
        assert (first["y"] == table[first["x"].astype(np.int64)]).all()
        whole = sum(sent)
        assert table.nbytes < whole < table.nbytes + (1 << 20)
        with bulkhead.Loader(spec, service.target) as other:
            assert next(iter(other))["y"].tolist() == first["y"].tolist()
            streams = bulkhead.service_status(service.target)["streams"]
            assert len(streams) == 2 and len({stream["pipeline"] for stream in streams}) == 1, "equal datasets share their workers"
    assert sum(sent) == whole


def test_a_dataset_cannot_change_what_other_workers_read(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED)
    with bulkhead.Loader(spec_of(own.Scribbles(4)), service.target) as loader:
        assert labels(loader) == [[0, 0, 0, 0]]


def test_workers_without_a_stream_give_their_dataset_up_for_another(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED, "--dataset-bytes", "12MiB")
    tables = [np.arange(1 << 20) + first for first in range(2)]
    with bulkhead.Loader(spec_of(own.Table(tables[0])), service.target) as loader:
        next(iter(loader))
        with pytest.raises(bulkhead.BulkheadError, match=r"others in use take 8.*MiB of --dataset-bytes 12MiB; close other loaders, let it"):
            bulkhead.Loader(spec_of(own.Table(tables[1])), service.target)
    with bulkhead.Loader(spec_of(own.Table(tables[1])), service.target) as loader:
        assert next(iter(loader))["y"].tolist() == tables[1][:4].tolist()


def test_it_is_brought_again_to_a_service_that_was_lost(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED)
    with bulkhead.Loader(spec_of(own.Pairs(40)), service.target) as loader:
        found = [next(iter(loader))["y"].tolist()]
        service.process.kill()
        service.process.wait(60)
        services(tmp_path / "s", *ALLOWED)
        found += labels(loader)
    assert sum(found, []) == list(range(40))


def test_a_dataset_that_was_dropped_meanwhile_is_brought_again(services, tmp_path, monkeypatch):
    service = services(tmp_path / "s", *ALLOWED)
    send, calls = Upload.send, []

    def every_second_time(self, *where, **more):
        calls.append(where)
        if len(calls) % 2 == 0:
            send(self, *where, **more)

    monkeypatch.setattr(Upload, "send", every_second_time)
    with bulkhead.Loader(spec_of(own.Pairs(8)), service.target) as loader:
        assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(calls) > 2


@pytest.mark.parametrize("replicas", [1, 2])
def test_closing_a_loader_ends_what_it_sends(services, tmp_path, monkeypatch, replicas):
    started = [services(tmp_path / f"r{number}", *ALLOWED) for number in range(replicas)]
    loader = bulkhead.Loader(spec_of(own.Pairs(400)), [replica.target for replica in started])
    batches = iter(loader)
    next(batches)
    sending, ended = threading.Event(), threading.Event()

    def until_closed(self, target, credentials, authority="", closed=lambda: False):
        sending.set()
        while not closed():
            time.sleep(0.01)
        ended.set()
        raise bulkhead.LoaderClosed("the loader is closed")

    def read():
        with contextlib.suppress(bulkhead.LoaderClosed):  # unless the other replica had all of them made
            list(batches)

    monkeypatch.setattr(Upload, "send", until_closed)
    reading = threading.Thread(target=read, daemon=True)
    started[0].process.kill()
    reading.start()
    assert sending.wait(60)
    loader.close()
    assert ended.wait(60)
    reading.join(60)


def test_a_service_that_is_not_there_is_told_with_what_to_do():
    with pytest.raises(bulkhead.ServiceUnavailable, match="cannot be reached .*; check that bulkheadd runs there"):
        bulkhead.Loader(spec_of(own.Pairs(3)), "unix:/tmp/nobody")


def test_datasets_that_differ_only_in_their_data_have_workers_of_their_own(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED)
    one = own.Table(np.arange(8))
    other = own.Table(np.arange(8) + 100)
    with bulkhead.Loader(spec_of(one), service.target) as first, bulkhead.Loader(spec_of(other), service.target) as second:
        assert labels(first) == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert labels(second) == [[100, 101, 102, 103], [104, 105, 106, 107]]


def test_a_samplers_list_changes_from_epoch_to_epoch_and_the_workers_stay(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED)
    image = Image({"dataset": own.Pairs(10), "collate": None, "worker_init": None}, {"class": "Pairs", "workers": 1, "seed": 0})
    words = of_data_loader("Pairs", "{dataset}[{number}]", str)
    arguments = {**stages.Identity("Pairs", "", "", 10, "mine", "").arguments(), "listed": "samples"}
    options = {"target": service.target}
    seen, pids = [], set()
    layout = None
    for epoch, indices in enumerate([[3, 1, 2], [9, 8, 7]]):
        image.write_list(epoch, indices)
        if layout is None:
            layout = stages.learned(image, {**arguments, "total": "10"}, epoch, 0, 2, options)
        first = stages.stage("sample", {**arguments, "layout": json.dumps(list(layout))}, layout.outputs())
        spec = stages.spec_of(3, first, ["v1"], {"size": 3}, epochs=epoch + 1)
        with stages.DatasetLoader(image, spec, words, listed=True, **options) as loader:
            if epoch > 0:
                loader.set_epoch(epoch)
            seen += [batch["v1"].tolist() for batch in loader]
            pids |= {worker["pid"] for worker in bulkhead.service_status(service.target)["workers"] if worker["samples"] > 1}
    image.close()
    assert seen == [[3, 1, 2], [9, 8, 7]]
    assert len(pids) == 1, "the same workers read the next list"


def test_a_samplers_list_cannot_be_changed_by_workers(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED)
    image = Image({"dataset": own.Scribbles(10), "collate": None, "worker_init": None}, {"class": "Scribbles", "workers": 1, "seed": 0})
    image.write_list(0, [3, 1, 2])
    arguments = {**stages.Identity("Scribbles", "", "", 10, "mine", "").arguments(), "listed": "samples"}
    options = {"target": service.target}
    layout = stages.learned(image, {**arguments, "total": "10"}, 0, 0, 2, options)
    first = stages.stage("sample", {**arguments, "layout": json.dumps(list(layout))}, layout.outputs())
    spec = stages.spec_of(3, first, ["v0", "v1"], {"size": 3}, epochs=1)
    with stages.DatasetLoader(image, spec, of_data_loader("Scribbles", "{dataset}[{number}]", str), listed=True, **options) as loader:
        (batch,) = loader
        assert (batch["v0"].tolist(), batch["v1"].tolist()) == ([3, 1, 2], [0, 0, 0])
    image.close()


def test_a_bad_sample_is_told_in_the_datasets_words(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED)
    with bulkhead.Loader(spec_of(own.Pairs(8, bad=5)), service.target) as loader:
        with pytest.raises(bulkhead.DataError, match=r"own_sources.Pairs\[5\]: ValueError: it is bad \(at .*own_sources.py"):
            list(loader)


def test_the_worker_that_looks_at_samples_ends_then(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED[:-1], "3")
    with bulkhead.Loader(spec_of(own.Pairs(8)), service.target):
        deadline = time.monotonic() + 25  # other idle workers stay for 30 s
        while len(pipelines := {worker["pipeline"] for worker in bulkhead.service_status(service.target)["workers"]}) != 1:
            assert time.monotonic() < deadline, pipelines
            time.sleep(0.05)


def test_a_service_that_was_not_told_to_takes_none(services, tmp_path):
    service = services(tmp_path / "s", "--python", PYTHON, "--python-path", CODE, "--workers", "1")
    with pytest.raises(bulkhead.BulkheadError, match="start bulkheadd with --allow-datasets, or leave target out") as caught:
        bulkhead.Loader(spec_of(own.Pairs(3)), service.target)
    assert caught.value.reason == "DATASET_REFUSED"


def test_sizes_are_bounded(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED, "--dataset-bytes", "1MiB")
    with pytest.raises(bulkhead.BulkheadError, match=r"takes 8.*MiB, but --dataset-bytes is 1MiB; .* larger --dataset-bytes"):
        bulkhead.Loader(spec_of(own.Table(np.arange(1 << 20))), service.target)
    with bulkhead.Loader(spec_of(own.Pairs(4)), service.target) as loader:
        assert labels(loader) == [[0, 1, 2, 3]]


def test_parts_count_as_questions_of_which_a_client_has_100_at_once_and_20_a_second(services, tmp_path):
    service = services(tmp_path / "s", *ALLOWED)
    with contextlib.closing(Connection(service.target, bulkhead.Credentials(), [])) as connection:
        put = connection.channel.unary_unary(
            "/bulkhead.v1.Loader/PutDataset", proto.PutDatasetRequest.SerializeToString, proto.PutDatasetResponse.FromString
        )
        began = time.monotonic()
        for _ in range(130):
            answer = put(proto.PutDatasetRequest(id="a" * 32, size=1), timeout=60)
    assert time.monotonic() - began > 1.4
    assert (answer.have, answer.boot_id) == (0, bulkhead.service_status(service.target)["boot_id"])


def test_the_dataset_reads_only_what_the_service_may(services, tmp_path):
    (tmp_path / "data").mkdir()
    for folder in (tmp_path, tmp_path / "data"):
        (folder / "x.txt").write_text("1")
    service = services(tmp_path / "s", *ALLOWED, "--root", tmp_path / "data")
    with bulkhead.Loader(spec_of(own.Reads(4, str(tmp_path / "data" / "x.txt"))), service.target) as loader:
        assert labels(loader) == [[0, 1, 2, 3]]
    with pytest.raises(bulkhead.BulkheadError, match="PermissionError"):
        bulkhead.Loader(spec_of(own.Reads(4, str(tmp_path / "x.txt"))), service.target)


def test_several_replicas_get_it_also_one_that_comes_back(services, tmp_path):
    replicas = [services(tmp_path / f"r{number}", *ALLOWED) for number in range(2)]
    with bulkhead.Loader(spec_of(own.Pairs(400, bad=398)), [replica.target for replica in replicas]) as loader:
        batches = iter(loader)
        found = [next(batches)["y"].tolist() for _ in range(10)]
        for replica, number in zip(replicas, range(2)):
            replica.process.kill()
            replica.process.wait(60)
            services(tmp_path / f"r{number}", *ALLOWED)
            found += [next(batches)["y"].tolist() for _ in range(20)]
        with pytest.raises(bulkhead.DataError, match=r"own_sources.Pairs\[398\]: ValueError: it is bad"):
            for batch in batches:
                found.append(batch["y"].tolist())
    assert sum(found, []) == list(range(396))


def test_options_of_a_service_of_its_own_are_refused_beside_a_target():
    with pytest.raises(bulkhead.InvalidArgument, match="give that one --worker-quota"):
        bulkhead.Loader(spec_of(own.Pairs(3)), "unix:/tmp/nobody", worker_quota="1GiB")


def test_over_tls_a_name_needs_the_right_to_send_code(services, tmp_path, monkeypatch):
    authority = Authority(tmp_path / "ca")
    server, trainer, guest = (authority.issue(name, f"DNS:{name},IP:127.0.0.1") for name in ("server", "trainer", "guest"))
    service = services(
        tmp_path / "s", *ALLOWED, "--tls-cert", server[0], "--tls-key", server[1], "--tls-client-ca", authority.pem,
        "--allow-stream", "*", "--allow-code", "trainer", listen="127.0.0.1:0",
    )

    def loader(own_files, dataset):
        credentials = bulkhead.Credentials(ca=str(authority.pem), cert=str(own_files[0]), key=str(own_files[1]))
        return bulkhead.Loader(spec_of(dataset), service.target, credentials=credentials)

    # More than a connection may send otherwise: 32 MiB at once, 4 MiB a second.
    table = np.arange(6 << 20)
    with loader(trainer, own.Table(table)) as allowed:
        assert next(iter(allowed))["y"].tolist() == [0, 1, 2, 3]
        with pytest.raises(bulkhead.AccessDenied, match="may not bring code here; bulkheadd allows it by --allow-code guest"):
            loader(guest, own.Pairs(3))
        # Not even one that is there.
        there = allowed._open.datasets[0]
        monkeypatch.setattr(Image, "digest", lambda self: there)
        monkeypatch.setattr(Upload, "send", lambda self, target, credentials, closed: None)
        with pytest.raises(bulkhead.AccessDenied, match="may not bring code"):
            loader(guest, own.Pairs(3))


@pytest.mark.parametrize("rights", [("stream", "code"), ("stream",)])
def test_whoever_has_the_token_brings_code_where_tokens_have_that_right(services, tmp_path, rights):
    authority = Authority(tmp_path / "ca")
    server = authority.issue("server", "DNS:server,IP:127.0.0.1")
    token = tmp_path / "token"
    token.write_text("secret-" * 8)
    token.chmod(0o600)
    service = services(
        tmp_path / "s", *ALLOWED, "--tls-cert", server[0], "--tls-key", server[1], "--tls-client-ca", authority.pem, "--allow-code", "trainer",
        "--token-instead-of-certificate", token, *(word for right in rights for word in ("--token-rights", right)), listen="127.0.0.1:0",
    )
    credentials = bulkhead.Credentials(ca=str(authority.pem), token_file=str(token))
    if "code" in rights:
        with bulkhead.Loader(spec_of(own.Pairs(8)), service.target, credentials=credentials) as loader:
            assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
        return
    with pytest.raises(bulkhead.AccessDenied, match="the token may not bring code here; bulkheadd allows it by --token-rights with code"):
        bulkhead.Loader(spec_of(own.Pairs(8)), service.target, credentials=credentials)


def test_a_service_to_which_anybody_may_connect_takes_none(tmp_path):
    options = ["--listen", "127.0.0.1:0", "--insecure-tcp", "--allow-datasets", "--cache-dir", tmp_path / "c"]
    run = subprocess.run([BIN / "bulkheadd", *options], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "every local user could run code" in run.stderr, run


@pytest.mark.parametrize("allowed, room, words", [
    ((), "1GiB", "--dataset-bytes without --allow-datasets: the service takes no datasets of clients; give both"),
    (("--allow-datasets",), "1GiB",
     "--dataset-bytes 1GiB is a part of the memory budget of 1GiB, which has 776MiB beside supervisor 48MiB, a worker 100MiB and one "
     "replacement 100MiB; give less, a larger --memory-budget or a smaller --worker-quota"),
])  # fmt: skip
def test_room_that_no_dataset_can_have_is_refused_at_start(tmp_path, allowed, room, words):
    options = ["--listen", f"unix:{tmp_path}/s", "--memory-budget", "1GiB", "--worker-quota", "100MiB", "--cache-dir", tmp_path / "c"]
    command = [BIN / "bulkheadd", *options, "--python", PYTHON, "--python-path", CODE, *allowed, "--dataset-bytes", room]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and words in run.stderr, run
