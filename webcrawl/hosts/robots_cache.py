"""The robots.txt policies of recently used hosts, in memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from cachetools import LRUCache

from webcrawl.hosts.robots import RobotsPolicy


class RobotsCache:
    """An LRU cache of policies in this process, without expired ones.

    It is bounded by hosts and by characters of rules, so that a few thousand enormous robots.txt do not fill the
    memory: once parsed, a character takes 12 to 32 bytes. `clock` returns seconds.
    """

    def __init__(
        self,
        max_hosts: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
        max_characters: int = 4 * 1024 * 1024,
    ) -> None:
        self._max_hosts = max_hosts
        self._clock = clock
        self._policies: LRUCache[str, tuple[RobotsPolicy, float]]
        self._policies = LRUCache(max_characters, getsizeof=lambda known: len(known[0].rules))

    def __len__(self) -> int:
        return len(self._policies)

    def get(self, host: str) -> RobotsPolicy | None:
        """Returns the policy of a host ("https://example.org"), or None if it is unknown or expired."""
        known = self._policies.get(host)
        if known is None:
            return None
        policy, expires = known
        if self._clock() >= expires:
            del self._policies[host]
            return None
        return policy

    def put(self, host: str, policy: RobotsPolicy, ttl: float | None = None) -> None:
        """Keeps a policy for `ttl` seconds, by default its own; a shared cache gives the remaining time."""
        self._policies.pop(host, None)
        if len(policy.rules) <= self._policies.maxsize:
            self._policies[host] = (policy, self._clock() + (policy.ttl if ttl is None else ttl))
        if len(self._policies) > self._max_hosts:
            self._policies.popitem()
