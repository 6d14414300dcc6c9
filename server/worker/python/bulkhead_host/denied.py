"""Names the calls that the workers' sandbox denies: of a refused system call Python tells neither name nor remedy."""

from __future__ import annotations

import errno
import os
import sys

# By audit event: the call, and what it does.
_PROCESS = "which starts another process"
_NETWORK = "which opens a connection"
_NAME = "which asks the network for a name"
_FILE = "which changes what is known of a file"
_CALLS = {
    "os.system": ("os.system", _PROCESS),
    "os.exec": ("os.exec*", _PROCESS),
    "os.fork": ("os.fork", _PROCESS),
    "os.forkpty": ("os.forkpty", _PROCESS),
    "os.posix_spawn": ("os.posix_spawn", _PROCESS),
    "pty.spawn": ("pty.spawn", _PROCESS),
    "subprocess.Popen": ("subprocess.Popen", _PROCESS),
    "socket.__new__": ("socket.socket", _NETWORK),
    "socket.getaddrinfo": ("socket.getaddrinfo", _NAME),
    "socket.gethostbyname": ("socket.gethostbyname", _NAME),
    "socket.gethostbyaddr": ("socket.gethostbyaddr", _NAME),
    "os.chmod": ("os.chmod", _FILE),
    "os.chown": ("os.chown", _FILE),
    "os.utime": ("os.utime", _FILE),
    "os.setxattr": ("os.setxattr", _FILE),
    "os.removexattr": ("os.removexattr", _FILE),
    "os.truncate": ("os.truncate", _FILE),
    "os.link": ("os.link", "which gives a file another name"),
    "os.symlink": ("os.symlink", "which gives a file another name"),
}
_is_on = False
_probes = False


def watch() -> None:
    """From now on the calls above raise PermissionError where the sandbox's filter is in force.

    It costs others nothing, and what Python audits, such as open(), a look into a table.
    """
    sys.addaudithook(_check)


def _check(event: str, _arguments: tuple) -> None:
    call = _CALLS.get(event)
    if call is not None and _filter_is_on():
        error = PermissionError(errno.EPERM, f"the workers' sandbox denies {call[0]}, {call[1]}")
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
