"""Finds the delay that a host can bear: it falls while answers stay quick, and doubles at the first sign of strain.

Additive increase and multiplicative decrease of the rate converge to a fair share of what a server can bear
(Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion avoidance", 1989). As in TCP Vegas
(Brakmo and Peterson 1995), strain shows in latency above the latency of the unloaded server, before anything fails.
Pages differ in cost, so the least of a few latencies counts: a queue delays every answer, a costly page only its own.
"""

from __future__ import annotations

import math

MOST_FACTOR = 8.0
"""The delay grows to at most this multiple of the first delay."""
RATE_STEP = 1 / 8
"""Each quick answer adds this share of the first rate."""
RECENT = 4
"""The number of latencies of which the least counts."""
STRAIN_FACTOR, STRAIN_SECONDS = 1.5, 0.01
"""A host is strained if this least latency exceeds the factor times the base latency, plus these seconds of noise."""
WINDOW = 128
"""The base latency is the least of the last 128 to 256 answers, so that it can rise again."""


class Adaptation:
    """The delay of one host in seconds, from its latencies in seconds.

    The delay stays from `least` to MOST_FACTOR times `usual`, or times `least` if that is larger.
    """

    __slots__ = ("_base", "_hold", "_in_window", "_least", "_next_base", "_recent", "_usual", "delay")

    def __init__(self, usual: float, least: float) -> None:
        self._least, self._usual = least, max(usual, least)
        self.delay = self._usual
        self._base = self._next_base = math.inf
        self._in_window = self._hold = 0
        self._recent: list[float] = []

    def begin_with(self, delay: float) -> None:
        """Begins with another delay, such as the delay of an earlier lease."""
        self.delay = self._bounded(delay)

    def answered(self, latency: float) -> None:
        """Records an answer without an error."""
        if latency <= 0:  # the latency was not measured
            return
        self._learn(latency)
        self._recent.append(latency)
        del self._recent[:-RECENT]
        if self._hold:
            self._hold -= 1
        elif len(self._recent) == RECENT:
            if min(self._recent) > STRAIN_FACTOR * self._base + STRAIN_SECONDS:
                self.strained()
            elif self.delay > 0:
                self.delay = self._bounded(1 / (1 / self.delay + RATE_STEP / self._usual))

    def strained(self) -> None:
        """Doubles the delay after a sign of strain, such as an error.

        The next RECENT answers and errors change nothing: they show the effect, or belong to earlier requests.
        """
        if self._hold:
            self._hold -= 1
            return
        self.delay = self._bounded(2 * self.delay)
        self._recent.clear()
        self._hold = RECENT

    def _bounded(self, delay: float) -> float:
        return min(max(delay, self._least), MOST_FACTOR * self._usual)

    def _learn(self, latency: float) -> None:
        self._base = min(self._base, latency)
        self._next_base = min(self._next_base, latency)
        self._in_window += 1
        if self._in_window == WINDOW:
            self._base, self._next_base, self._in_window = self._next_base, math.inf, 0
