"""The address guard: blocked addresses, and exceptions configured by the operator."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import AddressRefused, ConfigurationError
from webcrawl.hosts.address_guard import AddressGuard


def allows(
    address: str, guard: AddressGuard | None = None, hostname: str = "example.org", port: int = 80
) -> bool:
    try:
        (guard or AddressGuard()).check(address, hostname=hostname, port=port)
    except AddressRefused:
        return False
    return True


@cases(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.169.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001:80b::200e",
        "::ffff:8.8.8.8",
        "::ffff:0:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert allows(address)


@cases(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("169.254.169.254", "link-local"),
        ("168.63.129.16", "metadata"),
        ("100.64.0.1", "carrier-grade"),
        ("100.100.100.200", "carrier-grade"),
        ("192.0.0.192", "reserved"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "6to4"),
        ("198.18.0.1", "benchmarking"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "zone"),
        ("2606:4700:4700::1111%1", "zone"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("2001:2::1", "protocols"),
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("4000::1", "reserved"),
        ("100::1", "reserved"),
        ("5f00::1", "reserved"),
        ("64:ff9b:1::1", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:169.254.169.254", "link-local"),
        ("::ffff:0:10.0.0.1", "private"),
        ("::127.0.0.1", "reserved"),
        ("::8.8.8.8", "reserved"),
        ("64:ff9b::10.0.0.1", "private"),
        ("2002:7f00:1::1", "loopback"),
        ("2002:a00:1::1", "private"),
        ("2001:0:808:808:0:0:80ff:fffe", "loopback"),
        ("2001:0:7f00:1:0:0:f7f7:f7f7", "loopback"),
        ("localhost", "no IP address"),
        ("0x7f000001", "no IP address"),
        ("127.1", "no IP address"),
        ("", "no IP address"),
    ],
)
def test_other_addresses_are_blocked_with_their_kind(address: str, kind: str) -> None:
    with pytest.raises(AddressRefused, match=kind):
        AddressGuard().check(address, hostname="example.org", port=80)


def test_teredo_address_of_public_addresses_is_allowed() -> None:
    assert allows("2001:0:808:808:0:0:f7f7:f7f7")


@given(st.ip_addresses())
def test_no_address_is_allowed_that_ipaddress_calls_non_global(ip: IPv4Address | IPv6Address) -> None:
    embedded = isinstance(ip, IPv6Address) and (ip.ipv4_mapped or ip.sixtofour or ip.teredo)
    passes = allows(str(ip))
    if passes and not embedded:
        assert ip.is_global
    if passes:
        assert not (ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified)


@given(st.ip_addresses(v=4))
def test_ipv4_address_embedded_in_ipv6_is_judged_alike(ip: IPv4Address) -> None:
    bare = allows(str(ip))
    wrapped = (
        IPv6Address(0xFFFF << 32 | int(ip)),
        IPv6Address(int(IPv6Address("64:ff9b::")) | int(ip)),
        IPv6Address(int(IPv6Address("2002::")) | int(ip) << 80),
    )
    assert [allows(str(address)) for address in wrapped] == [bare] * 3


def test_allowed_networks_apply_to_plain_and_embedded_addresses() -> None:
    guard = AddressGuard(allowed_networks=["127.0.1.0/24", " fd00::/8 ", "10.0.0.7"])
    for address in ("127.0.1.9", "::ffff:127.0.1.9", "fd12::1", "10.0.0.7"):
        assert allows(address, guard)
    for address in ("127.0.0.1", "127.0.2.1", "fc00::1", "10.0.0.8", "::1"):
        assert not allows(address, guard)


@cases("network", ["", "10.0.0.1/8", "10.0.0.0/33", "example.org", "fd00::/129"])
def test_invalid_network_names_the_setting(network: str) -> None:
    with pytest.raises(ConfigurationError, match="ALLOWED_NETWORKS"):
        AddressGuard(allowed_networks=["10.0.0.0/8", network])


def test_allowed_host_is_allowed_at_its_port_only() -> None:
    guard = AddressGuard()
    guard.allow_host("Intranet.example.", 8080)
    assert allows("10.0.0.1", guard, "intranet.example", 8080)
    assert not allows("10.0.0.1", guard, "intranet.example", 80)
    assert not allows("10.0.0.1", guard, "other.intranet.example", 8080)
    guard.allow_host("[::1]", 80)
    assert allows("::1", guard, "::1", 80)
    guard.allow_host("held.example", 80, ["10.0.0.1"])
    assert allows("10.0.0.1", guard, "held.example") and allows("8.8.8.8", guard, "held.example")
    assert not allows("10.0.0.2", guard, "held.example")
    assert not allows("::1", guard, "example.org", 80)
