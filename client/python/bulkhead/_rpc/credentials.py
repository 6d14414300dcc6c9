"""How a service and its client identify each other."""

from __future__ import annotations

import dataclasses
import os
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Credentials:
    """How a service and its client identify each other (docs/security.md).

    A field that is None is taken from the target file, if there is one, or else from its environment
    variable. Files are read for every connection, so a new one is used from the next connection on. An
    embedded service takes none of this. `ca`, `cert`, `key` and `token_file` are for TCP, `socket_user` is for Unix sockets.

    `ca` ($BULKHEAD_TLS_CA): PEM file of the authority that signs services' certificates. With it
    connections over TCP use TLS, without it they do not.

    `cert`, `key` ($BULKHEAD_TLS_CERT, $BULKHEAD_TLS_KEY): PEM files of this client's certificate and
    its key.

    `token_file` ($BULKHEAD_TOKEN_FILE): file with the token for a service that takes one instead.

    `socket_user` ($BULKHEAD_SOCKET_USER): name or number of the user whose service may listen there,
    beside this process's own user and root.
    """

    ca: Optional[str] = None
    cert: Optional[str] = None
    key: Optional[str] = None
    token_file: Optional[str] = None
    socket_user: Optional[str] = None


_VARIABLES = {
    "ca": "BULKHEAD_TLS_CA",
    "cert": "BULKHEAD_TLS_CERT",
    "key": "BULKHEAD_TLS_KEY",
    "token_file": "BULKHEAD_TOKEN_FILE",
    "socket_user": "BULKHEAD_SOCKET_USER",
}


def checked(credentials: Optional[Credentials]) -> Credentials:
    """`credentials`, or those without a field. TypeError for anything else."""
    if credentials is None:
        return Credentials()
    if not isinstance(credentials, Credentials):
        raise TypeError(
            f"credentials is bulkhead.Credentials(ca=..., cert=..., key=...), not {type(credentials).__name__}"
        )
    return credentials


def named(field: str, path: str) -> str:
    """ "ca (BULKHEAD_TLS_CA) /x.pem", or "ca /x.pem" when it does not come from that variable."""
    variable = _VARIABLES[field]
    return f"{field} ({variable}) {path}" if os.environ.get(variable) == path else f"{field} {path}"


def with_environment(credentials: Optional[Credentials]) -> Credentials:
    """`credentials`, with fields that are None taken from the environment."""
    given = checked(credentials)
    said = {field: os.environ.get(variable) or None for field, variable in _VARIABLES.items()}
    return Credentials(**{field: getattr(given, field) or said[field] for field in said})
