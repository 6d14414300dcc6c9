"""gRPC, imported with the first connection: it takes longer than all else that this package imports."""

from __future__ import annotations

import os
import sys
from typing import Any


def load() -> Any:
    """The module."""
    if sys.version_info < (3, 10) and "grpc" not in sys.modules:
        # Programs are started by fork() there, not by vfork(), and gRPC's handlers for forks, which
        # run in that, abort now and then. A forked child cannot use an open loader with them either.
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    import grpc

    return grpc
