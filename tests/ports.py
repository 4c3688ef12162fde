"""Free ports for servers that cannot pick one themselves, or need the same one after a restart."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from random import SystemRandom

# Below the range of ephemeral ports: no outgoing connection can take one before the server listens.
_FIRST, _LAST = 15_000, 32_000
_dice = SystemRandom()
"""Independent of any seed, so that tests in parallel processes draw different numbers."""


def free_ports(number: int, following: int = 0) -> list[int]:
    """Returns distinct TCP ports on which nothing listens at 127.0.0.1, nor at so many `following` each of them."""
    ports: set[int] = set()
    while len(ports) < number:
        port = _dice.randrange(_FIRST, _LAST)
        with suppress(OSError), ExitStack() as stack:
            for one in range(port, port + following + 1):
                stack.enter_context(socket.create_server(("127.0.0.1", one)))
            ports.add(port)
    return list(ports)
