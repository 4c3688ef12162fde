"""When URLs were visited last, by the metadata of this and earlier crawls."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.stores.look_ups import LookUps
from webcrawl.urls.canonical import as_requested

if TYPE_CHECKING:
    from webcrawl.stores.metadata import Metadata

logger = logging.getLogger(__name__)

_AT_ONCE = 1_000


class Visits:
    """Looks up visits in a thread. A database that cannot be reached leaves all URLs unvisited, which is logged."""

    def __init__(self, stores: StoreConfig) -> None:
        self._look_ups = LookUps(stores)

    async def ages(self, urls: Iterable[str]) -> dict[str, float]:
        """Returns the seconds since the last visit of each URL that was visited, for any number of normalized URLs."""
        wanted = {as_requested(url): url for url in urls}
        try:
            return await self._look_ups.run(lambda metadata: _ages(metadata, wanted)) if wanted else {}
        except StoreError as error:
            logger.info("Visits of earlier crawls are not known: %s", error)
            return {}

    async def close(self) -> None:
        await self._look_ups.close()


def _ages(metadata: Metadata, wanted: dict[str, str]) -> dict[str, float]:
    urls, now, ages = list(wanted), datetime.now(UTC), {}
    for start in range(0, len(urls), _AT_ONCE):
        for url, visited in metadata.last_visits(urls[start : start + _AT_ONCE]).items():
            ages[wanted[url]] = (now - visited).total_seconds()
    return ages
