"""The options of the service that a Loader starts, and how messages name them."""

import pathlib
import re

import bulkhead
import numpy as np
import pytest

from bulkhead._service.arguments import Arguments, checked, in_arguments

SERVER = pathlib.Path(__file__).resolve().parents[3] / "server"


def test_every_argument_is_the_flag_of_its_name():
    declared = (SERVER / "app/config.cc").read_text()
    for name in Arguments._fields:
        assert f'"--{name.replace("_", "-")}"' in declared, name


def test_what_was_given_becomes_flags():
    made = checked(worker_quota=1 << 20, memory_budget="2GiB", block_cache_bytes=0, coefficient_cache_bytes="1GiB", native_path=["a", pathlib.Path("b")], workers=3)
    assert made.flags() == [
        "--workers", "3", "--worker-quota", "1048576B", "--memory-budget", "2GiB", "--block-cache-bytes", "0B",
        "--coefficient-cache-bytes", "1GiB",
        "--native-path", "a",
        "--native-path", "b",
    ]
    assert checked(native_path="one").native_path == ("one",)
    assert checked().flags() == [] and checked().given() == []


@pytest.mark.parametrize("option, most, others", [("workers", 1024, "'auto' (as many as the training loop needs), or "), ("threads", 256, "")])
def test_a_count_that_the_service_refuses_starts_none(option, most, others, monkeypatch):
    monkeypatch.setenv("BULKHEAD_SERVER", "/nowhere/bulkheadd")  # else ServiceNotFound
    assert f"Between(1, {most}" in (SERVER / "app/config.cc").read_text(), "the service has other bounds"
    for count in (0, -1, most + 1, 2.5, True, "all", "0"):
        with pytest.raises(bulkhead.InvalidArgument) as raised:
            bulkhead.Loader({}, **{option: count})
        assert str(raised.value) == f"{option} is {others}a whole number from 1 to {most}, not {count!r}"
    for count in (1, most, "2", np.int64(3), "auto")[: None if others else 4]:
        assert checked(**{option: count}).flags() == [f"--{option}", str(count)]


@pytest.mark.parametrize("size", [-1, True, 1.5])
def test_a_size_that_is_none_is_named(size):
    with pytest.raises(bulkhead.InvalidArgument, match="memory_budget is a size such as '512MiB'"):
        bulkhead.Loader({}, memory_budget=size)


@pytest.mark.parametrize(
    "size, meant",
    [("1GB", "1GiB"), ("2 gib", "2GiB"), ("512m", "512MiB"), ("8G", "8GiB"), ("1.5GiB", ""), ("512", ""), ("", "")],
)
def test_a_size_that_the_service_cannot_read_starts_none(size, meant, monkeypatch):
    monkeypatch.setenv("BULKHEAD_SERVER", "/nowhere/bulkheadd")  # else ServiceNotFound
    with pytest.raises(bulkhead.InvalidArgument) as raised:
        bulkhead.Loader({}, worker_quota=size)
    text = str(raised.value)
    assert "worker_quota is a size such as '512MiB'" in text and f"not {size!r}" in text
    assert text.endswith(f"; did you mean {meant!r}?") == bool(meant)


def test_an_unknown_argument_is_named_with_the_nearest():
    with pytest.raises(TypeError, match="no argument 'worker_quoto'; did you mean 'worker_quota'"):
        bulkhead.Loader({}, worker_quoto="1GiB")
    with pytest.raises(TypeError, match="no argument 'zzz'; there are: spec, target, credentials, name"):
        bulkhead.Loader({}, zzz=1)


@pytest.mark.parametrize("option", [{"worker_quota": "1GiB"}, {"workers": 2}, {"threads": 1}, {"cache_dir": "c"}, {"trace_python": True}])
def test_a_service_of_somebody_else_cannot_be_told(option):
    [name] = option
    flag = "--" + name.replace("_", "-")
    with pytest.raises(bulkhead.InvalidArgument, match=f"{name} is an option .* leave {name} out, or give that one {flag}$"):
        bulkhead.Loader({}, "unix:/nowhere", **option)


@pytest.mark.parametrize(
    "said, read",
    [
        ("raise --worker-quota (now 512MiB)", "raise worker_quota= (now 512MiB)"),
        ("; start bulkheadd with a larger --worker-quota", "; give the Loader a larger worker_quota="),
        ("start bulkheadd with --native-path FOLDER", "give the Loader native_path=FOLDER"),
        ("allow it with --sandbox=landlock", "allow it with sandbox=\"landlock\""),
        ("start bulkheadd with --allow-fault-stages", "start bulkheadd with --allow-fault-stages"),
        ("below a --root or a --python-path of the service", "below a folder of the data or of sys.path"),
        ("a file called x--workers", "a file called x--workers"),
        ("write Loader(..., workers=8), or start bulkheadd --workers 8", "write Loader(..., workers=8)"),
    ],
)
def test_messages_name_what_the_reader_has(said, read):
    assert in_arguments(said) == read


