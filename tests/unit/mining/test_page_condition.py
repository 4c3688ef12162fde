"""Conditions in SQL as targets of mining: what they may use, and what they may not reach."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from webcrawl.errors import ConfigurationError
from webcrawl.mining.page_condition import PageCondition, is_condition
from webcrawl.mining.targets import Target

ROW: dict[str, Any] = {
    "status": 200,
    "duplicate_of": None,
    "soft_404": False,
    "language": "ja",
    "title": "A 'title'",
    "simhash": 2**64 - 1,
    "fetched_at": datetime(2026, 2, 3, 12, tzinfo=UTC),
    "details": {"text_length": 2_500, "generator": "x"},
    "extracted": {"price": 12.5},
}


@cases(
    ("sql", "holds"),
    [
        ("language = 'ja' and text_length > 2000", True),
        ("language = 'de' OR text_length < 2000", False),
        ("author = 'x'", False),
        ("title LIKE '%''title''%'", True),
        ("fetched_at >= '2026-02-03' -- a comment", True),
        ("fetched_at >= '2026-02-04'", False),
        ("extracted->>'price' = '12.5'", True),
        ("(details->>'generator') IN ('x', 'y')", True),
        ("simhash = 18446744073709551615", True),
        ("pages.status = 200", True),
        ("1 = 1", True),
    ],
)
def test_conditions_on_columns(sql: str, holds: bool) -> None:
    assert is_condition(sql)
    condition = PageCondition(sql)
    rows = [{**dict.fromkeys(condition.columns), "url": "http://a.example/", **ROW}]
    assert condition.holds(rows * 2) == [holds, holds] and condition.holds([]) == []


@cases(
    ("sql", "why"),
    [
        ("language = ", "syntax error"),
        ("langage = 'ja'", "'langage' is none of attempts"),
        ("language = (SELECT 'ja')", "cannot have a query in it"),
        ("EXISTS (FROM '/etc/passwd') = true", "cannot have a query in it"),
        ("status = 1) FROM pages WHERE (1 = 1", "syntax error"),
        ("status = 1) FROM pages WHERE 1 = (1", "syntax error"),
        ("status = 1) FROM 'x.csv' --", "error"),
        ("1 = 1), (2 = 2", "it is no single expression"),
        ("1 = 1) FROM pages; DROP TABLE pages; SELECT (1 = 1", "SELECT statements"),
        ("read_text('/etc/passwd') = 'x'", "Table Function|read_text"),
        ("count(*) > 1", "about all pages"),
        ("row_number() OVER () = 1", "a window"),
        ("status = ?", "a parameter"),
        ("COLUMNS(*) = 1", r"\*"),
        ("language = 5 + 'x'", "no condition on pages"),
    ],
)
def test_other_conditions_are_refused(sql: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        PageCondition(sql)
    assert "--target" in str(refused.value)


def test_a_condition_reaches_no_file_and_cannot_open_the_sandbox(tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    connection = PageCondition("1 = 1")._connection
    for statement in (
        f"FROM '{file}'",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        f"ATTACH '{tmp_path}/x.db'",
    ):
        with pytest.raises(Exception, match="disabled|locked|Permission|Cannot"):
            connection.execute(statement)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_names_of_columns_are_no_conditions() -> None:
    assert not any(map(is_condition, ["text", "links", "details.price", 'my "wish"', "1; DROP TABLE pages"]))


def test_pages_that_failed_are_worth_nothing_whatever_the_condition() -> None:
    target = Target.named("status > 0")
    rows = [{**ROW, "status": status} for status in (200, 404, None)] + [{**ROW, "duplicate_of": "x"}]
    assert target.values(rows) == [1.0, 0.0, None, 0.0]
    assert Target.named("status = 0").values(rows[:1]) == [0.0]
    assert not target.needs_links and Target.named("links").needs_links
