"""How fast hosts are asked, and why: as their workers report it, else as the engine keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from webcrawl.frontier.host_table import HostRow
from webcrawl.frontier.vitals import Vitals
from webcrawl.hosts.pace import Pace


def reported_paces(vitals: Iterable[Vitals | None]) -> dict[str, Pace]:
    """Returns what workers report of some of their leased hosts, as of their last heartbeats."""
    return {host: pace for worker in vitals if worker for host, pace in worker.paces.items()}


def paces(rows: Sequence[HostRow], known: Mapping[str, Pace]) -> dict[str, Pace]:
    """Returns the pace of each row. `known`: what workers report of hosts that they have leased."""
    return {row.host: known[row.host] if row.leased and row.host in known else kept(row) for row in rows}


def kept(row: HostRow) -> Pace:
    """Returns the pace of a host as the engine keeps it, without the reasons for the gap of its last worker."""
    by_operator = row.delay is not None and row.delay >= row.gap
    waits = "Retry-After" if row.asked else "back-off" if row.failures else "gap"
    gap, gap_by = (row.delay or 0.0, "operator") if by_operator else (row.gap, "")
    return Pace(gap, gap_by, row.waits, waits if row.waits else "", row.failures)
