"""How many hosts a worker leases: as many as it needs to keep its connections busy."""

from __future__ import annotations

_GROWTH = 1.25
_DECLINE = 0.98


class LeaseWindow:
    """The number of hosts that a worker holds at once, between `least` and `most`.

    A host may be asked once in its delay, so `size` hosts allow `size / delay` requests a second. The window grows
    while all its hosts are leased, none is due and connections are free; it shrinks while hosts are due that no
    connection is free for, so that other workers can serve them. The larger it is, the fewer URLs of each host are
    leased ahead, because these take memory.

    New hosts, which never answered, may be leased for long without a request, as while no nameserver answers. So they
    take the places that hosts which answered leave, at least a quarter, and these never wait for a place of theirs.
    """

    def __init__(self, least: int, most: int, urls: int) -> None:
        self._least = least
        self._most = max(least, most)
        self._urls = urls
        self._size = float(least)

    @property
    def size(self) -> int:
        """Hosts."""
        return int(self._size)

    @property
    def urls(self) -> int:
        """URLs of a host that are leased ahead."""
        return max(2, int(self._urls * self._least / self._size)) if self.size > self._least else self._urls

    @property
    def _least_new(self) -> int:
        return self.size // 4

    def room(self, *, answered: int, new: int) -> tuple[int, int]:
        """Returns how many hosts that answered, and how many new ones, to lease besides those that are leased."""
        left = max(0, self.size - answered)
        return left, max(0, max(left, self._least_new) - new)

    def update(self, *, answered: int, new: int, due: bool, connections: bool) -> None:
        """Adapts the size; call it before each lease.

        `answered`, `new`: hosts of each kind that are leased. `due`: one may be asked now. `connections`: some are
        free.
        """
        if connections and not due and answered + min(new, self._least_new) >= self.size:
            self._size = min(self._size * _GROWTH + 1, self._most)
        elif due and not connections:
            self._size = max(self._size * _DECLINE, self._least)
