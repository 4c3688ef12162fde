"""Groups for artificial intelligence in robots.txt, ai.txt and tdmrep.json, and preferences about its use."""

from __future__ import annotations

import json

import pytest

from tests.cases import cases
from webcrawl.hosts.opt_outs import AI_TXT, TDMREP, deciding_group, has_files, opts_out, with_files
from webcrawl.hosts.robots import LARGE, RobotsPolicy
from webcrawl.hosts.robots_directives import directives
from webcrawl.hosts.usage_preferences import refuses

URL = "https://example.org"
AGENT = "examplebot/1.0"


def policy(text: str, **files: str) -> RobotsPolicy:
    rules = RobotsPolicy.from_response(200, text.encode(), url=f"{URL}/robots.txt")
    paths = {"ai_txt": AI_TXT, "tdmrep": TDMREP}
    return with_files(rules, {paths[name]: body.encode() for name, body in files.items()}) if files else rules


@cases("agent", ["GPTBot", "CCBot", "Google-Extended", "ClaudeBot", "gptbot/1.2", "AI2Bot-Dolma"])
def test_a_group_for_a_crawler_for_ai_counts(agent: str) -> None:
    rules = policy(
        f"User-agent: {agent}\nDisallow: /articles/\nAllow: /articles/free\n\nUser-agent: *\nDisallow: /no"
    )
    assert opts_out(rules, f"{URL}/articles/1")
    assert not opts_out(rules, f"{URL}/articles/free") and not opts_out(rules, f"{URL}/")
    assert not opts_out(rules, f"{URL}/no"), "the rule for all crawlers is robots.txt's own"
    assert rules.allows(f"{URL}/articles/1", AGENT) and not rules.allows(f"{URL}/no", AGENT)


@cases(
    "text",
    [
        "User-agent: *\nDisallow: /",
        "User-agent: Googlebot\nDisallow: /",
        "",
        "User-agent: MyGPTBot\nDisallow: /",
    ],
)
def test_other_groups_do_not_count(text: str) -> None:
    assert not opts_out(policy(text), f"{URL}/")


@pytest.mark.parametrize("verdict, status", [("allow-all", 404), ("disallow-all", 500)])
def test_a_robots_txt_without_rules_has_no_groups(verdict: str, status: int) -> None:
    rules = RobotsPolicy.from_response(status, b"", url=f"{URL}/robots.txt")
    assert rules.verdict == verdict and not opts_out(rules, f"{URL}/") and not has_files(rules)


@cases(
    "text, out",
    [
        ("User-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /", {"/", "/a"}),
        ("Content-Signal: ai-input=no\n\nUser-agent: *\nAllow: /", {"/", "/a"}),
        ("User-agent: *\nContent-Usage: train-ai=n\n", {"/", "/a"}),
        ("User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /a train-ai=y\n", {"/"}),
        ("User-agent: Googlebot\nUser-agent: *\n# all\nContent-Usage: /a train-ai=n", {"/a"}),
        ("User-agent: *\nContent-Signal: search=no, ai-train=yes", set()),
        ("User-agent: Googlebot\nContent-Signal: ai-train=no\n\nUser-agent: *\nAllow: /", set()),
        ("# Content-Signal: ai-train=no\nUser-agent: *\nAllow: /", set()),
    ],
)
def test_preferences_in_robots_txt(text: str, out: set[str]) -> None:
    rules = policy(text)
    assert {path for path in ("/", "/a") if opts_out(rules, URL + path)} == out
    assert rules.allows(f"{URL}/", AGENT) and rules.allows(f"{URL}/a", AGENT)


def test_a_preference_after_a_group_without_rules_leaves_that_group_alone() -> None:
    rules = policy("Content-Usage: train-ai=n\nUser-agent: *")
    assert opts_out(rules, f"{URL}/") and rules.allows(f"{URL}/", AGENT)


@cases(
    "preferences, refused",
    [("train-ai=n", True), ("search=y, Train-AI = n", True), ("ai-train=no", True), ("train-ai=y", False)]
    + [("search=n", None), ("", None), ("train-ai", False)],
)
def test_preferences(preferences: str, refused: bool | None) -> None:
    assert refuses(preferences) is refused


def test_ai_txt_and_tdmrep_json_are_groups() -> None:
    locations = [
        {"location": "/free", "tdm-reservation": 0},
        {"location": "/paid*", "tdm-reservation": 1},
        7,
        {},
    ]
    rules = policy(
        "User-agent: *\nDisallow: /private",
        ai_txt="User-Agent: otherbot\nDisallow: /\nUser-Agent: *\nDisallow: *.pdf\nDisallow: /art/",
        tdmrep=json.dumps(locations),
    )
    paths = ("/", "/art/1", "/book.pdf", "/free", "/paid/1", "/private")
    assert {path: deciding_group(rules, URL + path) for path in paths if opts_out(rules, URL + path)} == {
        "/art/1": "ai.txt",
        "/book.pdf": "ai.txt",
        "/paid/1": "tdmrep.json",
    }
    assert [path for path in paths if not rules.allows(URL + path, AGENT)] == ["/private"]
    stored = RobotsPolicy.from_bytes(rules.to_bytes())
    assert has_files(stored) and opts_out(stored, f"{URL}/art/1")


@cases("body", ["", "[", "{}", '{"location": "/"}', "[" * 10_000, '[{"location": "x\\ny"}]'])
def test_a_damaged_tdmrep_json_says_nothing(body: str) -> None:
    rules = policy("User-agent: *", ai_txt="", tdmrep=body)
    assert has_files(rules) and not opts_out(rules, f"{URL}/") and rules.allows(f"{URL}/", AGENT)


def test_files_are_kept_for_a_site_without_robots_txt() -> None:
    rules = with_files(
        RobotsPolicy("allow-all", url=f"{URL}/robots.txt"), {AI_TXT: b"User-agent: *\nDisallow: /x"}
    )
    assert opts_out(rules, f"{URL}/x") and rules.allows(f"{URL}/x", AGENT) and has_files(rules)


def test_groups_with_the_same_rules_are_compared_once() -> None:
    stacked = policy(
        "User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /\n\nUser-agent: ClaudeBot\nDisallow: /a"
    )
    assert stacked.groups(("ccbot!", "gptbot!", "claudebot!", "bytespider!")) == ["ccbot!", "claudebot!"]
    large = policy("User-agent: GPTBot\n" + "Disallow: /aaaaaaaaaaaaaaaa\n" * (LARGE // 20))
    assert large.is_large and not opts_out(large.prepare(AGENT, ("gptbot!",)), f"{URL}/")


def test_directives_for_ai() -> None:
    said = directives(["noai"], [("robots", "index, NoImageAI")], AGENT)
    assert (said.noai, said.noimageai, said.noindex) == (True, True, False)
    assert not directives(["otherbot: noai"], [], AGENT).noai
