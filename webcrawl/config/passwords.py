"""Removes passwords from URLs and from logged settings."""

from __future__ import annotations

import logging
import re
from urllib.parse import unquote

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
