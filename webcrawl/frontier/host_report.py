"""The engine's data about one host: its state and politeness, its costs, and what was learned from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import StoreError
from webcrawl.frontier.crawl import Crawl
from webcrawl.frontier.frontier import Frontier
from webcrawl.frontier.ledger import BudgetEntry, Ledger, owners
from webcrawl.frontier.operations import Operations
from webcrawl.frontier.records import HostLimits, HostStatus, rules_off
from webcrawl.hosts.costs import ALL, Cost, Load
from webcrawl.policies.budgets import COST, Spending
from webcrawl.policies.dust import SiteDust
from webcrawl.policies.pattern_records import HostPatterns
from webcrawl.policies.soft_404 import UnknownPathAnswer
from webcrawl.urls.canonical import hostname, registered_domain


@dataclass(frozen=True, slots=True)
class Share:
    """The costs of a host, a registered domain or all hosts, and their present load."""

    name: str
    cost: Cost
    load: Load


@dataclass(frozen=True, slots=True)
class HostReport:
    """The data about one host.

    is_known  whether the crawl has ever had a URL of the host
    shares    the shares of the host, its registered domain and all hosts: "host", "domain" and "all"
    budgets   owner -> its spending
    patterns  the records of its URL patterns
    dust      its DUST rules
    """

    state: HostStatus
    is_known: bool
    shares: dict[str, Share]
    budgets: dict[str, dict[str, object]]
    patterns: HostPatterns
    dust: SiteDust

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as values for JSON."""
        return {
            **dataclasses.asdict(self.state),
            "known": self.is_known,
            "budgets": self.budgets,
            "patterns": self.pattern_rows(),
            "dust": self.dust_rows(),
            "costs": {kind: _share_dict(share) for kind, share in self.shares.items()},
        }

    def pattern_rows(self) -> dict[str, dict[str, int | str]]:
        """Returns the records of patterns, the most fetched first, with the levels by which each sinks, and why."""
        records = self.patterns.records
        rows: dict[str, dict[str, int | str]] = {}
        for name in sorted(records, key=lambda name: -records[name].fetched):
            levels, record = self.patterns.levels_of(name), records[name]
            why = record.why if levels else ""
            rows[name] = {**dataclasses.asdict(record), "sinks_by": levels, "why": why}
        return rows

    def dust_rows(self) -> dict[str, dict[str, int | str]]:
        """Returns DUST rule -> its use, and the pairs of pages for and against it; rules in use come first."""
        states = self.dust.states()
        rows: dict[str, dict[str, int | str]] = {}
        for rule in sorted(states, key=lambda name: (states[name] == "not used", name)):
            known = self.dust.evidence.get(rule)
            pairs = {"same": known.same, "other": known.other, "texts": len(known.texts)} if known else {}
            rows[rule] = {"state": states[rule], **pairs}
        return rows


async def host_report(frontier: Frontier, crawl: Crawl, host: str) -> HostReport:
    """Reads the data about a host, also if its record is in the store; an unknown host has empty values."""
    engine, keys = crawl.engine, crawl.keys
    cold = await frontier.cold_hosts.read([host, *owners(host)]) if frontier.cold_hosts else {}
    facts = cold.get(host, {})
    packed, off = await DustRules(engine, keys).of(host)
    dust = SiteDust.unpack(facts.get("dust", packed))
    dust.switch_off(off)
    state, shares = _with_facts(await frontier.host(host), facts), await _shares(crawl, host)
    return HostReport(
        state,
        bool(facts) or await _is_known(frontier, state, shares["host"]),
        shares,
        await _budgets(crawl, host, cold),
        HostPatterns.unpack(facts.get("patterns") or await frontier.patterns(host)),
        dust,
    )


