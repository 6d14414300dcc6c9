"""Who listens at a Unix socket."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from typing import Optional

from ..errors import InvalidArgument, UntrustedService

_CREDENTIALS = struct.Struct("iII")  # ucred of unix(7): pid, uid, gid


def check(connection: socket.socket, path: str, allowed: Optional[str]) -> None:
    """Raises UntrustedService unless a connected socket leads to this process's user, root or `allowed`.

    `allowed` is a name or a number; InvalidArgument if there is no such user.
    """
    answer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    check_user(_CREDENTIALS.unpack(answer)[1], os.geteuid(), path, allowed)


def check_user(user: int, own: int, path: str, allowed: Optional[str]) -> None:
    """The same for a socket of `user` and a process of user `own`."""
    if user in (own, 0) or (allowed and user == _number_of(allowed)):
        return
    others = f" nor {allowed}" if allowed else ""
    raise UntrustedService(
        f"user {user} listens at {path}, neither this process's user {own} nor root{others}. "
        f"If that service is the one you mean, set BULKHEAD_SOCKET_USER={user}",
        metadata={"path": path, "user": str(user)},
    )


def _number_of(user: str) -> int:
    if user.isdigit():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise InvalidArgument(
            f"there is no user {user!r}; BULKHEAD_SOCKET_USER is a user's name or number"
        ) from None
