"""The paces of hosts with their reasons, as workers report them or else as the engine stores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from webcrawl.frontier.host_table import HostRow
from webcrawl.frontier.workers import Vitals
from webcrawl.hosts.pace import Pace


def reported_paces(vitals: Iterable[Vitals | None]) -> dict[str, Pace]:
    """Returns the paces by host that workers have reported with their last heartbeats, for some leased hosts."""
    return {host: pace for worker in vitals if worker for host, pace in worker.paces.items()}


def paces(rows: Sequence[HostRow], known: Mapping[str, Pace]) -> dict[str, Pace]:
    """Returns the pace of each row by host. `known`: the paces that workers report."""
    return {row.host: known[row.host] if row.leased and row.host in known else kept(row) for row in rows}


def kept(row: HostRow) -> Pace:
    """Returns the pace of a host as the engine stores it, without its last worker's reasons for the gap."""
    by_operator = row.delay is not None and row.delay >= row.gap
    waits = "Retry-After" if row.asked else "back-off" if row.failures else "gap"
    gap, gap_by = (row.delay or 0.0, "operator") if by_operator else (row.gap, "")
    return Pace(gap, gap_by, row.waits, waits if row.waits else "", row.failures)
