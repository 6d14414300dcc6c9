"""Where the replicas of a service are."""

from __future__ import annotations

import os
import re
import socket
import threading
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from .. import errors
from .._service import target_file
from .._service.arguments import Arguments
from .._service.endpoint import Endpoint, check_target

_MOST = 256
_NAME = re.compile(r"dns:///([^\s:/\[\]]+):([0-9]{1,5})")
# How often names are resolved again, and a target file is looked at.
_NAME_SECONDS = 5.0
_FILE_SECONDS = 1.0


class Replica(NamedTuple):
    """One service."""

    target: str
    authority: str  # the name that its certificate has; empty: the target's


def named_by(target: Any) -> Optional[List[str]]:
    """The targets that a loader's `target` names, if it may name several services; InvalidArgument for a wrong one."""
    if isinstance(target, (list, tuple)):
        if not target:
            raise errors.InvalidArgument("target is an empty list; name at least one service")
        for each in target:
            check_target(each)
        return list(target)
    if not isinstance(target, str):
        return None
    parts = [part.strip() for part in target.split(",")]
    if len(parts) > 1 and all(_is_target(part) for part in parts):
        return parts
    return [target] if _NAME.fullmatch(target) else None


def is_fleet(targets: Sequence[str]) -> bool:
    """Whether these targets may be several services."""
    return len(targets) > 1 or _NAME.fullmatch(targets[0]) is not None


def _is_target(text: str) -> bool:
    try:
        check_target(text)
    except errors.InvalidArgument:
        return False
    return True


def find(targets: Sequence[str]) -> List[Replica]:
    """The services at these targets: of a `dns:///` name every address. ServiceUnavailable when it has none."""
    found: List[Replica] = []
    for target in targets:
        name = _NAME.fullmatch(target)
        found += _resolved(target, name[1], int(name[2])) if name else [Replica(target, "")]
    return list(dict.fromkeys(found))[:_MOST]


def _resolved(target: str, host: str, port: int) -> List[Replica]:
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as failure:
        raise errors.ServiceUnavailable(
            f"{target}: the name {host} resolves to nothing ({failure.strerror or failure}); check the name and that "
            "replicas run behind it",
            metadata={"target": target},
        ) from None
    hosts = sorted({f"[{answer[4][0]}]" if answer[0] == socket.AF_INET6 else str(answer[4][0]) for answer in answers})
    return [Replica(f"{each}:{port}", host) for each in hosts]


class FleetEndpoint(Endpoint):
    """Several replicas, which may come and go; `target` has all of them, separated by commas. Thread-safe."""

    def __init__(
        self,
        targets: Sequence[str],
        arguments: Arguments,
        path: str = "",
        words: Callable[[str], str] = str,
        upload: Any = None,
    ):
        """`path`: the target file that names them; it is read again when it changes. `words`, `upload`: as of an Endpoint, for a
        dataset. ServiceUnavailable for a name without addresses."""
        super().__init__(",".join(targets), arguments, words=words, upload=upload)
        self._path = path
        self._stamp: Tuple[int, ...] = (0,)  # the file may have changed since it was read
        self._targets = list(targets)
        self._lock = threading.Lock()
        self.replicas = find(self._targets)

    @property
    def why_ended(self) -> str:
        """Why no replica will come back; empty: they may."""
        return target_file.why_ended(self._path)

    @property
    def look_every(self) -> float:
        """Seconds until `look` may find others; 0: they do not change."""
        if self._path:
            return _FILE_SECONDS
        return _NAME_SECONDS if any(_NAME.fullmatch(each) for each in self._targets) else 0.0

    def look(self, warn: Callable[[str], None]) -> List[Replica]:
        """The replicas now. What cannot be read or resolved leaves them as they are; `warn` is told."""
        with self._lock:
            if self.why_ended:
                return self.replicas
            try:
                stamp = self._stamp_of_file()
                if stamp != self._stamp:
                    self._stamp = stamp
                    target = target_file.address_in(self._path)
                    self._targets = named_by(target) or [target]
                    self.target = ",".join(self._targets)
                self.replicas = find(self._targets)
            except errors.BulkheadError as failure:
                warn(failure.message)
            return self.replicas

    def _stamp_of_file(self) -> Tuple[int, ...]:
        if not self._path:
            return ()
        try:
            status = os.stat(self._path)
        except OSError:
            return (0,)
        return (status.st_ino, status.st_mtime_ns, status.st_size)
