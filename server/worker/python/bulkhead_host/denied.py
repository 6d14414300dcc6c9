"""Names the calls that the workers' sandbox denies: of a refused system call Python tells neither name nor remedy."""

from __future__ import annotations

import errno
import os
import sys

# By what they do, the calls as their audit events name them.
_DENIED = {
    "which starts another process": (
        "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "pty.spawn", "subprocess.Popen",
    ),
    "which opens a connection": ("socket.__new__",),
    "which asks the network for a name": ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"),
    "which changes what is known of a file": (
        "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr", "os.truncate",
    ),
    "which gives a file another name": ("os.link", "os.symlink"),
}
_DOES = {event: what for what, events in _DENIED.items() for event in events}
_WRITTEN = {"os.exec": "os.exec*", "socket.__new__": "socket.socket"}  # where people call it otherwise

_is_on = False
_probes = False


def watch() -> None:
    """From now on the calls above raise PermissionError where the sandbox's filter is in force.

    It costs others nothing, and what Python audits, such as open(), a look into a table.
    """
    sys.addaudithook(_check)


def _check(event: str, _arguments: tuple) -> None:
    does = _DOES.get(event)
    if does is not None and _filter_is_on():
        error = PermissionError(errno.EPERM, f"the workers' sandbox denies {_WRITTEN.get(event, event)}, {does}")
        error.is_named = True  # type: ignore[attr-defined]
        raise error


def is_named(error: BaseException) -> bool:
    """Whether it is an error of ours, which says what was denied."""
    return getattr(error, "is_named", False) is True


def _filter_is_on() -> bool:
    """The worker's own filter, not that of a container: it is the one that denies this."""
    global _is_on, _probes
    if not _is_on and not _probes:
        _probes = True  # the call below is audited, too
        try:
            os.chmod("", 0)
        except PermissionError:
            _is_on = True
        except OSError:  # there is no such file, as everywhere
            pass
        finally:
            _probes = False
    return _is_on
