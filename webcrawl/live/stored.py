"""Looks up stored pages of the lane's URLs, through the chains of their redirects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.stores.look_ups import LookUps
from webcrawl.urls.canonical import as_requested

if TYPE_CHECKING:
    from webcrawl.stores.metadata import Metadata

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_MOST_HOPS = 20


class StoredChain(NamedTuple):
    """What is stored of a URL: the URLs that have redirected, and the last URL with its row.

    Without a row that is young enough, the last URL is to be fetched.
    """

    chain: tuple[str, ...]
    url: str
    row: Mapping[str, Any] | None


class StoredChains:
    """Looks up chains in a thread. Methods raise StoreError, StoreUnavailable when retrying may succeed."""

    def __init__(self, stores: StoreConfig) -> None:
        self._look_ups = LookUps(stores)

    async def follow(self, wanted: Sequence[tuple[str, datetime, bool]]) -> list[StoredChain]:
        """Returns the chain of each normalized URL, in order, of rows that were stored after a time.

        Each URL comes with this time, and with whether a row of a failed attempt counts.
        """
        return await self._look_ups.run(lambda metadata: _follow(metadata, wanted)) if wanted else []

    async def close(self) -> None:
        await self._look_ups.close()


def _follow(metadata: Metadata, wanted: Sequence[tuple[str, datetime, bool]]) -> list[StoredChain]:
    chains = [StoredChain((), url, None) for url, _, _ in wanted]
    moving = list(range(len(wanted)))
    for _ in range(_MOST_HOPS):
        rows = metadata.get_many([as_requested(chains[number].url) for number in moving])
        moved = []
        for number in moving:
            chain, url, _ = chains[number]
            row = rows.get(as_requested(url))
            _, since, failures = wanted[number]
            if row is None or not _counts(row, since, failures=failures):
                continue
            chains[number] = StoredChain(chain, url, row)
            if (target := target_of(row)) is not None and target not in (*chain, url):
                chains[number] = StoredChain((*chain, url), target, None)
                moved.append(number)
        if not moved:
            break
        moving = moved
    return chains


def target_of(row: Mapping[str, Any]) -> str | None:
    """Returns the URL to which the page of a row redirects and which was followed, or None."""
    is_redirect = row["status"] in REDIRECT_STATUSES and row["final_url"] != row["url"]
    return str(row["final_url"]) if is_redirect else None


def _counts(row: Mapping[str, Any], since: datetime, *, failures: bool) -> bool:
    """Whether a row is young enough."""
    visited: datetime = row["tried_at"] or row["fetched_at"]
    failed = row["status"] is None or (row["tried_at"] is not None and row["tried_at"] > row["fetched_at"])
    return visited >= since and (failures or not failed)
