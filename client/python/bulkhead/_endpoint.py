"""Where a loader's service is: an address that stays, or an embedded service that is replaced."""

from __future__ import annotations

from typing import Callable, Optional

from . import _embedded


class Endpoint:
    """Without a `target` it holds an embedded service until `close`."""

    def __init__(
        self,
        target: Optional[str],
        workers: Optional[int],
        threads: Optional[int],
        cache_dir: Optional[str],
        timeout: float,
    ):
        self._options = (workers, threads, cache_dir)
        self.embedded = target is None
        self.service: Optional[_embedded.EmbeddedService] = None
        self.target = target or ""
        self.revive(timeout, lambda: False)

    def revive(self, timeout: float, cancelled: Callable[[], bool]) -> None:
        """Makes sure that an embedded service is alive; does nothing for an address."""
        if not self.embedded:
            return
        old = self.service
        self.service = _embedded.acquire(*self._options, timeout, cancelled)
        self.target = self.service.target
        if old is not None:
            _embedded.release(old)

    def post_mortem(self) -> str:
        """How the embedded service ended; empty while it runs and for an address."""
        service = self.service
        return service.post_mortem() if service is not None else ""

    def kill(self) -> None:
        """Kills an embedded service that is stuck, so that `revive` replaces it."""
        service = self.service
        if service is not None:
            service.kill()

    def close(self) -> None:
        service, self.service = self.service, None
        if service is not None:
            _embedded.release(service)
