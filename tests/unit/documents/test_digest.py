"""Digests in the form of WARC files."""

from __future__ import annotations

import base64

from hypothesis import given, strategies as st

from webcrawl.documents.body import base32


@given(st.binary(min_size=20, max_size=20))
def test_a_sha1_is_written_in_base32(sha1: bytes) -> None:
    assert base32(sha1) == "sha1:" + base64.b32encode(sha1).decode()
