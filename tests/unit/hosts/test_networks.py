"""Lists of networks."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.networks import Networks, read_networks

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NETWORKS = st.lists(
    st.ip_addresses().flatmap(
        lambda ip: st.integers(0, ip.max_prefixlen).map(lambda length: ip_network((ip, length), strict=False))
    )
)


@given(NETWORKS, st.ip_addresses())
def test_an_address_is_covered_if_it_is_in_a_network(networks: list[Network], address: Address) -> None:
    covered = Networks(networks)
    ends = [end for network in networks for end in (network.network_address, network.broadcast_address)]
    for one in (address, *ends):
        assert covered.covers(str(one)) == any(one in network for network in networks)


def test_networks_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "networks.txt"
    path.write_text("# of a content network\n192.0.2.0/24\n\n2001:db8::/32  # its IPv6\n")
    networks = read_networks("NAME", [f"@{path}", "198.51.100.7"])
    assert [networks.covers(ip) for ip in ("192.0.2.9", "2001:db8::1", "198.51.100.7")] == [True] * 3
    assert not networks.covers("198.51.100.8")


@cases(
    ("entry", "message"),
    [
        ("192.0.2.0/33", r"NAME, entry 2: '192.0.2.0/33' is not a network"),
        ("192.0.2.1/24", r"entry 2: .*has host bits set"),
        ("example.org", r"entry 2: 'example.org' is not a network"),
        ("@/nowhere", r"NAME: '@/nowhere' cannot be read"),
    ],
)
def test_a_wrong_network_is_named(entry: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_networks("NAME", ["192.0.2.0/24", entry])


def test_a_wrong_line_of_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "networks.txt"
    path.write_text("192.0.2.0/24\nnonsense\n")
    with pytest.raises(ConfigurationError, match=r"networks.txt, line 2: 'nonsense' is not a network"):
        read_networks("NAME", [f"@{path}"])
