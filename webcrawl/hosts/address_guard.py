"""The check of the addresses that a crawler may connect to: public addresses, and addresses that its operator allowed.

Links and names can lead anywhere. Without this guard, a crawled site could make the crawler send requests to machines
behind its firewall (server-side request forgery). The address is checked when a connection is made, at each hop.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from webcrawl.errors import AddressRefused, ConfigurationError

# The IANA special-purpose registries (RFC 6890 and its updates), and metadata services of clouds on public addresses.
# `ipaddress.is_global` is not used, because it differs between Python releases.
_REFUSED: dict[IPv4Network | IPv6Network, str] = {
    ip_network(network): kind
    for network, kind in {
        "0.0.0.0/8": "unspecified",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared by carrier-grade NAT",
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "a cloud's metadata service",
        "169.254.0.0/16": "link-local",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "reserved",
        "192.0.2.0/24": "for documentation",
        "192.88.99.0/24": "a 6to4 relay",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "for benchmarking",
        "198.51.100.0/24": "for documentation",
        "203.0.113.0/24": "for documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
        "::/128": "unspecified",
        "::1/128": "loopback",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "site-local",
        "ff00::/8": "multicast",
        "2001::/23": "reserved for protocols",
        "2001:db8::/32": "for documentation",
        "3fff::/20": "for documentation",
    }.items()
}
# All IPv6 addresses assigned as global unicast; the rest is reserved.
_GLOBAL_V6 = IPv6Network("2000::/3")
# Translators: an IPv4 address in the last 32 bits (RFC 2765, RFC 6052).
_TRANSLATED = (IPv6Network("::ffff:0:0:0/96"), IPv6Network("64:ff9b::/96"))


class AddressGuard:
    """Refuses addresses that are not global unicast, unless the operator allowed the network or named the host.

    `allowed_networks`: such as "10.1.0.0/16" or "::1"; raises ConfigurationError for text that is not a network.
    """

    def __init__(self, allowed_networks: Iterable[str] = ()) -> None:
        self._networks = tuple(_network(text) for text in allowed_networks)
        self._hosts: dict[tuple[str, int], frozenset[str] | None] = {}
        """Host name and port -> the addresses that the host may have; None allows any."""
        # cached, because a host named by its address is checked at each request
        self._refusal_of = lru_cache(maxsize=1024)(self._refusal)

    def allow_host(self, hostname: str, port: int, addresses: Iterable[str] | None = None) -> None:
        """Allows a host that the operator named: at `addresses`, or at any if nobody can rebind its name (None)."""
        self._hosts[_plain(hostname), port] = None if addresses is None else frozenset(addresses)

    def inner(self, addresses: Iterable[str]) -> list[str]:
        """Returns the addresses that only a host named by the operator may have."""
        return [address for address in addresses if self._refusal_of(address)]

    def check(self, address: str, *, hostname: str, port: int) -> None:
        """Raises AddressRefused unless a connection to `address` for `hostname`:`port` is allowed."""
        reason = self._refusal_of(address)
        if reason is None:
            return
        allowed = self._hosts.get((_plain(hostname), port), frozenset())
        if allowed is not None and address not in allowed:
            raise AddressRefused(f"{address} is {reason}: no connection for {hostname}:{port}")

    def check_all(self, addresses: Iterable[str], *, hostname: str, port: int) -> None:
        """Raises AddressRefused unless a connection to each of these addresses is allowed."""
        for address in addresses:
            self.check(address, hostname=hostname, port=port)

    def _refusal(self, address: str) -> str | None:
        """Returns why an address is refused, or None."""
        try:
            ip = ip_address(address)
        except ValueError:
            return "no IP address"
        if isinstance(ip, IPv6Address) and ip.scope_id is not None:
            return "bound to a zone of this machine"
        if any(ip in network for network in self._networks):
            return None
        if isinstance(ip, IPv6Address) and (embedded := _embedded(ip)):
            return next(filter(None, (self._refusal(str(inner)) for inner in embedded)), None)
        kind = next((kind for network, kind in _REFUSED.items() if ip in network), None)
        if kind is None and isinstance(ip, IPv6Address) and ip not in _GLOBAL_V6:
            return "reserved"
        return kind


def _embedded(ip: IPv6Address) -> tuple[IPv4Address, ...]:
    """Returns the IPv4 addresses that an IPv6 address leads to through a translator or a tunnel."""
    if ip.ipv4_mapped:
        return (ip.ipv4_mapped,)
    if ip.sixtofour:
        return (ip.sixtofour,)
    if ip.teredo:
        return ip.teredo
    if any(ip in network for network in _TRANSLATED):
        return (IPv4Address(int(ip) & 0xFFFFFFFF),)
    return ()


def _plain(hostname: str) -> str:
    return hostname.strip("[]").rstrip(".").lower()


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise ConfigurationError(f"ALLOWED_NETWORKS: {text!r} is not a network: {error}") from error