# Options of a service that one starts oneself: no Loader has them.
_OF_DAEMONS = {
    "--allow-fault-stages", "--quota-enforcement", "--worker-extra-threads", "--root", "--cache-bytes",
    "--coefficient-cache-bytes", "--stage-cache-bytes", "--scratch-dir", "--python", "--embedded", "--listen",
    "--allow-stream", "--allow-status", "--allow-operate", "--allow-code", "--allow-datasets", "--dataset-bytes", "--token-rights", "--token-instead-of-certificate",
    "--allow",  # the begin of three of them
    "--tls-cert", "--tls-key", "--tls-client-ca", "--insecure-tcp", "--open-rate", "--share-window",
}


def test_arguments_of_another_loader_are_answered_with_what_does_that_here():
    with pytest.raises(TypeError, match="no argument 'shuffle'; write order: global in the spec"):
        bulkhead.Loader({}, shuffle=True)
    with pytest.raises(TypeError, match="no argument 'num_workers'; give workers=4$"):
        bulkhead.Loader({}, num_workers=4)
    with pytest.raises(TypeError, match="no argument 'num_workers'; give workers=N$"):
        bulkhead.Loader({}, num_workers=0)
    with pytest.raises(TypeError, match="no argument 'epochs'; write epochs: 2 in the spec$"):
        bulkhead.Loader({}, epochs=2)
    with pytest.raises(TypeError, match="no argument 'batch_size'; write batch: {size: 64} in the spec"):
        bulkhead.Loader({}, batch_size=64)
    with pytest.raises(TypeError, match="'drop_last'; write batch: {size: N, last: drop} in the spec"):
        bulkhead.Loader({}, drop_last=True)


@pytest.mark.parametrize("name, advice", [
    ("worker", "did you mean 'workers'?"),
    ("num_worker", "give workers=2"),
    ("batchsize", "write batch: {size: 2} in the spec"),
    ("batchSize", "write batch: {size: 2} in the spec"),
    ("seeds", "write seed: 2 in the spec"),
    ("epoch", "write epochs: 2 in the spec"),
    ("quota", "did you mean 'worker_quota'?"),
    ("memory", "did you mean 'memory_budget'?"),
    ("worldsize", "did you mean 'world_size'?"),
    ("loglevel", "did you mean 'log_level'?"),
])
def test_a_name_that_is_nearly_one_is_answered_with_that_one(name, advice):
    with pytest.raises(TypeError) as raised:
        bulkhead.Loader({}, **{name: 2})
    assert str(raised.value) == f"Loader has no argument '{name}'; {advice}"


@pytest.mark.parametrize("arguments, message", [
    ({"credits": 0}, "credits lies between 1 and 4294967295, and is 0"),
    ({"credits": 1 << 32}, "credits lies between 1 and 4294967295, and is 4294967296"),
    ({"credits": "4"}, "credits must be a whole number, not '4'"),
    ({"credits": 2.5}, "credits must be a whole number, not 2.5"),
    ({"rank": "0"}, "rank must be a whole number, not '0'"),
    ({"world_size": True}, "world_size must be a whole number, not True"),
    ({"name": 1}, "name must be a text, not 1"),
    ({"cache_dir": 5}, "cache_dir must be the path of a folder, not 5"),
    ({"timeout": -1}, "timeout must be a number of seconds above 0, not -1"),
    ({"timeout": "5"}, "timeout must be a number of seconds, not '5'"),
    ({"reconnect_timeout": "5"}, "reconnect_timeout must be a number of seconds, not '5'"),
    ({"cursor": '{"version": 2}'}, "cursor must be the dict that state_dict.. gave.*json.loads"),
    ({"cursor": {}}, "without a cursor a stream begins at its start"),
])
def test_arguments_that_cannot_be_are_named(arguments, message):
    with pytest.raises(bulkhead.errors.InvalidArgument, match=message):
        bulkhead.Loader({}, **arguments)


def test_no_message_of_the_server_names_a_flag_that_nobody_has_thought_of():
    for path in [*SERVER.rglob("*.cc"), *SERVER.rglob("*.h"), *SERVER.rglob("functions.py")]:
        if path.parts[-2] == "app":
            continue
        for literal in re.findall(r'"(?:[^"\\\n]|\\.)*"', path.read_text()):
            if literal.startswith('"--') and literal.endswith(('="', '-fd"')):
                continue  # arguments of the workers' programs
            said = re.sub(r"`(?:bulkhead|aws) [^`]*`", "", literal)  # a command has options of its own
            for flag in re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", in_arguments(said)):
                assert flag in _OF_DAEMONS, f"{path}: {literal}"


@pytest.mark.parametrize("target", ["h:1", "t.yaml"])
@pytest.mark.parametrize("credentials", [{"ca": "ca.pem"}, "ca.pem"])
def test_credentials_of_another_type_are_refused(tmp_path, target, credentials):
    (tmp_path / "t.yaml").write_text("target: h:1\n")
    target = str(tmp_path / target) if target.endswith(".yaml") else target
    said = r"credentials is bulkhead\.Credentials\(ca=\.\.\., cert=\.\.\., key=\.\.\.\), not " + type(credentials).__name__
    with pytest.raises(TypeError, match=said):
        bulkhead.Loader("spec.yaml", target, credentials=credentials)
    with pytest.raises(TypeError, match=said):
        bulkhead.service_status(target, credentials=credentials)
