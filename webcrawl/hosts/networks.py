"""Lists of networks, from settings or files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from webcrawl.config.records import setting_entries
from webcrawl.errors import ConfigurationError

_CACHED = 1 << 14


class Networks:
    """A set of IPv4 and IPv6 networks. A look-up takes one step per length of prefix, not per network."""

    def __init__(self, networks: Iterable[IPv4Network | IPv6Network]) -> None:
        self._starts: dict[tuple[int, int], set[int]] = {}
        """Version of IP and length of prefix -> the first bits of the networks."""
        for network in networks:
            start = int(network.network_address) >> (network.max_prefixlen - network.prefixlen)
            self._starts.setdefault((network.version, network.prefixlen), set()).add(start)
        self.covers = lru_cache(maxsize=_CACHED)(self._covers)
        """Whether an address is in one of the networks."""

    def __bool__(self) -> bool:
        return bool(self._starts)

    def _covers(self, address: str) -> bool:
        ip = ip_address(address)
        bits = int(ip)
        return any(
            version == ip.version and bits >> (ip.max_prefixlen - length) in starts
            for (version, length), starts in self._starts.items()
        )


def read_networks(setting: str, words: Sequence[str]) -> Networks:
    """Returns the networks of a setting: in CIDR form, or `@file` with a network on each line.

    Raises ConfigurationError, which names the setting and the entry.
    """
    return Networks(_network(setting, where, text) for where, text in setting_entries(setting, words))


def _network(setting: str, where: str, text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigurationError(f"{setting}, {where}: {text!r} is not a network: {error}") from None
