"""Facts that a page takes from its response."""

from __future__ import annotations

import json
from decimal import Decimal

from hypothesis import example, given, strategies as st
from scrapy import Request
from scrapy.http import Response

from webcrawl.crawler.pages.from_response import page_of

URL = "https://example.org/"


@given(began=st.floats(0, 1e9), seconds=st.floats(0, 1e5))
@example(began=4096.0, seconds=0.001)
@example(began=0.0, seconds=5e-7)
def test_the_latency_has_at_most_six_decimals_in_tables_and_json(began: float, seconds: float) -> None:
    difference = (began + seconds) - began  # two readings of a clock: 0.0010000000002037268
    meta = {"download_latency": difference}
    latency = page_of(Response(URL, request=Request(URL, meta=meta))).row()["latency"]
    assert json.loads(json.dumps(latency)) == latency
    exponent = Decimal(json.dumps(latency)).normalize().as_tuple().exponent
    assert isinstance(exponent, int) and exponent >= -6
    assert abs(Decimal(latency) - Decimal(difference)) <= Decimal("0.0000005000001")


def test_a_response_without_a_latency_has_none() -> None:
    assert page_of(Response(URL, request=Request(URL))).row()["latency"] is None
