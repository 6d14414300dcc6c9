"""A target that a file names, with the credentials for it.

The file is YAML: a line for each of `target`, `ca`, `cert`, `key`, `token_file` and `socket_user`, with a
text behind it. Its twin is client/cpp/internal/service/target_file.cc.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from .._rpc import tls
from .._rpc.credentials import Credentials, checked, with_environment
from ..errors import CredentialsInvalid, InvalidArgument
from .endpoint import is_address

_KEYS = ("target", "ca", "cert", "key", "token_file", "socket_user")
_PATHS = ("ca", "cert", "key", "token_file")
_MAX_BYTES = 64 << 10
_LINE = re.compile(r"([A-Za-z_]+):(?:[ \t]+(.*))?")
_HAS = "a target file has " + ", ".join(_KEYS[:-1]) + " and " + _KEYS[-1]
_ended: Dict[str, str] = {}  # by path


def resolve(
    target: Any, credentials: Optional[Credentials]
) -> Tuple[Any, Credentials]:
    """The address, and by what it and this client know each other.

    `target`: an address, a target file, or FILE#ADDRESS, one of the services that the file names. What is given
    counts before what a target file says, and that before the environment.
    InvalidArgument with file and line for a target file that cannot be used, and CredentialsInvalid for
    a file that it names.
    """
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    path, _, named = target.rpartition("#") if isinstance(target, str) else ("", "", "")
    if is_target_file(path) and not is_target_file(target):
        address, known = resolve(path, credentials)
        if named not in services_in(address):
            raise InvalidArgument(f"{path} names no service {named!r}, but {address}")
        return named, known
    if not is_target_file(target):
        return target, with_environment(credentials)
    said = _read(target)
    given = checked(credentials)
    used = {key: entry for key, entry in said.items() if key != "target" and not getattr(given, key)}
    known = with_environment(dataclasses.replace(given, **{key: value for key, (value, _) in used.items()}))
    address = said["target"][0]
    if not address.startswith("unix:"):
        try:
            tls.channel_credentials(known)
        except CredentialsInvalid as failure:
            # Of the file's paths nobody else knows the line.
            field = failure.metadata.get("field", "")
            if field in used:
                raise failure._saying(f"{target}:{used[field][1]}: {failure.message}") from None
    return address, known


def end(path: str, why: str) -> None:
    """None of the services that this file names will come back; streams end with these words."""
    _ended[path] = why


def why_ended(path: str) -> str:
    """Why no service of this target file will come back; empty: they may."""
    return _ended.get(path, "")


def services_in(address: str) -> List[str]:
    """The services of an address: `a:1, b:2` has two. Each once."""
    parts = [part.strip() for part in address.split(",")]
    return list(dict.fromkeys(parts)) if all(map(is_address, parts)) else [address]  # a socket's name may have commas


def one_service(target: Any, credentials: Optional[Credentials]) -> Tuple[Any, Credentials]:
    """resolve() for what asks one service; InvalidArgument for a target that names several."""
    address, known = resolve(target, credentials)
    services = services_in(address) if isinstance(address, str) else [address]
    if len(services) > 1:
        # Of a file, the credentials come from there.
        one = services[0] if target == address else f"{target}#{services[0]}"
        raise InvalidArgument(f"{target} names several services ({address}); this asks one of them: name it, as in {one}")
    return services[0], known


def address_in(path: str) -> str:
    """The address in a target file."""
    return _read(path)["target"][0]


def is_target_file(target: Any) -> bool:
    # Whatever a socket's name ends in.
    return isinstance(target, str) and target.endswith((".yaml", ".yml")) and not target.startswith("unix:")


def _read(path: str) -> Dict[str, Tuple[str, int]]:
    """The value of each key, and its line."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise InvalidArgument(f"the target file {path} cannot be read: it is no file")
        with open(path, "rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8-sig", "replace")  # some editors write a byte-order mark
    except OSError as failure:
        raise InvalidArgument(
            f"the target file {path} cannot be read: {failure.strerror}"
        ) from None
    said: Dict[str, Tuple[str, int]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip()
        if not line or line.lstrip().startswith("#") or line == "---":
            continue
        try:
            key, value = _entry(line)
            if key in said:
                raise ValueError(f"`{key}` stands here twice")
        except ValueError as wrong:
            raise InvalidArgument(f"{path}:{number}: {wrong}") from None
        said[key] = (os.path.join(os.path.dirname(path), value) if key in _PATHS else value, number)
    if "target" not in said:
        raise InvalidArgument(f"{path}:1: `target` is missing; {_HAS}")
    return said


def _entry(line: str) -> Tuple[str, str]:
    """Key and value of a line. ValueError says what is wrong with it."""
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise ValueError(f"this is no `key: text`; {_HAS}")
    key, value = parts[1], _value(parts[1], (parts[2] or "").strip())
    if key not in _KEYS:
        raise ValueError(f"there is no `{key}`; {_HAS}")
    if key == "target" and not all(is_address(part.strip()) for part in value.split(",")):
        raise ValueError(f"`target` is \"host:port\" or \"unix:/path\", not '{value}'")
    return key, value


def _value(key: str, text: str) -> str:
    quote = text[:1] if text[:1] in ("'", '"') else ""
    if quote:
        value, end, rest = text[1:].partition(quote)
        rest = rest.strip()
        if not end or "\\" in value or (rest and not rest.startswith("#")):
            raise ValueError(f"the text of `{key}` is not in one pair of quotes, without backslashes")
    else:
        value = re.split("(?:^|[ \t])#", text)[0].rstrip()
        if value[:1] in tuple("[]{}&*!|>%@`,-?") or ": " in value:
            raise ValueError(f"the value of `{key}` is no plain text; put it in quotes")
    if not value:
        raise ValueError(f"`{key}` has no text")
    return value
