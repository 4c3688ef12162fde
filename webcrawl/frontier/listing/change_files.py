"""Reads files with an operator's changes of URLs: Parquet, JSON Lines or CSV with a column `url` and some others.

Every row is checked before a URL is changed.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config.libraries import optional
from webcrawl.errors import ConfigurationError, InvalidURL, brief
from webcrawl.frontier.entry import MOST_LEVEL
from webcrawl.frontier.listing.listing import FIELDS
from webcrawl.policies.priorities import level_of_weight
from webcrawl.urls.canonical import normalize, split

COLUMNS = ("level", "weight", "date", "drop")
"""The columns that set something; other columns of a listing are ignored."""

_AT_ONCE = 10_000
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")

Row = tuple[str, Mapping[str, Any]]
"""The number of a row, such as "row 3", and its values by column."""


class URLChange(NamedTuple):
    """The new values of a URL. `due`: ms since 1970. None leaves a value unchanged; `drop` takes precedence."""

    row: str
    """The row of the file, such as "row 3"."""
    host: str
    path: str
    level: int | None
    due: int | None
    drop: bool


def changes_in(path: Path) -> Iterator[URLChange]:
    """Yields the changes in a file, without rows that set nothing.

    Raises ConfigurationError, which names row and column, and LibraryMissing for Parquet without pyarrow.
    """
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise ConfigurationError(f"{path}: the name must end in one of {', '.join(_READERS)}")
    try:
        for number, values in read(path):
            if (change := _change(path, number, values)) is not None:
                yield change
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path} cannot be read: {brief(error)}") from error


def _change(path: Path, row: str, columns: Mapping[str, Any]) -> URLChange | None:
    values = {name: columns[name] for name in ("url", *COLUMNS) if columns.get(name) not in (None, "")}
    known: dict[str, Any] = {}
    column = "url"
    try:
        host, rest = split(normalize(_text(values.pop("url", ""))))
        for column, value in values.items():
            known[column] = _PARSERS[column](value)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{path}, {row}, column {column}: {error}") from error
    level = known["weight"] if "weight" in known else known.get("level")
    change = URLChange(row, host, rest, level, known.get("date"), known.get("drop", False))
    return change if change.drop or change.level is not None or change.due is not None else None


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidURL(f"{value!r} is not a URL")
    return value


def _level(value: Any) -> int:
    number = value if type(value) is int else _number(value)
    if abs(number) > MOST_LEVEL:
        raise ValueError(
            f"{value!r} is out of range: levels are from -{MOST_LEVEL:,} to {MOST_LEVEL:,}, mostly 0 to 7"
        )
    if number != int(number):
        raise ValueError(f"{value!r} is not a whole number")
    return int(number)


def _level_of_weight(value: Any) -> int:
    return level_of_weight(_number(value))


def _number(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a number")
    return number


def _due(value: Any) -> int:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    if not isinstance(moment, datetime):
        raise ValueError(f"{value!r} is not a time such as 2026-02-03 or 2026-02-03T12:00:00Z")
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _drop(value: Any) -> bool:
    word = str(value).lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"{value!r} is neither true nor false")
    return word in _TRUE


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "level": _level,
    "weight": _level_of_weight,
    "date": _due,
    "drop": _drop,
}


def _parquet(path: Path) -> Iterator[Row]:
    pyarrow = optional("--set with a Parquet file", "pyarrow", "parquet", "pyarrow", "pyarrow.parquet")
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _check_columns(path, names)
            wanted = [name for name in ("url", *COLUMNS) if name in names]
            for batch in file.iter_batches(_AT_ONCE, columns=wanted, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number:,}", row
    except pyarrow.ArrowException as error:
        raise ConfigurationError(f"{path} cannot be read: {brief(error)}") from error


def _json_lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ConfigurationError(f"{path}, line {number:,}: not JSON: {brief(error)}") from error
            if not isinstance(row, dict):
                raise ConfigurationError(f"{path}, line {number:,}: not an object")
            _check_columns(f"{path}, line {number:,}", row, setting=False)
            yield f"line {number:,}", row


def _csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, restkey="", restval=None)
        _check_columns(path, reader.fieldnames or ())
        for row in reader:
            if "" in row:
                raise ConfigurationError(f"{path}, line {reader.line_num:,}: more values than columns")
            yield f"line {reader.line_num:,}", row


def _check_columns(where: Path | str, names: Collection[str], *, setting: bool = True) -> None:
    """Refuses misspelt or missing columns. Without `setting`, a row may set nothing."""
    known = {*FIELDS, *COLUMNS}
    if unknown := sorted(name for name in names if name not in known):
        raise ConfigurationError(
            f"{where}: column {unknown[0]!r} is not known: url, {', '.join(COLUMNS)} are read, and the other columns "
            "of `scrapy urls` are ignored"
        )
    if "url" not in names:
        raise ConfigurationError(f"{where}: there is no column url")
    if setting and not {*COLUMNS} & {*names}:
        raise ConfigurationError(f"{where}: there is none of the columns {', '.join(COLUMNS)}")


_READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".csv": _csv,
}
