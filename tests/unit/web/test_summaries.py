"""Crawls of which only a summary is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from webcrawl.web.crawls import crawls_of_summaries

WHOLE = {"queued": 2, "leased": 0, "seen_urls": 9, "pages": 7, "finish_reason": "finished"}


def test_damaged_summaries_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = {
        "empty": "",
        "cut": json.dumps(WHOLE)[:-9],
        "other": "[1]",
        "short": '{"queued": 1}',
        "text": json.dumps(WHOLE | {"queued": "2"}),
        "deep": "[" * 100_000,
        "revisits": json.dumps(WHOLE | {"revisits": 5}),
    }
    (tmp_path / "summaries").mkdir()
    for name, text in {**damaged, "whole": json.dumps(WHOLE)}.items():
        (tmp_path / "summaries" / f"{name}.json").write_text(text)
    (tmp_path / "summaries" / "bytes.json").write_bytes(b"\xff")
    (listed,) = crawls_of_summaries(tmp_path, set())
    assert (listed.crawl, listed.state, listed.pages, listed.queued) == ("whole", "stopped", 7, 2)
    assert all(f"{name}.json is not a summary" in caplog.text for name in (*damaged, "bytes"))
