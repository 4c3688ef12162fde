"""The addresses of this machine from which requests are sent: BIND_ADDRESSES."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from webcrawl.config.records import setting_entries
from webcrawl.errors import ConfigurationError


class LocalAddresses:
    """Chooses the local address of a connection. A host sees one address of each family, whatever worker asks it.

    The addresses are ranked by a hash of the name of the host (rendezvous hashing, Thaler and Ravishankar 1998), so
    that another address moves only the hosts that it gets, and a removed one only its own. `port` is for the settings
    of Scrapy, which may name one.
    """

    def __init__(self, addresses: Sequence[str] = (), port: int = 0) -> None:
        self._by_family: dict[int, list[str]] = {}
        for address in dict.fromkeys(addresses):
            self._by_family.setdefault(_family(address), []).append(address)
        self._port = port

    def of(self, host: str, remote: str) -> tuple[str, int] | None:
        """Returns the local address and port for a connection to an address of a host; None if the system chooses.

        Raises OSError if all addresses are of the other family.
        """
        if not self._by_family:
            return None
        mine = self._by_family.get(_family(remote))
        if mine is None:
            raise OSError(f"no address of BIND_ADDRESSES can reach {remote}")
        if len(mine) == 1:
            return mine[0], self._port
        name = host.rstrip(".").lower()
        return max(mine, key=lambda address: xxh3_64_intdigest(f"{name} {address}".encode())), self._port

    def together(self, remotes: Sequence[str]) -> list[str]:
        """Returns the addresses of a host that one local address reaches: those of the family of the first of them.

        Returns all if the system chooses. Raises OSError if none can be reached.
        """
        if not self._by_family:
            return list(remotes)
        reached = [_family(remote) for remote in remotes if _family(remote) in self._by_family]
        if not reached:
            raise OSError(f"no address of BIND_ADDRESSES can reach {', '.join(remotes)}")
        return [remote for remote in remotes if _family(remote) == reached[0]]


def read_local_addresses(words: Sequence[str]) -> LocalAddresses:
    """Returns the addresses of BIND_ADDRESSES: IP addresses, or `@file` with one on each line.

    Raises ConfigurationError for what is no address, and for an address that this machine does not have.
    """
    addresses = []
    for where, text in setting_entries("BIND_ADDRESSES", words, comment=" #"):
        try:
            address = ipaddress.ip_address(text.strip("[]"))
        except ValueError:
            address = None
        if address is None or address.is_unspecified or address.is_multicast:
            raise ConfigurationError(
                f"BIND_ADDRESSES, {where}: {text!r} is not an IP address of this machine"
            )
        _check(str(address), where)
        addresses.append(str(address))
    if words and not addresses:
        raise ConfigurationError(f"BIND_ADDRESSES {','.join(words)}: the file names no address")
    return LocalAddresses(addresses)


def _check(address: str, where: str) -> None:
    try:
        with socket.socket(_family(address), socket.SOCK_STREAM) as opened:
            opened.bind((address, 0))
    except OSError as error:
        raise ConfigurationError(
            f"BIND_ADDRESSES, {where}: requests cannot be sent from {address} ({error.strerror})"
        ) from error


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
