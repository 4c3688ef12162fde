"""Commands in messages are those that the user can type."""

from __future__ import annotations

import pytest

from webcrawl.config.program import SHOWN, as_typed, program


def test_commands_are_shown_as_the_user_types_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHOWN, raising=False)
    assert as_typed("see `scrapy host`") == f"see `{program()} host`"
    monkeypatch.setenv(SHOWN, ".venv/bin/webcrawl")
    assert (
        as_typed("see `scrapy host`; scrapy-redis stays")
        == "see `.venv/bin/webcrawl host`; scrapy-redis stays"
    )


def test_messages_show_control_characters() -> None:
    assert as_typed("a\x1b[2J \u202eb\ud800\nc\td") == "a\\u001b[2J \\u202eb\\ud800\nc\td"
