"""Workers on one machine have different ports, and a port that cannot be used is refused with a reason."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from tests.cases import cases
from webcrawl.config import read
from webcrawl.crawler.crawl_options import own_options
from webcrawl.errors import ConfigurationError
from webcrawl.metrics.server import listen


def ports(first: int | None) -> list[str]:
    words = [own_options(Settings({"METRICS_PORT": first}), place) for place in range(3)]
    return [next((one for one in group if one.startswith("METRICS_PORT")), "") for group in words]


def test_each_worker_has_the_next_port() -> None:
    # the first one has the port of the settings
    assert ports(9410) == ["", "METRICS_PORT=9411", "METRICS_PORT=9412"]
    assert ports(None) == ["", "", ""]


@cases("wrong", [0, 65536, "http", -1, 9410.5])
def test_a_port_is_a_number_of_16_bits(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="METRICS_PORT must be a whole number from 1 to 65,535"):
        read(Settings({"METRICS_PORT": wrong}), "METRICS_PORT")


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"^METRICS_PORT: cannot serve metrics at {host} port 9410: "
    ):
        listen("METRICS_PORT", host, 9410)


def test_the_last_port_has_none_after_it() -> None:
    with pytest.raises(ConfigurationError, match="port 65536: .*must be 0-65535"):
        listen("METRICS_PORT", "127.0.0.1", 65536)


def test_ipv6_is_served_too() -> None:
    with listen("--port", "::1", 0) as listening:
        assert listening.getsockname()[0] == "::1"
