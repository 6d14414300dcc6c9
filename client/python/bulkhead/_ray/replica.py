"""One service of a fleet, in an actor of Ray."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import sys
import threading
from typing import Optional, Sequence

import ray
import ray.util

from .._service import service_log, service_process
from .._service.arguments import Arguments
from ..errors import BulkheadError, ServiceStartFailed
from .directory import News
from .private_folder import PrivateFolder

_START_SECONDS = 60.0
_TELL_SECONDS = 2.0
# How long a replica that cannot serve stays to say so; then Ray starts it again, perhaps elsewhere.
_FAILED_SECONDS = 30.0
_WHAT = "service"


class Replica:
    """Starts bulkheadd on its node, over TCP with TLS, and tells the directory where it is.

        start ──ready──▶ serving ──stop──▶ ended
          │                 └──bulkheadd ends──▶ this process ends, and Ray starts it again
          └──error──▶ told for 30 s, then this process ends, and Ray starts it again

    bulkheadd watches this process (--watch-pid) and ends with it, however it ends.
    """

    def __init__(self, number: int, directory: str, roots: Sequence[str], arguments: Arguments):
        """`directory`: the actor's name."""
        self._number = number
        self._directory = ray.get_actor(directory)
        self._node = ray.util.get_node_ip_address()
        self._folder: Optional[PrivateFolder] = None
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._last_words: Optional[service_process.LastWords] = None
        self._log = ""
        self._stopping = threading.Event()
        threading.Thread(target=self._run, args=(roots, arguments), name="bulkhead-replica", daemon=True).start()

    def ready(self) -> None:
        """Returns when the actor has begun, so that it has a node; its service may not be ready."""

    def stop(self) -> None:
        """Ends the service. Blocks until it has ended, for 20 s at most."""
        self._stopping.set()
        self._end()

    # The thread that starts the service, and tells of it.

    def _run(self, roots: Sequence[str], arguments: Arguments) -> None:
        try:
            self._news = self._start(roots, arguments)
        except Exception as error:
            known = error if isinstance(error, BulkheadError) else ServiceStartFailed(repr(error))
            self._end()
            self._news = News(self._node, error=known._saying(f"on the node {self._node}: {known.message}"))
        self._keep_telling()

    def _start(self, roots: Sequence[str], arguments: Arguments) -> News:
        program = service_process.find_program()
        version = _version_of(program)
        folder = self._folder = PrivateFolder()
        issued = ray.get(self._directory.certificate_for_node.remote(self._node))
        authority = ray.get(self._directory.authority.remote())
        host = f"[{self._node}]" if ":" in self._node else self._node
        command = [program, *service_process._python_options(), *arguments.flags(), "--listen", f"{host}:0"]
        for root in roots:
            command += ["--root", root]
        command += ["--tls-cert", folder.write("cert.pem", issued.certificate)]
        command += ["--tls-key", folder.write("key.pem", issued.key)]
        command += ["--tls-client-ca", folder.write("ca.pem", authority)]
        # Whoever has a certificate of this authority is a process of this fleet's job.
        for right in ("stream", "status", "operate"):
            command += [f"--allow-{right}", "*"]
        command += ["--watch-pid", str(os.getpid())]
        self._log = service_log.new(secrets.token_hex(3), arguments.cache_dir)
        if self._log:
            command += ["--log-file", self._log]
        # Not this process's own standard error, which Ray would send to the driver, line by line.
        self._process, ready = service_process.start(command, subprocess.PIPE)
        try:
            assert self._process.stderr is not None
            self._last_words = service_process.LastWords(self._process.stderr)
            address = service_process.await_ready(ready, _START_SECONDS, self._stopping.is_set, self._post_mortem, _WHAT)
        finally:
            os.close(ready)
        return News(self._node, address, version)

    def _post_mortem(self) -> str:
        """How the service ended, and its last words; empty while it runs."""
        assert self._process is not None and self._last_words is not None
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            return ""
        return service_process.how_it_ended(self._process.pid, code, self._last_words.get(), self._log, _WHAT)

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(service_process.TERM_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                service_process.kill(self._process)
        if self._folder is not None:
            self._folder.remove()

    def _keep_telling(self) -> None:
        failed_seconds = 0.0
        while failed_seconds < _FAILED_SECONDS:
            self._tell()
            if self._news.error is not None:
                if self._stopping.wait(_TELL_SECONDS):
                    return
                failed_seconds += _TELL_SECONDS
            elif self._ends_before_next():
                if self._stopping.is_set():
                    return
                self._say_why()
                break
        self._end()
        os._exit(1)  # not exit_actor(): Ray starts an actor again that ended unasked

    def _tell(self) -> None:
        with contextlib.suppress(Exception):  # the directory is being restarted
            ray.get(self._directory.tell.remote(self._number, self._news), timeout=10 * _TELL_SECONDS)

    def _ends_before_next(self) -> bool:
        """Waits until it is time to tell again; whether the service has ended by then."""
        assert self._process is not None
        try:
            self._process.wait(_TELL_SECONDS)
            return True
        except subprocess.TimeoutExpired:
            return False

    def _say_why(self) -> None:
        why = self._post_mortem()
        print(f"replica {self._number} of the fleet: {why}; Ray starts another one", file=sys.stderr, flush=True)
        self._news = News(self._node, error=ServiceStartFailed(f"on the node {self._node}: {why}"))
        self._tell()


def _version_of(program: str) -> str:
    """What bulkheadd says that it is. ServiceStartFailed for a program that does not say it."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_START_SECONDS, check=False)
        said = re.search(r"\d+\.\d+\S*", done.stdout)
        if done.returncode == 0 and said is not None:
            return said[0]
        why = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    raise ServiceStartFailed(f"{program} does not run: {why}")
