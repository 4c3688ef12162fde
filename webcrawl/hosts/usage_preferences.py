"""What a site prefers about the use of its pages by artificial intelligence, as robots.txt and headers say it.

`Content-Usage` is that of draft-ietf-aipref-attach, `train-ai=n`, and `Content-Signal` that of contentsignals.org,
`search=yes, ai-train=no`. Both are read in the groups of a robots.txt for all crawlers, and before all groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

GROUP = "usage preferences!"
"""The name of the group for such preferences; no product token has a space."""

END_OF_GROUP = "Allow: /robots.txt"
"""A rule that changes nothing. It separates a group from one before it that has no rules."""

_USES = frozenset({"train-ai", "ai-train", "ai-input"})
_LINE = re.compile(r"(user[- ]?agent|content-usage|content-signal)\s*:\s*(.*)", re.IGNORECASE)
_MARK = re.compile(r"content-(?:usage|signal)", re.IGNORECASE)


def refuses(preferences: str) -> bool | None:
    """Returns whether "train-ai=n, search=y" refuses a use by artificial intelligence; None if it names no such use."""
    pairs = (part.partition("=") for part in preferences.lower().split(","))
    answers = {name.strip(): answer.strip() for name, _, answer in pairs}
    uses = [answers[use] for use in _USES & answers.keys()]
    return any(answer in ("n", "no") for answer in uses) if uses else None


def preference_rules(text: str) -> str:
    """Returns the preferences in a robots.txt as a group of rules, with a line break before it; empty without any."""
    if not _MARK.search(text):
        return ""
    rules = [
        f"{'Disallow' if refused else 'Allow'}: {path}" for path, refused in _preferences(text.splitlines())
    ]
    return "\n".join(["", END_OF_GROUP, f"User-agent: {GROUP}", *rules]) if rules else ""


def _preferences(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yields path and refusal of each preference for all crawlers."""
    for_all, in_names = True, False
    for line in filter(None, (line.partition("#")[0].strip() for line in lines)):
        match = _LINE.match(line)
        if match is not None and match[1].lower().startswith("user"):
            for_all, in_names = (for_all and in_names) or match[2] == "*", True
            continue
        in_names = False
        if match is not None and for_all:
            path, _, preferences = (
                match[2].partition(" ") if match[2].startswith("/") else ("/", "", match[2])
            )
            if (refused := refuses(preferences)) is not None:
                yield path, refused
