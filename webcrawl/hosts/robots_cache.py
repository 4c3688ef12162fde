"""The robots.txt policies of recently used hosts, in memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

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
        self._max_characters = max_characters
        self._clock = clock
        self._characters = 0
        self._policies: OrderedDict[str, tuple[RobotsPolicy, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._policies)

    def get(self, host: str) -> RobotsPolicy | None:
        """Returns the policy of a host ("https://example.org"), or None if it is unknown or expired."""
        entry = self._policies.get(host)
        if entry is None:
            return None
        policy, expires = entry
        if self._clock() >= expires:
            self._remove(host)
            return None
        self._policies.move_to_end(host)
        return policy

    def put(self, host: str, policy: RobotsPolicy, ttl: float | None = None) -> None:
        """Keeps a policy for `ttl` seconds, by default its own; a shared cache gives the remaining time."""
        self._remove(host)
        self._policies[host] = (policy, self._clock() + (policy.ttl if ttl is None else ttl))
        self._characters += len(policy.rules)
        while len(self._policies) > self._max_hosts or self._characters > self._max_characters:
            self._remove(next(iter(self._policies)))

    def _remove(self, host: str) -> None:
        entry = self._policies.pop(host, None)
        if entry is not None:
            self._characters -= len(entry[0].rules)
