"""Free ports for servers that cannot pick one themselves, or need the same one after a restart."""

from __future__ import annotations

import socket
from contextlib import suppress
from random import SystemRandom

# Below the range of ephemeral ports: no outgoing connection can take one before the server listens.
_FIRST, _LAST = 15_000, 32_000
_dice = SystemRandom()
"""Independent of any seed, so that tests in parallel processes draw different numbers."""


def free_ports(number: int) -> list[int]:
    """Returns distinct TCP ports on which nothing listens at 127.0.0.1."""
    ports: set[int] = set()
    while len(ports) < number:
        port = _dice.randrange(_FIRST, _LAST)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return list(ports)
