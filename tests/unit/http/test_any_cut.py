"""A response is the same however the network cuts its bytes."""

from __future__ import annotations

import asyncio

from hypothesis import given, strategies as st

from tests.responses import Outcome, Sent, outcome_of, pieces_of, sent_responses


@given(st.data(), sent_responses())
def test_a_valid_response_is_read_in_any_pieces(data: st.DataObject, sent: Sent) -> None:
    pieces = data.draw(pieces_of(sent.data))
    outcome = asyncio.run(outcome_of(pieces, ends=sent.ends))
    assert outcome == Outcome(sent.head, sent.body, None, is_reusable=not sent.ends)


@given(st.data(), sent_responses(), st.binary(min_size=1, max_size=40))
def test_bytes_after_a_response_end_its_connection_and_change_nothing(
    data: st.DataObject, sent: Sent, more: bytes
) -> None:
    if not sent.ends:
        pieces = data.draw(pieces_of(sent.data + b"HTTP/1.1 " + more))
        assert asyncio.run(outcome_of(pieces)) == Outcome(sent.head, sent.body, None, is_reusable=False)
