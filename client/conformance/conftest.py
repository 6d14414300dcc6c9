"""Both clients, driven as programs, and the real service of $BULKHEAD_BIN_DIR."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PYTHON_PACKAGE = HERE.parent / "python"
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", HERE.parents[1] / "build/release/bin"))
SERVER = BIN / "bulkheadd"


class Client:
    """One of the two clients, as the program that prints a stream's digest."""

    def __init__(self, name, command):
        self.name = name
        self.command = [str(part) for part in command]

    def environment(self, changes):
        environment = {
            **os.environ,
            "PYTHONPATH": str(PYTHON_PACKAGE),
            "BULKHEAD_SERVER": str(SERVER),
            "BULKHEAD_TLS_EXPLAIN_SECONDS": "25",  # the machine may be busy
        }
        for key, value in changes.items():
            environment.pop(key, None)
            if value is not None:
                environment[key] = str(value)
        return environment

    def start(self, spec, target=None, environment=None, **options):
        command = [*self.command, "--spec", str(spec), "--error-json"]
        if target is not None:
            command += ["--target", target]
        for key, given in options.items():
            for value in given if isinstance(given, list) else [given]:
                command.append("--" + key.replace("_", "-"))
                if value is not True:
                    command.append(json.dumps(value) if isinstance(value, dict) else str(value))
        return subprocess.Popen(
            command,
            env=self.environment(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def pausing(self, *arguments, **options):
        """Starts the client; it has said that it pauses."""
        process = self.start(*arguments, **options)
        assert process.stdout.readline() == "paused\n"
        return process

    def finish(self, process, timeout=60):
        try:
            output, _ = process.communicate(timeout=timeout)
        finally:
            process.kill()
        result = json.loads(output.splitlines()[-1])
        assert process.returncode == (1 if "error" in result else 0), result
        return result

    def run(self, spec, target=None, timeout=30, **options):
        return self.finish(self.start(spec, target, timeout=timeout, **options))

    def ok(self, *arguments, **options):
        result = self.run(*arguments, **options)
        assert "error" not in result, result["error"]
        return result

    def error(self, *arguments, **options):
        result = self.run(*arguments, **options)
        assert "error" in result, result
        return result["error"]


CLIENTS = {
    "cpp": Client("cpp", [BIN / "bulkhead-client-digest"]),
    "python": Client("python", [sys.executable, "-m", "bulkhead.digest"]),
}


class Service:
    """bulkheadd on a Unix socket, serving `root`."""

    program = SERVER
    popen = {}  # more of subprocess.Popen

    def __init__(self, folder, root, *options):
        self.folder, self.root, self.options = folder, root, options
        self.target = f"unix:{folder}/s.sock"
        self.start()

    def start(self):
        self.log = open(self.folder / "log", "w+")
        ready, child_end = os.pipe()
        self.process = subprocess.Popen(
            [
                self.program, "--listen", self.target, "--ready-fd", str(child_end),
                "--root", str(self.root), "--cache-dir", str(self.folder / "cache"),
                "--workers", "2", *map(str, self.options),
            ],
            pass_fds=(child_end,),
            stderr=self.log,
            **self.popen,
        )
        os.close(child_end)
        with os.fdopen(ready) as said:
            self.ready = said.readline()
        if not self.ready.startswith("ready"):
            self.log.seek(0)
            raise RuntimeError(f"the service did not start: {self.log.read()}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self):
        """Kills it and starts another one at the same address."""
        self.kill()
        self.log.close()
        self.start()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()


def pytest_sessionstart():
    """Without the programs nothing is tested, and a skip would look like success."""
    missing = [str(path) for path in (SERVER, CLIENTS["cpp"].command[0]) if not os.path.exists(path)]
    if missing:
        pytest.exit(f"not built: {', '.join(missing)} ($BULKHEAD_BIN_DIR says where to look)", 1)


@pytest.fixture(params=sorted(CLIENTS))
def client(request):
    return CLIENTS[request.param]


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """The folder that the services of a session may read."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="session")
def service(tmp_path_factory, root):
    running = Service(tmp_path_factory.mktemp("s"), root)
    yield running
    assert running.process.poll() is None, "the service died"
    running.stop()


@pytest.fixture
def own_service(tmp_path, root):
    """A service that the test may kill."""
    running = Service(tmp_path, root)
    yield running
    running.stop()


@pytest.fixture
def folder(root, request):
    """A folder of the test's own that the services may read."""
    name = f"{request.module.__name__}-{request.node.name}"
    path = root / name.replace("/", "_").replace("[", "_").replace("]", "")
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def go_on(process):
    """Lets a client that pauses continue."""
    process.stdin.write("\n")
    process.stdin.flush()
