"""How sites say no to crawlers that gather text for artificial intelligence, as groups of a robots.txt.

- groups of robots.txt for the crawlers in `AGENTS`
- preferences in robots.txt; see `webcrawl.hosts.usage_preferences`
- `/ai.txt` of Spawning, in the syntax of robots.txt
- `/.well-known/tdmrep.json` of the TDM Reservation Protocol: https://www.w3.org/community/reports/tdmrep/CG-FINAL-tdmrep-20240510/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from webcrawl.hosts.robots import RobotsPolicy, normalized_robots
from webcrawl.hosts.usage_preferences import END_OF_GROUP, GROUP

_CRAWLERS = (
    *("ai2bot", "ai2bot-dolma", "amazonbot", "anthropic-ai", "applebot-extended", "bytespider", "ccbot"),
    *("claude-web", "claudebot", "cohere-ai", "cohere-training-data-crawler", "diffbot", "facebookbot"),
    *("google-extended", "gptbot", "image2dataset", "img2dataset", "meta-externalagent", "omgili"),
    *("omgilibot", "timpibot", "webzio-extended"),
)
"""Product tokens of crawlers and of uses that gather text or images to train models, in lower case."""

AI_TXT, TDMREP = "/ai.txt", "/.well-known/tdmrep.json"
_GROUPS = {AI_TXT: "ai.txt!", TDMREP: "tdmrep.json!"}
AGENTS = (*(f"{crawler}!" for crawler in _CRAWLERS), GROUP, *_GROUPS.values())
"""The groups that count, each as it is named in normalized rules."""

_MOST_BYTES = 64 * 1024
_MOST_LOCATIONS = 1_000


def opts_out(policy: RobotsPolicy, url: str) -> bool:
    """Whether the site forbids crawlers for artificial intelligence to fetch a normalized URL.

    A group for all crawlers does not count here, because it holds for every crawler.
    """
    return any(not policy.allows_group(url, agent) for agent in policy.groups(AGENTS))


def deciding_group(policy: RobotsPolicy, url: str) -> str:
    """Returns the name of the first group that forbids a URL, such as "gptbot" or "ai.txt"; empty if none does."""
    groups = policy.groups(AGENTS)
    return next((name.rstrip("!") for name in groups if not policy.allows_group(url, name)), "")


def has_files(policy: RobotsPolicy) -> bool:
    """Whether the policy contains what `ai.txt` and `tdmrep.json` say, or that they do not exist."""
    return policy.has_groups(_GROUPS.values())


def with_files(policy: RobotsPolicy, bodies: Mapping[str, bytes]) -> RobotsPolicy:
    """Returns the policy with groups for `ai.txt` and `tdmrep.json`. `bodies`: path -> content of those that exist."""
    if policy.verdict == "disallow-all":
        return policy
    lines = [policy.rules, END_OF_GROUP]
    for path, rules in ((AI_TXT, _ai_txt), (TDMREP, _tdmrep)):
        lines += [f"User-agent: {_GROUPS[path]}", *rules(bodies.get(path, b"")[:_MOST_BYTES]), END_OF_GROUP]
    return RobotsPolicy("parsed", "\n".join(filter(None, lines)), policy.url)


def _ai_txt(body: bytes) -> Iterator[str]:
    """Yields the rules for all crawlers."""
    applies = in_names = False
    for line in normalized_robots(body).split("\n"):
        field, _, value = line.partition(":")
        if field.lower() == "user-agent":
            applies, in_names = (applies and in_names) or value.strip() == "*", True
        else:
            in_names = False
            if applies and field.lower() in ("allow", "disallow"):
                yield line


def _tdmrep(body: bytes) -> Iterator[str]:
    """Yields a rule for each location with a reservation."""
    try:
        entries = json.loads(body) if body else []
    except (ValueError, RecursionError):
        return  # the protocol: a file with an error says nothing
    for entry in entries[:_MOST_LOCATIONS] if isinstance(entries, list) else ():
        location, reservation = _location(entry)
        if location.startswith("/") and location.isascii() and location.isprintable():
            yield f"{'Disallow' if reservation else 'Allow'}: {location}"


def _location(entry: Any) -> tuple[str, bool]:
    if not isinstance(entry, dict):
        return "", False
    return str(entry.get("location", "")), str(entry.get("tdm-reservation")) == "1"
