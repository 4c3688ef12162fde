"""The costs of each host for a worker: processor time, bytes, questions to nameservers, and waits for its share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import hostname, normalize, registered_domain, split

ALL = "*"
"""The name of the sum over all hosts."""
_MOST_HOSTS = 5_000


@dataclass(slots=True)
class Cost:
    """What a host or a registered domain has cost.

    seconds     of processor time, for its documents, their links and its robots.txt
    bytes       received: heads, bodies and robots.txt, as sent
    questions   to nameservers
    waits       times that it waited because it had used up its share
    """

    seconds: float = 0.0
    bytes: int = 0
    questions: int = 0
    waits: int = 0

    @property
    def weight(self) -> int:
        """A number to compare costs: a microsecond of processor or ten bytes count 1, a question or a wait 10,000."""
        return round(self.seconds * 1e6) + self.bytes // 10 + 10_000 * (self.questions + self.waits)

    def add(self, other: Cost) -> None:
        """Adds another cost."""
        self.seconds += other.seconds
        self.bytes += other.bytes
        self.questions += other.questions
        self.waits += other.waits


class Costs:
    """The costs of hosts since they were last taken.

    A name is a host ("https://example.org") or a registered domain ("example.org"). At most `most` hosts and domains
    have costs of their own; beyond that, the costs of the cheaper half count only in `ALL`. So a call takes constant
    time on average, and the memory is bounded while the engine is unavailable.
    """

    def __init__(self, most: int = _MOST_HOSTS) -> None:
        self._most = max(2, most)
        self._costs: dict[str, Cost] = {}
        self._rest = Cost()

    def of(self, name: str) -> Cost:
        """Returns the cost of a host or domain, to be increased at once and not kept."""
        cost = self._costs.get(name)
        if cost is None:
            if len(self._costs) >= self._most:
                self._shed()
            cost = self._costs[name] = Cost()
        return cost

    def charge(self, url: str, seconds: float) -> None:
        """Adds seconds of processor time to the cost of a URL's host; only to `ALL` if the URL is not valid."""
        try:
            self.of(split(normalize(url))[0]).seconds += seconds
        except InvalidURL:
            self._rest.seconds += seconds

    def take(self) -> dict[str, Cost]:
        """Returns the costs of hosts, of their domains, and of `ALL`, and starts again at zero."""
        taken, total = self._costs, self._rest
        self._costs, self._rest = {}, Cost()
        for cost in taken.values():
            total.add(cost)
        for name in [name for name in taken if "://" in name]:
            taken.setdefault(registered_domain(hostname(name)), Cost()).add(taken[name])
        if any(astuple(total)):
            taken[ALL] = total
        return taken

    def _shed(self) -> None:
        by_weight = sorted(self._costs, key=lambda name: self._costs[name].weight)
        for name in by_weight[: len(by_weight) // 2]:
            self._rest.add(self._costs.pop(name))


@dataclass(slots=True)
class Load:
    """What a host or a registered domain uses now.

    connections   requests under way
    unfinished    pages fetched and not finished: their documents are read, or they are in the pipelines
    waits         times that the host waited for its share in the last seconds
    """

    connections: int = 0
    unfinished: int = 0
    waits: int = 0

    def add(self, other: Load) -> None:
        """Adds another load."""
        self.connections += other.connections
        self.unfinished += other.unfinished
        self.waits += other.waits


def with_domains(loads: Iterable[tuple[str, Load]]) -> dict[str, Load]:
    """Returns the loads of hosts and domains; the load of a domain includes those of its hosts."""
    sums: dict[str, Load] = {}
    for name, load in loads:
        sums.setdefault(name, Load()).add(load)
        if "://" in name:
            sums.setdefault(registered_domain(hostname(name)), Load()).add(load)
    return sums
