"""The templates of the pages: Jinja2 with autoescape, and functions that format numbers, times and addresses."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from webcrawl.config.program import commands_as_typed, program
from webcrawl.crawler.report.summary_text import iteration_reason
from webcrawl.crawler.report.waiting import duration
from webcrawl.documents.values import counted, size, without_class
from webcrawl.errors import undirected
from webcrawl.web.notices import notice_of

FOLDER = Path(__file__).parent
_HOUR, _DAY = 3600, 86_400
_HEADING = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_CELL = re.compile(r"<(tr|th|td)(?=[\s>])")


class Templates:
    """The templates in the folder `templates`."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
            extensions=[_TypedCommands],
        )
        self._environment.filters |= {
            "without_class": without_class,
            "number": number,
            "bytes": size,
            "counted": counted,
            "seconds": duration,
            "took": took,
            "bound": bound,
            "ago": ago,
            "until": until,
            "host_path": host_path,
            "labelled": labelled,
            "shell": shlex.quote,
            "ending": iteration_reason,
        }
        self._environment.globals |= {"static": static, "notice_of": notice_of, "program": program}

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Returns HTML made from a template."""
        return self._environment.get_template(template).render(values)


class _TypedCommands(Extension):
    """Reads templates, which name commands as those of Scrapy's program, with the commands that this user types."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return commands_as_typed(source)


def _shown(value: Any) -> Any:
    """Returns a value of a template as it is shown: with the marks of direction in texts from the web escaped."""
    return undirected(value) if type(value) is str else value


def static(name: str) -> str:
    """Returns the address of a file in `static`."""
    return f"/static/{name}"


def number(value: float | None) -> str:
    """Returns a number with thousands separators; a fraction has one digit below 100 and no digit above."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def took(seconds: float) -> str:
    """Returns a measured duration, such as "<1 ms", "12 ms", "2.5 s" or "3 min 50 s"."""
    if 0 < seconds < 0.0005:
        return "<1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def bound(seconds: float) -> str:
    """Returns the upper bound of a histogram's bucket, such as "0.25 s" or "5 min"."""
    if math.isinf(seconds):
        return "a longer time"
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"


def until(seconds: float) -> Markup:
    """Returns a future time as "in 14 min", with the time of day in UTC if it is at least a minute away."""
    when = datetime.fromtimestamp(time.time() + seconds, UTC)
    text = f"in {_passed(seconds)}" if seconds >= 120 else f"in {seconds:.0f} s"
    if seconds < 1:
        text = "within a second"
    clock = f", {when:%H:%M:%S} UTC" if seconds >= 60 else ""
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        when.isoformat(timespec="seconds"), when.strftime("%Y-%m-%d %H:%M:%S UTC"), text + clock
    )


def ago(moment: datetime | float | None, now: float | None = None) -> str:
    """Returns a past time as "5 min ago", with its date in UTC as the title."""
    if moment is None:
        return "–"
    when = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    passed = (time.time() if now is None else now) - when.timestamp()
    text = _passed(abs(passed))
    text = f"in {text}" if passed < -1 else f"{text} ago" if text != "now" else text
    exact = when.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        exact.isoformat(timespec="seconds"), exact.strftime("%Y-%m-%d %H:%M:%S UTC"), text
    )


def host_path(url: str) -> Markup:
    """Returns a URL with an emphasized host."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return Markup('<span class="url"><span>{}{}</span><b>{}</b><span>{}{}</span></span>').format(
        scheme, mark, host, slash, path
    )


def labelled(rows: Markup) -> Markup:
    """Returns the rows of a table, in which each cell has the name of its column as `data-label`.

    Narrow screens show it, where each row is a card. `rows`: HTML of our templates, with a `thead` of one row.
    """
    head, end, body = str(rows).partition("</thead>")
    names = [_TAG.sub("", name).strip() for name in _HEADING.findall(head)]
    column = 0

    def label(match: re.Match[str]) -> str:
        nonlocal column
        if match[1] == "tr":
            column = 0
            return match[0]
        column += 1
        return f'{match[0]} data-label="{names[column - 1]}"'

    return Markup(head + end + _CELL.sub(label, body))


def _passed(seconds: float) -> str:
    if seconds < 5:
        return "now"
    if seconds < 2 * _HOUR:
        return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"
