"""Forgets idle hosts while the spider `live` works, because a crawl that does not end meets ever new hosts."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import NoReturn

from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.errors import StoreError
from webcrawl.frontier.cold_hosts import ColdHosts

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 300.0
FORGOTTEN = "live_hosts_forgotten"
"""The total of hosts that were forgotten."""


async def sweep(engine: Engine, keys: Keys, cold_hosts: ColdHosts | None = None) -> int:
    """Forgets what hosts without URLs have spent, in the engine and in the store; returns how many hosts.

    Raises errors of UNAVAILABLE, and StoreError.
    """
    forgotten = 0
    for shard in range(keys.shards):
        # first, while hosts that have come back are in the engine
        forgotten += await cold_hosts.forget(shard) if cold_hosts else 0
        cursor = b"0"
        while True:
            reply = await engine.run(script_call("forget_hosts", keys.queue(shard)[:1], cursor=cursor))
            cursor, forgotten = reply.next_cursor, forgotten + reply.forgotten
            if cursor == b"0":
                break
    return forgotten


async def keep_sweeping(
    engine: Engine, keys: Keys, cold_hosts: ColdHosts | None, counters: Counter[str]
) -> NoReturn:
    """Sweeps every five minutes until cancelled, and counts in the totals."""
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        try:
            forgotten = await sweep(engine, keys, cold_hosts)
        except (*UNAVAILABLE, StoreError) as error:
            logger.info("Idle hosts are not forgotten now: %s", error)
            continue
        counters[FORGOTTEN] += forgotten
        logger.info("The live lane has forgotten %d idle hosts", forgotten)
