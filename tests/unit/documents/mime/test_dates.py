"""Dates as pages write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.mime.dates import date_in_path, read_date

NOON = datetime(2024, 5, 17, 12, 30, tzinfo=UTC)
DAY = datetime(2024, 5, 17, tzinfo=UTC)


@cases(
    ("text", "moment"),
    [
        ("2024-05-17T12:30:00Z", NOON),
        ("2024-05-17T14:30+02:00", NOON),
        ("2024-05-17 08:30:00 -0400", NOON),
        (" 2024-05-17\n12:30 ", NOON),
        ("Fri, 17 May 2024 12:30:00 GMT", NOON),
        ("2024-05-17T12:30:00.000000000Z", NOON),
        ("20240517", DAY),
        ("2024/5/17", DAY),
        ("2024.05.17", DAY),
        ("2024-05-17, updated later", DAY),
        ("May 17, 2024", DAY),
        ("17 May 2024", DAY),
        ("2024-05-17T99:99", DAY),
        ("2024-05-17 12:30 UTC", NOON),
        ("2024-05-17T12:30:00 GMT", NOON),
        ("2024-05-17T8:30 -4", NOON),
        ("2024-05-17T14:30:00[Europe/Berlin]", NOON.replace(hour=14)),
        ("2024-05-17+02:00", DAY),
        ("2024年5月17日 12:30", NOON),
        ("2024. 5. 17.", DAY),
        ("2024년 5월 17일", DAY),
        ("Fri May 17 2024 14:30:00 GMT+0200 (Central European Summer Time)", NOON),
        ("Friday, May 17th, 2024 at 12:30 p.m.", NOON),
        ("May 17, 2024 12:30 AM", NOON.replace(hour=0)),
        ("May 17, 2024, 8:30 AM EDT", NOON),
        ("Freitag, 17. Mai 2024, 12:30 Uhr", NOON),
        ("vendredi 17 mai 2024", DAY),
        ("17 de mayo de 2024", DAY),
        ("1er juin 2024", datetime(2024, 6, 1, tzinfo=UTC)),
        ("17 мая 2024", DAY),
        ("17-May-2024", DAY),
        ("17.05.2024 12:30", NOON),
        ("17.5.2024", DAY),
        ("17/05/2024", DAY),
        ("05/17/2024", DAY),
        ("05/06/2024", None),
        ("May 2024", None),
        ("17 foo 2024", None),
        ("2024-13-17", None),
        ("2024-05", None),
        ("0001-01-01", None),
        ("9999-12-31T23:59:59-12:00", None),
        ("1715949000", None),
        ("yesterday", None),
        ("2024-05-17" + "0" * 100, None),
        ("\u0662\u0660\u0662\u0664-05-17", DAY),
        ("", None),
        (None, None),
    ],
)
def test_date_is_parsed_in_common_formats(text: str | None, moment: datetime | None) -> None:
    assert read_date(text) == moment


def test_future_date_is_rejected() -> None:
    now = datetime.now(UTC)
    assert read_date((now + timedelta(hours=12)).isoformat()) is not None
    assert read_date((now + timedelta(days=3)).isoformat()) is None


@cases(
    ("path", "moment"),
    [
        ("/news/2024/05/17/title", DAY),
        ("/2024/05/17", DAY),
        ("/2024/05/17-title", DAY),
        ("/2024/02/31/title", None),
        ("/2024/05/title", None),
        ("/20240/05/17/", None),
    ],
)
def test_date_is_found_in_a_path(path: str, moment: datetime | None) -> None:
    assert date_in_path(path) == moment


@given(st.text(max_size=80))
def test_any_text_gives_a_utc_date_or_none(text: str) -> None:
    found = read_date(text)
    assert found is None or found.tzinfo is UTC