def _with_facts(state: HostStatus, facts: Mapping[str, bytes]) -> HostStatus:
    """Adds to the state of a host what the store has of it."""
    unknown, (pages, size) = facts.get("unknown"), map(int, facts.get("spent", b"0 0").split())
    return dataclasses.replace(
        state,
        pages=state.pages + pages,
        bytes=state.bytes + size,
        unknown_paths=UnknownPathAnswer.decoded(unknown.decode()).about() if unknown else state.unknown_paths,
    )


async def _is_known(operations: Operations, state: HostStatus, share: Share) -> bool:
    """Returns whether a crawl has a trace of a host: URLs, costs, or an operator's change."""
    if state.queued or state.leased or state.pages or state.failures or state.parked or share.cost != Cost():
        return True
    if state.delay is not None or state.limits != HostLimits():
        return True
    return await anext(aiter(operations.dead_letters(state.host)), None) is not None


async def switch_rules(crawl: Crawl, host: str, *, off: list[str], on: list[str]) -> None:
    """Switches DUST rules of a host off and on; raises StoreError for an unknown rule."""
    rules = DustRules(crawl.engine, crawl.keys)
    packed, switched_off = await rules.of(host)
    dust = SiteDust.unpack(packed)
    dust.switch_off(switched_off)
    for rule in (*off, *on):
        if rule not in dust.states():
            known = ", ".join(dust.states()) or "none"
            raise StoreError(f"{rule!r} is no DUST rule of {host}; known are: {known}")
    if off or on:
        await rules.switch_off(host, (switched_off | set(off)) - set(on))


async def _budgets(
    crawl: Crawl, host: str, cold: Mapping[str, Mapping[str, bytes]]
) -> dict[str, dict[str, object]]:
    """Returns the budgets of the host's name and of its registered domain. `cold`: what the store has of them."""
    spendings = await Ledger(crawl.engine, crawl.keys).add({owner: BudgetEntry() for owner in owners(host)})
    spendings |= {
        owner: Spending(int.from_bytes(packed[:4], "little"), len(packed) // 4 - 1)
        for owner, facts in cold.items()
        if (packed := facts.get("budgets"))
    }
    return {
        owner: {
            "spent": spending.spent / COST,
            "pages": spending.pages,
            "linking_domains": spending.domains,
            "is_over": spending.is_over,
        }
        for owner, spending in spendings.items()
    }


async def _shares(crawl: Crawl, host: str) -> dict[str, Share]:
    names = {"host": host, "domain": registered_domain(hostname(host)), "all": ALL}
    loads = await crawl.costs.loads(await crawl.workers.names())
    costs = await crawl.costs.of(*names.values())
    loads[ALL] = Load()
    for load in [load for name, load in loads.items() if "://" in name]:
        loads[ALL].add(load)
    return {
        kind: Share(name, cost, loads.get(name, Load()))
        for (kind, name), cost in zip(names.items(), costs, strict=True)
    }


def _share_dict(share: Share) -> dict[str, Any]:
    load = share.load
    # the JSON calls unfinished pages "places", and keeps this name for its readers
    stated = {"connections": load.connections, "places": load.unfinished, "waits": load.waits}
    return {**dataclasses.asdict(share), "load": stated}


@dataclass(frozen=True, slots=True)
class DustRules:
    """The DUST rules of hosts in one crawl."""

    engine: Engine
    keys: Keys

    async def of(self, host: str) -> tuple[bytes, frozenset[str]]:
        """Returns the packed evidence for the rules of a host, and the rules that are switched off."""
        client = self.engine.client
        known, off = [await client.hget(self._key(host, name), host) for name in ("dust", "dust_off")]
        return known or b"", rules_off(off)

    async def switch_off(self, host: str, rules: Collection[str]) -> None:
        """Switches these rules of a host off, and all others on.

        A worker that has leased the host applies the change with its next lease.
        """
        key = self._key(host, "dust_off")
        if rules:
            await self.engine.change(key, "HSET", host, msgpack.packb(sorted(rules)))
        else:
            await self.engine.change(key, "HDEL", host)

    def _key(self, host: str, name: str) -> str:
        return self.keys.queue(self.keys.shard(host))[0] + name
