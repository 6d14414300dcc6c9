"""Where a loader's service is: an address that stays, or an embedded service that is replaced."""

from __future__ import annotations

import re
from typing import Any, Callable, Optional

from ..errors import InvalidArgument
from . import embedded, service_log
from .arguments import Arguments, in_arguments

_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
# What gRPC itself would make of other forms.
_OTHER_SCHEMES = ("dns:", "ipv4:", "ipv6:")


def is_address(target: str) -> bool:
    """Whether a service may be there; gRPC would take port 65537 for port 1."""
    if target.startswith("unix:") and len(target) > len("unix:"):
        return True
    address = _HOST_AND_PORT.fullmatch(target)
    if address is not None and 0 < int(address[2]) < 1 << 16:
        return True
    return target.startswith(_OTHER_SCHEMES)


def check_target(target: Any) -> None:
    """Raises InvalidArgument for an invalid address."""
    if isinstance(target, str) and is_address(target):
        return
    raise InvalidArgument(
        f'target is "host:port", "unix:/path" or a target file (*.yaml), not {target!r}; without one the '
        "loader starts a service of its own"
    )


def refuse_options(arguments: Arguments) -> None:
    """Raises InvalidArgument for options that only a service of the loader's own can have."""
    wrong = arguments.given()
    if wrong:
        flag = "--" + wrong[0].replace("_", "-")
        raise InvalidArgument(
            f"{wrong[0]} is an option of a service that the loader starts; the one at `target` was "
            f"started by somebody else: leave {wrong[0]} out, or give that one {flag}"
        )


class Endpoint:
    """Without a `target`, which is an address, it holds an embedded service until `close`."""

    def __init__(
        self,
        target: Optional[str],
        arguments: Arguments,
        timeout: float = 0.0,
        suffix: str = "",
        words: Callable[[str], str] = in_arguments,
        upload: Any = None,
    ):
        """`timeout`: for an embedded service. `suffix`: what tells its loader's name from others' at a service that processes share.

        `words`: what makes of a message of an embedded service, or about a dataset, one in words that the program's author
        knows. `upload`: the dataset that goes to the service at `target` (_dataset.upload.Upload), or None.
        """
        if target is not None:
            refuse_options(arguments)
        self._suffix = suffix
        self._arguments = arguments.absolute()  # the program may change its folder
        self.embedded = target is None
        self.words = words if self.embedded or upload is not None else str
        self.upload = upload
        self.service: Optional[embedded.Service] = None
        self.target = target or ""
        self.revive(timeout, lambda: False)

    def revive(self, timeout: float, cancelled: Callable[[], bool]) -> None:
        """Makes sure that an embedded service is alive; does nothing for an address."""
        if not self.embedded:
            return
        old = self.service
        self.service = embedded.acquire(self._arguments, timeout, cancelled)
        self.target = self.service.target
        if old is not None:
            embedded.release(old)

    def name_on_the_wire(self, name: str) -> str:
        """The name of a loader `name` at the current service."""
        shared = isinstance(self.service, embedded.SharedService)
        return name + self._suffix if shared else name

    def post_mortem(self) -> str:
        """How the embedded service ended; empty while it runs and for an address."""
        service = self.service
        return service.post_mortem() if service is not None else ""

    def name_log_in(self, error: BaseException) -> None:
        """Lets an error of an embedded service end in the path of its log."""
        if self.service is not None:
            service_log.name_in(error, self.service.log)

    def kill(self) -> None:
        """Kills an embedded service that is stuck, so that `revive` replaces it."""
        service = self.service
        if service is not None:
            service.kill()

    def close(self) -> None:
        service, self.service = self.service, None
        if service is not None:
            embedded.release(service)
