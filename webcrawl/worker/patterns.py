"""The records of URL patterns that one worker knows of its hosts, and what it tells the engine of them."""

from __future__ import annotations

from collections import OrderedDict

from webcrawl.frontier import LeasedURL, Settlement
from webcrawl.policies.pattern_records import LOWEST_OF_ALL, HostPatterns, Outcome
from webcrawl.policies.priorities import LOWEST

MOST_HOSTS = 2_000
"""A worker keeps the records of this many hosts, the hosts of the last pages. Records of 64 patterns take 15 kB."""


class KnownPatterns:
    """The records of hosts.

    A host is leased to one worker at a time, and this worker has the records of the host. The engine gives the records
    with the lease. It gets them back when other patterns sink, or with the host. It has no records of a host of which
    nothing sinks.

    `sinks_leased`: URLs that were queued before their pattern sank are queued again when they are leased.
    """

    def __init__(self, *, sinks_leased: bool = True) -> None:
        self._sinks_leased = sinks_leased
        self._hosts: OrderedDict[str, HostPatterns] = OrderedDict()
        self._stored: dict[str, bytes] = {}
        """Host -> what the engine has."""
        self._urgent: set[str] = set()
        """Hosts of which other patterns sink than the engine knows."""

    def open(self, host: str, packed: bytes) -> None:
        """Takes the records that came with a lease."""
        if packed:
            self._keep(host, HostPatterns.unpack(packed))
            self._stored[host] = packed
        else:
            self._stored.pop(host, None)

    def add(self, host: str, path: str, outcome: Outcome) -> bool:
        """Counts a page; returns True if other patterns of the host sink than before."""
        known = self._hosts.get(host)
        if known is None:
            known = self._keep(host, HostPatterns())
        else:
            self._hosts.move_to_end(host)
        changed = known.add(path, outcome)
        if changed:
            self._urgent.add(host)
        return changed

    def add_links(self, host: str, path: str, links: int) -> None:
        """Counts the links of a page to URLs that were new."""
        if known := self._hosts.get(host):
            known.add_links(path, links)

    def levels(self, host: str, path: str, *, tries: bool = True) -> int:
        """Returns by how many levels a URL sinks; 0 for hosts that this worker does not know.

        `tries`: the URL may be a trial.
        """
        known = self._hosts.get(host)
        return known.levels(path, tries=tries) if known is not None else 0

    def tries(self, host: str, path: str) -> bool:
        """Whether links on a page may be trials: its pattern still gives something new."""
        known = self._hosts.get(host)
        return known is None or known.tries(path)

    def sink(self, url: LeasedURL) -> Settlement | None:
        """Returns the settlement of a leased URL that is to be queued again at the lowest level, or None.

        Seeds, requests of a spider, and URLs that were tried, have a date or got their level from an operator keep
        their level.
        """
        if not self._sinks_leased or url.level >= LOWEST or self.levels(url.host, url.path) < LOWEST_OF_ALL:
            return None
        if url.level <= 0 or not url.depth or url.extra is not None:
            return None
        if url.attempts or url.dated or url.fixed:
            return None
        return Settlement(url.index, "sink", reason=str(LOWEST))

    def unsaved(self, host: str, *, last: bool) -> bytes | None:
        """Returns the records that the engine is to get; None if it needs none now. `last`: the host is released."""
        if not (host in self._urgent or last):
            return None
        known, stored = self._hosts.get(host), self._stored.get(host, b"")
        if known is None:
            return None
        packed = known.pack() if known.sunk else b""
        return None if packed == stored else packed

    def saved(self, host: str, packed: bytes | None) -> None:
        """Records that the engine has got these records; None if it got none."""
        if packed is not None:
            self._urgent.discard(host)
            if packed:
                self._stored[host] = packed
            else:
                self._stored.pop(host, None)

    def close(self, host: str) -> None:
        """Forgets what the engine has: the host is not leased here any more."""
        self._stored.pop(host, None)
        self._urgent.discard(host)

    def _keep(self, host: str, records: HostPatterns) -> HostPatterns:
        self._hosts[host] = records
        self._hosts.move_to_end(host)
        while len(self._hosts) > MOST_HOSTS:
            self._hosts.popitem(last=False)
        return records
