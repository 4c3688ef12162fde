"""Tells the engine what hosts cost this worker, and what they use of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Crawl
from webcrawl.hosts.costs import ALL, Cost, Costs, Load, with_domains
from webcrawl.worker.leased_hosts import LeasedHosts


class CostReports:
    """Sends the costs since the last report, with each heartbeat."""

    def __init__(self, costs: Costs, hosts: LeasedHosts, crawl: Crawl) -> None:
        self._costs = costs
        self._hosts = hosts
        self._crawl = crawl

    async def send(self) -> None:
        """Sends what hosts have cost and what they use now; the costs are not lost when this raises."""
        taken = self._costs.take()
        await self._crawl.costs.add(taken)
        with suppress(EngineUnavailable):  # a full engine refuses what is only shown
            await self._crawl.costs.show(with_domains(self._loads(taken)))

    def _loads(self, taken: dict[str, Cost]) -> Iterator[tuple[str, Load]]:
        """The loads of hosts that use something. Costs are those of hosts and of their domains, which wait alike."""
        for host in self._hosts:
            connections = host.turn.in_flight
            places = host.unsettled - len(host.urls) - host.in_flight
            if connections or places > 0:
                yield host.lease.host, Load(connections, max(0, places))
        for name, cost in taken.items():
            if cost.waits and name != ALL and "://" not in name:
                yield name, Load(waits=cost.waits)
