"""A dupefilter for scrapy-redis projects that takes about a tenth of the memory. It works without the rest of webcrawl.

    DUPEFILTER_CLASS = "webcrawl.dupefilter.CompactDupeFilter"

It stores 64 bits of each fingerprint as integers, below the key that scrapy-redis would use:

    <key>                        HASH  generation; bits, split and seen: how far the set has grown
    <key>:<generation>:<bucket>  SET   fingerprints as integers; buckets split by linear hashing

On a cluster a hash tag keeps them in one slot: SCHEDULER_DUPEFILTER_KEY = "{%(spider)s}:dupefilter".
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import ResponseError
from scrapy import Request
from scrapy_redis.dupefilter import RFPDupeFilter

from webcrawl.engine.scripts import script_source
from webcrawl.errors import ConfigurationError

_BATCH = 1000


class CompactDupeFilter(RFPDupeFilter):
    """scrapy-redis's dupefilter, with the same settings and a compact set.

    It is exact but for collisions of 64 bits: N requests have about N**2 / 2**65 collisions, a billion requests 0.03.
    """

    def __init__(self, server: Any, key: str, debug: bool = False) -> None:
        super().__init__(server, key, debug)
        self._seen = server.register_script(script_source("seen")[1])

    def request_seen(self, request: Request) -> bool:
        """Adds a request to the set; returns whether it was there.

        Raises ConfigurationError when the key holds the set of scrapy-redis's own class.
        """
        number = int(self.request_fingerprint(request)[:16], 16)
        try:
            return bool(self._seen(keys=[self.key], args=[number - (number >> 63 << 64)]))
        except ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            raise ConfigurationError(
                f"{self.key!r} holds the fingerprints of another DUPEFILTER_CLASS: finish that crawl with it, start "
                "over with SCHEDULER_FLUSH_ON_START, or set another SCHEDULER_DUPEFILTER_KEY"
            ) from error

    def clear(self) -> None:
        """Empties the set, at once for all processes; the memory is freed in batches after that."""
        try:
            with self.server.pipeline(transaction=True) as pipeline:
                state, _ = pipeline.hmget(self.key, "generation", "bits", "split").delete(self.key).execute()
        except ResponseError:  # the key is another class's
            self.server.delete(self.key)
            return
        if state[0] is None:
            return
        generation, bits, split = (int(part or 0) for part in state)
        names = [f"{self.key}:{generation}:{bucket}" for bucket in range(2**bits + split)]
        for start in range(0, len(names), _BATCH):
            self.server.unlink(*names[start : start + _BATCH])
