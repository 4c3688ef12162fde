"""Removes passwords from URLs, from logged settings, and from the settings of a crawl that people see."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from webcrawl.config.declared import DECLARED
from webcrawl.config.setting import IN_PARTS, Settings

_OPTION = re.compile(r"([?&;])([^=&;#?]*)=([^&;#]*)")
_SECRET = re.compile(r"pass|secret|token|credential", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_ITEM = re.compile(
    r"(['\"][^'\"\n]*(?:pass|secret|token|credential)[^'\"\n]*['\"]: )(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")",
    re.IGNORECASE,
)

_STRING = r"(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
# the whole value is secret, because even the path of a URL may be a token
_SETTING = re.compile(rf"(['\"]NOTIFY['\"]: )(?:{_STRING}|[\[(](?:{_STRING}|[\s,])*[\])])")

_SECRET_SETTING = re.compile(
    r"pass|secret|token|credential|auth|cookie|key|headers|notify|prox|webhook", re.IGNORECASE
)
_LONGEST_SHOWN = 2_000
HIDDEN = "(hidden)"


def without_password(url: str) -> str:
    """Returns a URL without user and passwords, for messages; leaves out all before its last @."""
    head, at, tail = url.rpartition("@")
    scheme = head.partition("://")[0] + "://" if "://" in head else ""
    return without_secret_options(f"{scheme}...@{tail}" if at else url)


def without_secret_options(url: str) -> str:
    """Returns a URL without the values of options such as ?password= and &sslpassword=."""
    return _OPTION.sub(_shown, url)


def without_passwords(text: str) -> str:
    """Returns a text, such as that of a setting, without the passwords in its URLs and dicts."""
    text = _SETTING.sub(r"\1'...'", _ITEM.sub(r"\1'...'", text))
    return _URL.sub(lambda url: without_password(url[0]), text)


def hide_in_log(record: logging.LogRecord) -> bool:
    """Leaves the passwords out of a record with settings, such as Scrapy's "Overridden settings"."""
    record.msg, record.args = without_passwords(record.getMessage()), ()
    return True


def _shown(option: re.Match[str]) -> str:
    mark, name, value = option.groups()
    return f"{mark}{name}={'...' if _SECRET.search(unquote(name)) else value}"


def shown_settings(settings: Settings) -> dict[str, str]:
    """Returns name -> value, as text, of each declared setting that differs from its default; no tables of components.

    Passwords in URLs are hidden, and so are settings whose names sound like secrets.
    """
    changed = {}
    for name, declared in DECLARED.items():
        value = settings.get(name, None)
        if declared.default is not IN_PARTS and value not in (None, {}, [], declared.default):
            changed[name] = value
    return {name: shown_value(name, changed[name]) for name in sorted(changed)}


def without_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings or arguments of spiders for people: those that hold secrets as text without them."""
    shown = {name: shown_value(name, value) for name, value in values.items()}
    return {
        name: value if shown[name] in (value, repr(value)) else shown[name] for name, value in values.items()
    }


def shown_value(name: str, value: Any) -> str:
    """Returns the value of a setting as text for people: without passwords, and HIDDEN if its name sounds secret."""
    if _SECRET_SETTING.search(name) and not isinstance(value, int | float):
        return HIDDEN if value else ""
    text = value if isinstance(value, str) else repr(value)
    return without_passwords(text)[:_LONGEST_SHOWN]
