"""How pages write numbers, durations and times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from markupsafe import Markup

from tests.cases import cases
from webcrawl.config.program import SHOWN
from webcrawl.web.templates import FOLDER, Templates, ago, labelled, number, took, until


@cases(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.0003, "<1 ms"),
        (0.0123, "12 ms"),
        (0.9994, "999 ms"),
        (0.9999, "1.0 s"),
        (59.94, "59.9 s"),
        (230.0, "3 min 50 s"),
    ],
)
def test_a_measured_duration(seconds: float, text: str) -> None:
    assert took(seconds) == text


@cases(
    ("seconds", "text"),
    [
        (0.2, "within a second<"),
        (1.2, "in 1 s<"),
        (2.4, "in 2 s<"),
        (61.0, "in 61 s, "),
        (900.0, "in 15 min, "),
    ],
)
def test_a_time_to_come(seconds: float, text: str) -> None:
    html = until(seconds)
    assert f">{text}" in html and (" UTC</time>" in html) == (seconds >= 60)


@cases(
    ("passed", "text"),
    [(1, "now"), (90, "90 s ago"), (600, "10 min ago"), (-600, "in 10 min"), (3 * 86400, "3 days ago")],
)
def test_a_time_that_has_passed(passed: float, text: str) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp()
    assert f">{text}</time>" in ago(now - passed, now)


def test_a_number() -> None:
    assert [number(one) for one in (None, 0, 12_345, 0.25, 1234.5)] == ["–", "0", "12,345", "0.2", "1,234"]


def test_cells_have_the_names_of_their_columns() -> None:
    head = '<thead><tr><th scope="col">Host</th><th class="number"><a href="?">Pages &amp; more</a></th></tr></thead>'
    row = '<tr><th scope="row">a &lt;td&gt;</th><td class="number">1</td></tr>'
    labels = labelled(Markup(head + row + row))
    named = (
        '<tr><th data-label="Host" scope="row">a &lt;td&gt;</th>'
        '<td data-label="Pages &amp; more" class="number">1</td></tr>'
    )
    assert labels == Markup(head + named + named)


def test_templates_name_commands_as_this_user_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHOWN, "typed")
    environment = Templates()._environment
    sources = {name: (FOLDER / "templates" / name).read_text() for name in environment.list_templates()}
    assert any("scrapy jobs run" in source for source in sources.values())
    for name, source in sources.items():
        assert "scrapy " not in environment.preprocess(source), name


def test_marks_of_direction_are_shown() -> None:
    template = Templates()._environment.from_string("{{ title }}<i>{{ markup }}</i>")
    shown = template.render(title="a\u202egpj.exe\u2066<", markup=Markup("<b>1</b>"))
    assert shown == "a\\u202egpj.exe\\u2066&lt;<i><b>1</b></i>"
