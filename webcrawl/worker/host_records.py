"""What a worker learns about the URLs of its hosts, and the engine keeps: URL patterns, DUST rules, budgets."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from webcrawl.frontier import Candidate, Lease, LeasedURL, LeaseReport, Settlement
from webcrawl.policies.dust import SiteDust
from webcrawl.policies.page_sketches import Sketch
from webcrawl.policies.pattern_records import LOWEST_OF_ALL, HostPatterns, Outcome
from webcrawl.policies.priorities import LOWEST
from webcrawl.policies.url_variants import hosts_of, kind_of, site_of, variants
from webcrawl.urls.canonical import split
from webcrawl.worker.budgets import Budgets

_MOST_HOSTS = 2_000
"""A worker keeps the patterns of this many hosts, the hosts of the last pages. Records of 64 patterns take 15 kB."""
MOST_SITES = 500
"""A worker compares the pages of this many sites, the sites of the last pages; each site takes up to 60 kB."""
_MOST_KINDS = 20_000


class HostRecords:
    """What is known of hosts: the engine gives it with a lease, and gets back what has changed.

    patterns  the records of URL patterns, by which URLs sink
    dust      the rules by which simpler URLs replace others
    budgets   what names and domains spend; None if HOST_BUDGETS is off
    """

    def __init__(self, patterns: KnownPatterns, dust: Dust, budgets: Budgets | None = None) -> None:
        self.patterns, self.dust, self.budgets = patterns, dust, budgets

    def open(self, lease: Lease) -> None:
        """Takes what the engine knows of a host that was just leased."""
        self.patterns.open(lease.host, lease.patterns)
        self.dust.open(lease.host, lease.dust, lease.dust_off)
        if self.budgets:
            self.budgets.open(lease.host, answered=lease.answered)

    def close(self, host: str) -> None:
        """Forgets what the engine has of a host that is not leased here any more."""
        self.patterns.close(host)
        self.dust.close(host)

    def count_page(self, host: str, path: str, outcome: Outcome) -> bool:
        """Counts a page for the pattern of its URL; returns True if other patterns of the host sink than before."""
        changed = self.patterns.add(host, path, outcome)
        if self.budgets and outcome != "new":
            self.budgets.waste(host)
        return changed

    def complete(self, report: LeaseReport, *, last: bool) -> LeaseReport:
        """Returns a report with what the engine is to get. `last`: the host is released."""
        host = report.lease.host
        over = self.budgets.over(host) if self.budgets else ""
        return replace(
            report,
            patterns=self.patterns.unsaved(host, last=last),
            dust=self.dust.unsaved(host, last=last),
            over=None if over == report.lease.over else over,
        )

    def saved(self, report: LeaseReport) -> None:
        """Records that the engine has what a report contains."""
        self.patterns.saved(report.lease.host, report.patterns)
        self.dust.saved(report.lease.host, report.dust)
        if report.over is not None:
            report.lease.over = report.over


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
        while len(self._hosts) > _MOST_HOSTS:
            self._hosts.popitem(last=False)
        return records


class Rewritten(NamedTuple):
    """A URL after the rules of its host; `is_trial`: one rule was left out, to see whether it still holds."""

    url: str
    is_trial: bool


@dataclass(slots=True)
class _Site:
    """What is known of a site.

    stored   host -> checksum of what the engine has
    off      host -> rules that are switched off for it
    """

    dust: SiteDust = field(default_factory=SiteDust)
    stored: dict[str, int] = field(default_factory=dict)
    off: dict[str, frozenset[str]] = field(default_factory=dict)


class Dust:
    """The rules of hosts.

    The engine gives the evidence for the rules with the lease of a host. The engine gets it back with the host, or
    when other rules are used than before. A host and its "www." name share what this worker knows.

    admit        applies the filters of URLs; a rule must not make a URL that they drop or change
    fingerprint  returns the fingerprint of a URL for the seen test
    distance     the number of bits in which SimHashes of texts may differ that count as the same
    enabled      whether the evidence of the engine is used
    """

    def __init__(
        self,
        admit: Callable[[str], str | None] = lambda url: url,
        fingerprint: Callable[[str], int] = hash,
        distance: int = 3,
        *,
        enabled: bool = True,
    ) -> None:
        self.active: dict[str, SiteDust] = {}
        """The hosts with rules."""
        self._admit = admit
        self._fingerprint = fingerprint
        self._distance = distance
        self._enabled = enabled
        self._sites: OrderedDict[str, _Site] = OrderedDict()
        self._kinds: dict[str, int] = {}
        """Site -> bits of the hosts that had pages."""
        self._urgent: set[str] = set()
        """Hosts of which other rules are used than the engine knows."""

    def open(self, host: str, packed: bytes, off: frozenset[str] = frozenset()) -> None:
        """Takes what came with a lease."""
        name = site_of(host)
        site = self._sites.get(name)
        if not self._enabled or (site is None and not (packed or off)):
            return
        site = self._keep(name)
        if packed and zlib.crc32(packed) != site.stored.get(host):
            site.dust.merge(SiteDust.unpack(packed))
        self._note(site, host, packed)
        site.off[host] = off
        site.dust.switch_off(frozenset[str]().union(*site.off.values()))
        self._update(name)

    def wants(self, host: str, path: str) -> bool:
        """Whether a page is to be compared with others: rules may apply to its site."""
        name = site_of(host)
        if name in self._sites:
            return True
        kinds = self._kinds.get(name, 0) | 1 << kind_of(host)
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        self._kinds[name] = kinds
        return kinds.bit_count() > 1 or bool(variants(path))

    def add(self, host: str, path: str, sketch: Sketch) -> Sequence[str]:
        """Compares a page with others of its site; returns the hosts whose rules have changed."""
        name = site_of(host)
        return self._changed(name) if self._keep(name).dust.add(host, path, sketch, self._distance) else ()

    def add_redirect(self, host: str, path: str, target: str) -> Sequence[str]:
        """Takes a redirect from a path of a host to another path for a sign that the simpler URL works.

        Returns the hosts whose rules have changed.
        """
        name = site_of(host)
        site = self._sites.get(name)
        return self._changed(name) if site and site.dust.add_redirect(path, target) else ()

    def rewrite(self, host: str, path: str, *, may_try: bool = False) -> Rewritten | None:
        """Returns what the rules of a host make of a URL, if the filters pass it; None if they change nothing."""
        site = self.active.get(host)
        rewritten = site.rewrite(host, path, may_try=may_try) if site is not None else None
        if rewritten is None:
            return None
        reduced, is_trial = rewritten
        url = reduced.host + reduced.path
        return Rewritten(url, is_trial) if self._admit(url) == url else None

    def simplest(self, links: Sequence[str]) -> Sequence[str]:
        """Returns links, as the rules of their hosts rewrite them."""
        return [self.simplest_of(link) for link in links] if self.active else links

    def simplest_of(self, url: str) -> str:
        """Returns a URL, as the rules of its host rewrite it."""
        rewritten = self.rewrite(*split(url)) if self.active else None
        return rewritten.url if rewritten else url

    def replacement(self, url: LeasedURL) -> Candidate | None:
        """Returns the simpler URL that is to be queued instead of a leased URL; None if there is none.

        Seeds, requests of a spider, trials, and URLs that were tried or have a date are not replaced, nor are URLs that
        the seen test does not tell from the simpler URL.
        """
        if url.host not in self.active or not url.depth or url.extra is not None or url.attempts or url.dated:
            return None
        simpler = self.rewrite(url.host, url.path)
        if simpler is None or (mark := self._fingerprint(simpler.url)) == self._fingerprint(url.url):
            return None
        host, path = split(simpler.url)
        return Candidate(*(host, path, mark, url.level, url.depth, url.referrer), fetch_class=url.fetch_class)

    def unsaved(self, host: str, *, last: bool) -> bytes | None:
        """Returns the evidence that the engine is to get; None if it needs none now. `last`: the host is released."""
        site = self._sites.get(site_of(host))
        if site is None or not (host in self._urgent or last):
            return None
        packed = site.dust.pack() if site.dust.is_kept else b""
        if zlib.crc32(packed) != site.stored.get(host, 0):
            return packed
        self._urgent.discard(host)
        return None

    def saved(self, host: str, packed: bytes | None) -> None:
        """Records that the engine has got this evidence; None if it got none."""
        if packed is not None and (site := self._sites.get(site_of(host))):
            self._note(site, host, packed)
            self._urgent.discard(host)

    def close(self, host: str) -> None:
        """The host is not leased here any more."""
        self._urgent.discard(host)

    @staticmethod
    def _note(site: _Site, host: str, packed: bytes) -> None:
        site.stored[host] = zlib.crc32(packed)

    def _keep(self, name: str) -> _Site:
        site = self._sites.setdefault(name, _Site())
        self._sites.move_to_end(name)
        while len(self._sites) > MOST_SITES:
            oldest, _ = self._sites.popitem(last=False)
            for host in hosts_of(oldest):
                self.active.pop(host, None)
                self._urgent.discard(host)
        return site

    def _changed(self, name: str) -> Sequence[str]:
        """Uses the rules of a site that have changed, and returns its hosts."""
        self._update(name)
        hosts = hosts_of(name)
        self._urgent.update(hosts)
        return hosts

    def _update(self, name: str) -> None:
        dust = self._sites[name].dust
        for host in hosts_of(name):
            if dust.rules:
                self.active[host] = dust
            else:
                self.active.pop(host, None)
