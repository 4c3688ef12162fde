"""Makes text safe for CSV files, which spreadsheets open."""

from __future__ import annotations

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless(value: Any) -> Any:
    """Returns the value of a cell. Text that a spreadsheet would run as a formula gets a leading apostrophe.

    Source: OWASP, CSV Injection. Numbers stay as they are.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
