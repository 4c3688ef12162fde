"""Files with changes of URLs: what is read from each format, and how wrong values are refused."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from webcrawl.errors import ConfigurationError
from webcrawl.frontier.listing.change_files import URLChange, changes_in
from webcrawl.frontier.listing.changes import Changes

HOST = "https://a.test"


def write(folder: Path, form: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"changes.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    elif form == "csv":
        names = list(dict.fromkeys(name for row in rows for name in row))
        lines = [",".join("" if row.get(name) is None else str(row[name]) for name in names) for row in rows]
        path.write_text("\n".join([",".join(names), *lines, ""]))
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_every_format_says_the_same(tmp_path: Path, form: str) -> None:
    due = datetime(2026, 2, 3, 12, tzinfo=UTC)
    rows = [
        {"url": f"{HOST}/level", "level": 1, "weight": None, "date": None, "drop": None, "state": "queued"},
        {"url": f"{HOST}/weight#top", "level": 1, "weight": -2.0, "date": None, "drop": False},
        {"url": f"{HOST}:443/date", "level": None, "weight": None, "date": due, "drop": None},
        {"url": f"{HOST}/drop?a=b", "level": None, "weight": None, "date": None, "drop": True},
        {"url": f"{HOST}/nothing", "level": None, "weight": None, "date": None, "drop": None},
    ]
    found = [change._replace(row="") for change in changes_in(write(tmp_path, form, rows))]
    assert found == [
        URLChange("", HOST, "/level", 1, None, False),
        URLChange("", HOST, "/weight", 5, None, False),
        URLChange("", HOST, "/date", None, int(due.timestamp()) * 1000, False),
        URLChange("", HOST, "/drop?a=b", None, None, True),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"url": "nowhere", "level": 1}, "column url: not a URL: 'nowhere'"),
        ({"url": None, "level": 1}, "column url: '' is not a URL"),
        ({"url": f"{HOST}/", "level": 1.5}, "column level: 1.5 is not a whole number"),
        ({"url": f"{HOST}/", "level": "low"}, "column level: 'low' is not a number"),
        ({"url": f"{HOST}/", "level": True}, "column level: True is not a number"),
        (
            {"url": f"{HOST}/", "level": 2**60},
            f"column level: {2**60} is out of range: levels are from -9,007,199,254,740,992 to 9,007,199,254,740,992",
        ),
        ({"url": f"{HOST}/", "level": -(2**53) - 1}, f"column level: {-(2**53) - 1} is out of range"),
        ({"url": f"{HOST}/", "level": 10**400}, "is out of range"),
        ({"url": f"{HOST}/", "level": "1e400"}, "column level: '1e400' is not a number"),
        ({"url": f"{HOST}/", "weight": 10**400}, "is not a number"),
        ({"url": f"{HOST}/", "weight": "NaN"}, "column weight: 'NaN' is not a number"),
        ({"url": f"{HOST}/", "date": "soon"}, "column date: 'soon' is not a time such as"),
        ({"url": f"{HOST}/", "date": 5}, "column date: 5 is not a time such as"),
        ({"url": f"{HOST}/", "drop": "maybe"}, "column drop: 'maybe' is neither true nor false"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    path = write(tmp_path, "jsonl", [{"url": f"{HOST}/good", "drop": True}, row])
    with pytest.raises(ConfigurationError) as error:
        list(changes_in(path))
    assert str(error.value).startswith(f"{path}, line 2") and message in str(error.value)


def test_a_level_out_of_range_in_parquet_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    levels = [2**53, -(2**53), 99, 2**53 + 1]
    rows = [{"url": f"{HOST}/{number}", "level": level} for number, level in enumerate(levels)]
    path = write(tmp_path, "parquet", rows)
    with closing(Changes(lambda _: 0)) as changes, pytest.raises(ConfigurationError) as error:
        changes.add(changes_in(path))
    assert str(error.value).startswith(
        f"{path}, row 4, column level: 9007199254740993 is out of range: levels"
    )
    assert [change.level for change in changes_in(write(tmp_path, "parquet", rows[:3]))] == levels[:3]


def test_dates_of_any_kind_are_in_utc(tmp_path: Path) -> None:
    day = int(datetime(2026, 2, 3, tzinfo=UTC).timestamp()) * 1000
    for number, value in enumerate(
        [date(2026, 2, 3), datetime(2026, 2, 3), datetime(2026, 2, 3, tzinfo=UTC)]
    ):
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(pyarrow.Table.from_pylist([{"url": f"{HOST}/", "date": value}]), path)
        assert [change.due for change in changes_in(path)] == [day]
    path = write(tmp_path, "csv", [{"url": f"{HOST}/", "date": "2026-02-03T01:00:00+01:00"}])
    assert [change.due for change in changes_in(path)] == [day]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "url,levle\nhttps://a.test/,1\n", "column 'levle' is not known"),
        ("a.csv", "level\n1\n", "there is no column url"),
        (
            "a.csv",
            "url,state\nhttps://a.test/,queued\n",
            "there is none of the columns level, weight, date, drop",
        ),
        ("a.csv", "url,level\nhttps://a.test/,1,2\n", "line 2: more values than columns"),
        ("a.jsonl", "{}\n", "line 1: there is no column url"),
        ("a.jsonl", "[1]\n", "line 1: not an object"),
        ("a.jsonl", "{\n", "line 1: not JSON"),
        ("a.jsonl", '{"url": "https://a.test/", "levle": 1}\n', "line 1: column 'levle' is not known"),
        ("a.parquet", "no", "cannot be read"),
        ("a.txt", "", "the name must end in one of .parquet, .jsonl, .csv"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        list(changes_in(path))
    assert str(error.value).startswith(str(path)) and message in str(error.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        list(changes_in(tmp_path / "missing.csv"))


def test_a_url_has_one_change() -> None:
    with closing(Changes(lambda _: 0)) as changes, pytest.raises(ConfigurationError) as error:
        changes.add(URLChange(f"row {number}", HOST, f"/{number % 3}", 1, None, False) for number in range(5))
    assert str(error.value) == "https://a.test/0 is in row 0 and in row 3: keep one of them"


def test_a_host_with_many_changes_comes_in_pieces() -> None:
    with closing(Changes(lambda _: 0)) as changes:
        changes.add(
            URLChange("", f"{HOST}:{port}", f"/{n}", 1, None, False) for port in (1, 2) for n in range(25)
        )
        found = [(host, len(wanted)) for host, wanted in changes.open(0, 10)]
        assert sum(number for _, number in found) == 50 and max(number for _, number in found) == 10
        for host, wanted in changes.open(0, 10):
            changes.settle(0, host, [(one.path, "changed") for one in wanted])
        assert list(changes.open(0)) == []
        assert changes.counts() == {"changed": 50, "dropped_now": 0, "dated": 0, "levelled": 50}
