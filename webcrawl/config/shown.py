"""The settings of a crawl as text for people, without secrets."""

from __future__ import annotations

import re
from typing import Any

from webcrawl.config.declared import DECLARED
from webcrawl.config.passwords import without_passwords
from webcrawl.config.setting import IN_PARTS, Settings

_SECRET = re.compile(r"pass|secret|token|credential|auth|cookie|key|headers|notify|prox", re.IGNORECASE)
_LONGEST = 2_000
HIDDEN = "(hidden)"


def shown_settings(settings: Settings) -> dict[str, str]:
    """Returns name -> value, as text, of each declared setting that differs from its default; no tables of components.

    Passwords in URLs are hidden, and so are settings whose names sound like secrets.
    """
    changed = {}
    for name, declared in DECLARED.items():
        value = settings.get(name, None)
        if declared.default is not IN_PARTS and value not in (None, {}, [], declared.default):
            changed[name] = value
    return {name: _text(name, changed[name]) for name in sorted(changed)}


def _text(name: str, value: Any) -> str:
    if _SECRET.search(name) and not isinstance(value, int | float):
        return HIDDEN if value else ""
    text = value if isinstance(value, str) else repr(value)
    return without_passwords(text)[:_LONGEST]
