"""How fast a host is asked, to be shown to operators."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a host is asked, in seconds, and why: `gap` between two requests, `wait` until the next request."""

    gap: float
    gap_by: str
    """What makes the gap: "settings", "Crawl-delay", "operator" or "answer time"."""
    wait: float
    wait_by: str
    """What makes the host wait: "Retry-After", "back-off" or "gap"; empty if it may be asked now."""
    failures: int
    """Failed requests in a row."""
