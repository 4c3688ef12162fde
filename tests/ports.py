"""Ports for servers that cannot be told to take any, or have to take the same again."""

from __future__ import annotations

import socket
from contextlib import suppress
from random import SystemRandom

# Systems give none of these to a connection that goes out, so none is taken between now and when the server listens.
_FIRST, _LAST = 15_000, 32_000
_dice = SystemRandom()
"""Tests in other processes draw other numbers, whatever seeds this one."""


def free_ports(number: int) -> list[int]:
    """Different TCP ports on which nobody listens at 127.0.0.1."""
    ports: set[int] = set()
    while len(ports) < number:
        port = _dice.randrange(_FIRST, _LAST)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return list(ports)
