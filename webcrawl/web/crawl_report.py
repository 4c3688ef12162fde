"""What `scrapy status --json` and the API tell about a crawl."""

from __future__ import annotations

import dataclasses
from typing import Any

from webcrawl.frontier.ledger import Ledger
from webcrawl.frontier.sunk_patterns import sunk_patterns
from webcrawl.opened import Connection
from webcrawl.web.overview import overview


async def crawl_report(connection: Connection, most: int = 10) -> dict[str, Any]:
    """Returns state and figures of a crawl, and its `most` busiest hosts, sunk patterns and owners over budget."""
    now = await overview(connection.crawl, connection.frontier)
    report: dict[str, Any] = {"crawl": now.crawl, "state": now.state, **now.figures.as_dict()}
    report["busiest_hosts"] = [dataclasses.asdict(host) for host in await connection.frontier.hosts(most)]
    report["sunk_patterns"] = dataclasses.asdict(await sunk_patterns(connection.frontier, most))
    over = await Ledger(connection.engine, connection.keys).over(most)
    report["over_budget"] = dataclasses.asdict(over) | {
        "worst": [(owner.owner, owner.hosts, str(owner.spending)) for owner in over.worst]
    }
    return report
