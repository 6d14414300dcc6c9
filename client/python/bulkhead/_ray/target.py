"""The target of a fleet, wherever it travels: a target file on the node of the process that holds it."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, Dict, List, Tuple

import ray
import ray.exceptions

from .._service import target_file
from ..errors import InvalidArgument, ServiceUnavailable
from .private_folder import PrivateFolder

_LOOK_SECONDS = 1.0
_FIRST_SECONDS = 60.0

_ENDED = "the fleet of this target has been closed: keep the bulkhead.ray.Fleet while its target is used"

_lock = threading.Lock()
_followers: Dict[str, "_Follower"] = {}  # of this process, by fleet


class _Follower:
    """Keeps a target file that names the fleet's replicas, with certificates beside it, until `close`."""

    def __init__(self, directory: Any):
        """Blocks until a replica serves, 60 s at most. ServiceUnavailable."""
        self._directory = directory
        self._folder = PrivateFolder()
        self.path = self._folder.file("fleet.yaml")
        self._addresses: List[str] = []
        self._begun = threading.Event()
        self._closed = threading.Event()
        self._error = ""
        threading.Thread(target=self._run, name="bulkhead-fleet", daemon=True).start()
        if not self._begun.wait(_FIRST_SECONDS) or self._error:
            self.close()
            raise ServiceUnavailable(
                f"no replica of the fleet of this target serves ({self._error or 'none has told its address'}): keep the "
                "bulkhead.ray.Fleet while its target is used, and see its `replicas`"
            )
        atexit.register(self.close)

    def close(self) -> None:
        """Removes the file. May be called twice."""
        self._closed.set()
        self._folder.remove()
        atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            authority = ray.get(self._directory.authority.remote())
            issued = ray.get(self._directory.certificate_for_client.remote())
            self._folder.write("ca.pem", authority)
            self._folder.write("cert.pem", issued.certificate)
            self._folder.write("key.pem", issued.key)
            while not self._addresses and not self._closed.is_set():
                self._look()
                self._closed.wait(0 if self._addresses else _LOOK_SECONDS)
        except Exception as error:
            self._error = str(error).strip().rpartition("\n")[2] or repr(error)
        self._begun.set()
        while not self._error and not self._closed.wait(_LOOK_SECONDS):
            if not ray.is_initialized():  # a call would begin a cluster of its own
                return
            try:
                self._look()
            except ray.exceptions.ActorDiedError:  # Ray starts the directory again unless the fleet was closed
                return target_file.end(self.path, _ENDED)
            except Exception:  # it is being restarted, or the job ends
                continue

    def _look(self) -> None:
        addresses = ray.get(self._directory.addresses.remote())
        # Without any, those of before stay: their services may come back, and a client waits for them.
        if not addresses or addresses == self._addresses or self._closed.is_set():
            return
        # Named twice, a single replica is a fleet of one: the client looks at the file again.
        names = addresses if len(addresses) > 1 else 2 * addresses
        text = f'target: "{", ".join(names)}"\nca: ca.pem\ncert: cert.pem\nkey: key.pem\n'
        self._folder.write("fleet.yaml", text.encode())
        self._addresses = addresses


class Target(os.PathLike):  # type: ignore[type-arg]
    """What a Loader takes as its target; pickled, it is another file, on the node where it arrives.

    The file is made when its path is first asked for, not on arrival: while Ray unpickles, it answers no call.
    """

    def __init__(self, fleet: str, directory: Any):
        self._fleet, self._directory = fleet, directory

    def __fspath__(self) -> str:
        """The file's path. Blocks until a replica serves, 60 s at most. ServiceUnavailable."""
        with _lock:
            follower = _followers.get(self._fleet)
            if follower is None:
                follower = _followers[self._fleet] = _Follower(self._directory)
        return follower.path

    def __str__(self) -> str:
        return self.__fspath__()

    def __repr__(self) -> str:
        return f"<Target of fleet {self._fleet[:8]}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        if not ray.is_initialized():
            raise InvalidArgument("the target of a fleet goes to processes of Ray only; start this one by Ray")
        return Target, (self._fleet, self._directory)


def forget(fleet: str) -> None:
    """The fleet has ended: removes its file from this process's node."""
    with _lock:
        follower = _followers.pop(fleet, None)
    if follower is not None:
        target_file.end(follower.path, _ENDED)
        follower.close()
