"""What `scrapy search` reads of its options, and how it prints results."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cases import cases
from tests.metadata import NOW
from tests.unit.search.indexes import page
from webcrawl.commands.search import _json, _marked, _text
from webcrawl.errors import ConfigurationError
from webcrawl.search.entry import entry_of
from webcrawl.search.query import read_time
from webcrawl.search.searching import Hit


def hit(snippet: str = "", marks: Any = (), **facts: Any) -> Hit:
    return Hit(entry_of(page("/a", **facts), ()), 1.23456, snippet, marks)


@cases(
    ("text", "is_end", "expected"),
    [
        ("2026-02-03", False, datetime(2026, 2, 3, tzinfo=UTC)),
        ("2026-02-03", True, datetime(2026, 2, 3, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("2026-02-03T12:00", True, datetime(2026, 2, 3, 12, tzinfo=UTC)),
        ("2026-02-03T12:00+02:00", False, datetime(2026, 2, 3, 10, tzinfo=UTC)),
    ],
)
def test_times_are_utc_and_the_last_day_is_whole(text: str, is_end: bool, expected: datetime) -> None:
    assert read_time("--until", text, is_end=is_end) == expected


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01"])
def test_wrong_times_are_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--until: .* is not a time"):
        read_time("--until", text, is_end=True)


def test_marks_stay_where_they_are_when_signs_are_escaped() -> None:
    assert _marked("a\x1b stork\x07 c", [(3, 8)], "<", ">") == "a\\u001b <stork>\\u0007 c"


def test_a_result_has_title_address_facts_and_snippet() -> None:
    shown = _text(1, hit("a stork", [(2, 7)], title=" The\n stork ", language=None), bold=True)
    assert shown.split("\n") == [
        " 1. \x1b[1mThe stork\x1b[0m",
        "    https://www.example.org/a",
        f"    {NOW:%Y-%m-%d}  text/html",
        "    a \x1b[1mstork\x1b[0m",
    ]
    untitled = _text(12, hit(title=""), bold=False)
    assert untitled.split("\n") == ["12. https://www.example.org/a", f"    {NOW:%Y-%m-%d}  text/html  en"]


def test_media_show_size_and_duration() -> None:
    video = {"duration": 61.5, "streams": [{"kind": "audio"}, {"kind": "video", "width": 64, "height": 48}]}
    shown = _text(1, hit(mime_type="video/mp4", details=video), bold=False)
    assert "video/mp4  en  64 x 48  62 s" in shown


def test_json_leaves_out_what_has_no_value() -> None:
    line = json.loads(_json(hit("a stork", [(2, 7)])))
    assert line["marks"] == [[2, 7]] and line["score"] == 1.235
    assert not {"author", "copies", "details", "simhash"} & line.keys()
