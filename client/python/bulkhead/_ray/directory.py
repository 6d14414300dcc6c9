"""Where the replicas of a fleet are: what replicas tell and trainers ask."""

from __future__ import annotations

import secrets
import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..errors import BulkheadError, InvalidArgument, ServiceUnavailable
from .authority import Authority, Issued


_SILENCE_SECONDS = 10.0


class News(NamedTuple):
    """What a replica tells of itself."""

    node: str
    address: str = ""  # of its service; empty: there is none
    version: str = ""  # of its bulkheadd
    error: Optional[BulkheadError] = None  # why it cannot serve


class Directory:
    """An actor on the driver's node. It holds nothing that replicas do not tell again within seconds, so it may be restarted.

        replica ──tell, every 2 s──▶ Directory ◀──addresses, every second── process with the fleet's target
    """

    def __init__(self, authority: Authority):
        self._authority = authority
        self._news: Dict[int, News] = {}
        self._told_at: Dict[int, float] = {}
        self._gone: Set[int] = set()
        self._version = ""  # of the first replica

    def authority(self) -> bytes:
        """The certificate of the fleet's authority."""
        return self._authority.certificate

    def certificate_for_node(self, address: str) -> Issued:
        """For the service on the node with this IP address."""
        return self._authority.issue(address)

    def certificate_for_client(self) -> Issued:
        """For one process. A name for each: a service's limits for a client hold for a name."""
        return self._authority.issue(f"trainer-{secrets.token_hex(6)}")

    def tell(self, number: int, news: News) -> None:
        """Replica `number` is so. Of another version than the first one, it is left out."""
        if number in self._gone:
            return
        if news.version:
            self._version = self._version or news.version
            if news.version != self._version:
                news = news._replace(error=self._differs(news))
        self._news[number], self._told_at[number] = news, time.monotonic()

    def _differs(self, news: News) -> BulkheadError:
        first = next((each.node for each in self._news.values() if each.version == self._version), "another node")
        return InvalidArgument(
            f"the node {news.node} has bulkheadd {news.version}, and {first} has {self._version}: the replicas of a "
            "fleet make one stream, so install the same version on all nodes"
        )

    def forget(self, numbers: Sequence[int]) -> List[int]:
        """These replicas are about to end; those of them that have told something."""
        self._gone.update(numbers)
        return [number for number in numbers if self._news.pop(number, None) is not None]

    def news(self) -> Dict[int, News]:
        """What each replica has last told of itself; one that has been silent for 10 s does not serve."""
        now = time.monotonic()
        return {number: self._now(news, now - self._told_at[number]) for number, news in self._news.items()}

    def _now(self, news: News, silent_seconds: float) -> News:
        if silent_seconds < _SILENCE_SECONDS:
            return news
        why = (
            f"nothing was heard of the replica on the node {news.node} for {silent_seconds:.0f} s: if it is lost, Ray starts it "
            "again where there is room"
        )
        return News(news.node, error=ServiceUnavailable(why))

    def addresses(self) -> List[str]:
        """Of the services that serve, or did when they last told something, in the order of their numbers."""
        told: List[Tuple[int, News]] = sorted(self._news.items())
        return [news.address for _, news in told if news.address and news.error is None]
