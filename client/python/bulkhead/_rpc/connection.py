"""A channel to a service that is known to be the right one."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import Any, List, Optional, Tuple

from ..errors import BulkheadError, ServiceUnavailable
from . import grpc_library, socket_user, tls
from .credentials import Credentials

Options = List[Tuple[str, Any]]


class Connection:
    """`channel`, until `close`. gRPC connects with the first call, over TCP and over a Unix socket.

    Errors: ServiceUnavailable when nothing listens at a Unix socket, UntrustedService when the wrong
    user does, CredentialsInvalid for a file that cannot be used.
    """

    def __init__(self, target: str, credentials: Credentials, options: Options):
        self._target = target
        self._credentials = credentials
        self._socket: Optional[_PinnedSocket] = None
        grpc = grpc_library.load()
        if target.startswith("unix:"):
            self._socket = _PinnedSocket(target, credentials.socket_user)
            self.channel = grpc.insecure_channel(self._socket.target, options=options)
            return
        secure = tls.channel_credentials(credentials)
        if secure is None:
            self.channel = grpc.insecure_channel(target, options=options)
        else:
            self.channel = grpc.secure_channel(target, secure, options=options)

    def close(self) -> None:
        self.channel.close()
        if self._socket is not None:
            self._socket.close()

    def explain(self, failure: BulkheadError) -> BulkheadError:
        """`explained` for this connection."""
        return explained(failure, self._target, self._credentials)


def explained(failure: BulkheadError, target: str, credentials: Credentials) -> BulkheadError:
    """`failure` to connect, with the problem of TLS if that is the cause."""
    if failure.reason != "SERVICE_UNAVAILABLE":
        return failure
    why = tls.explain(target, credentials)
    if not why:
        return failure
    text = f"no connection to the service at {target}: {why}"
    return type(failure)(text, failure.reason, failure.metadata, failure.code)


class _PinnedSocket:
    """The socket file of a Unix target, whatever happens to its name.

    gRPC does not show its sockets, so another connection asks who listens. Both go by the open file:
    between them nobody can put another socket in its place.
    """

    def __init__(self, target: str, allowed: Optional[str]):
        path = target[len("unix:") :]
        path = path[2:] if path.startswith("//") else path
        self._file = -1
        try:
            self._file = os.open(path, os.O_PATH | os.O_CLOEXEC)
            pinned = f"/proc/self/fd/{self._file}"
            with socket.socket(socket.AF_UNIX) as asking:
                asking.setblocking(False)
                asking.connect(pinned)
                socket_user.check(asking, path, allowed)
        except OSError as failure:
            self.close()
            if isinstance(failure, BulkheadError):
                raise
            why = failure.strerror
            if os.path.exists(path) and not stat.S_ISSOCK(os.stat(path).st_mode):
                why = "it is no socket"
            elif failure.errno == errno.EACCES:
                why += ": only the user that the service runs as, and root, may connect"
            lost = ServiceUnavailable(
                f"the service at {target} cannot be reached or has ended ({why})",
                metadata={"target": target},
            )
            lost._advice = "check that bulkheadd runs there"
            raise lost from None
        except BaseException:
            self.close()
            raise
        self.target = f"unix:{pinned}"

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    __del__ = close
