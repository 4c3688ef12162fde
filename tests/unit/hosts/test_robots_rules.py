"""The rules of a robots.txt: the verdicts are Protego's, and reading and matching are bounded."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest
from hypothesis import example, given, strategies as st
from protego import Protego

from webcrawl.hosts.duty_cycle import DutyCycle
from webcrawl.hosts.robots import LARGE, MAX_BYTES, RobotsPolicy, normalized_robots
from webcrawl.hosts.robots_rules import MOST_CHECKS, RobotsRules, _PatternIndex, deciding_line

HOST = "http://example.org"
AGENTS = ("webcrawl!", "another!")
tokens = (
    "/",
    "a",
    "b",
    "*",
    "$",
    "%41",
    "%2F",
    "%2f",
    "%",
    "?",
    "=",
    "index.html",
    ".",
    "é",
    "~",
    "%25",
    "%2A",
    "&",
)
paths = st.lists(st.sampled_from(tokens), max_size=6).map("".join)
values = st.builds("{}{}".format, st.sampled_from(["/", "", "*", "http://"]), paths)
lines = st.one_of(
    st.builds("User-agent: {}".format, st.sampled_from(["*", "webcrawl", "other", "", "x*"])),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["Disallow", "Allow", "Disalow"]),
        st.sampled_from([":", " ", ": "]),
        values,
    ),
    st.builds("Crawl-delay: {}".format, st.sampled_from(["1", "x", "-1", "2.5", "inf"])),
    st.sampled_from(
        [
            "Request-rate: 1/3",
            "crawl delay 7",
            "Sitemap: http://a/b",
            "Disallow foo: bar",
            "Disallow foo:bar",
            "x",
        ]
    ),
)


@given(st.lists(lines, max_size=12), st.lists(paths, max_size=8), st.booleans())
@example(["User-agent: *", "Disallow: /*a", "Allow: /a", "Disallow: /ab$"], ["a", "ab", "abc"], True)
@example(["User-agent: *", "Disallow: /*a", "Allow: /a", "Disallow: /ab$"], ["a", "ab", "abc"], False)
@example(["User-agent: *", "Sitemap: http://a/b", "User-agent: webcrawl", "Disallow: /"], [""], False)
def test_verdicts_delays_and_sitemaps_are_protegos(robots: list[str], urls: list[str], many: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if many:
            patch.setattr("webcrawl.hosts.robots_rules._FEW", 0)
        check_against_protego(robots, urls)


def check_against_protego(robots: list[str], urls: list[str]) -> None:
    text = normalized_robots("\n".join(robots).encode())
    protego, rules = Protego.parse(without_other_lines(text)), RobotsRules(text)
    for agent in AGENTS:
        for path in [*urls, "robots.txt"]:
            url = f"{HOST}/{path}".replace("é", "%C3%A9")
            assert rules.can_fetch(url, agent) == protego.can_fetch(url, agent), url
            # without a line that decides, all is allowed; the folder of an allowed index.html is allowed too
            line = deciding_line(text, url, agent)
            if path != "robots.txt":
                assert rules.can_fetch(url, agent) == (not line or line.lower().startswith("allow")), line
    assert rules.sitemaps == list(protego.sitemaps)
    text = without_other_lines(text, but_after_rules=True)
    protego, rules = Protego.parse(text), RobotsRules(text)
    for agent in AGENTS:
        assert rules.crawl_delay(agent) == protego.crawl_delay(agent)
        assert rules.request_rate(agent) == protego.request_rate(agent)


def without_other_lines(text: str, *, but_after_rules: bool = False) -> str:
    """Returns a robots.txt without the lines that end the user-agent lines of a group for Protego only."""
    kept, has_rules = [], False
    for line in text.split("\n"):
        field = line.lower()
        if field.startswith("user-agent"):
            has_rules = False
        elif field.startswith(("crawl", "request", "disallow foo: ")):
            if not (but_after_rules and has_rules):
                continue
        elif field.startswith(("allow", "disa")):
            has_rules = True
        kept.append(line)
    return "\n".join(kept)


@pytest.mark.parametrize(
    "other", ["Crawl-delay: 1", "Request-rate: 1/3", "Sitemap: http://a/b", "Noindex: /z"]
)
def test_other_lines_between_user_agents_do_not_end_a_group(other: str) -> None:
    text = normalized_robots(f"User-agent: webcrawl\n{other}\nUser-agent: another\nDisallow: /x".encode())
    rules = RobotsRules(text)
    assert [rules.can_fetch(f"{HOST}/x", agent) for agent in AGENTS] == [False, False]
    assert rules.can_fetch(f"{HOST}/x", "third!")


def test_a_delay_is_for_the_agents_since_the_delay_before() -> None:
    lines = (
        "User-agent: webcrawl",
        "Crawl-delay: 1",
        "User-agent: another",
        "Crawl-delay: 9",
        "Disallow: /x",
    )
    rules = RobotsRules(normalized_robots("\n".join(lines).encode()))
    assert [rules.crawl_delay(agent) for agent in AGENTS] == [1.0, 9.0]


def robots_of(patterns: list[str]) -> bytes:
    return ("User-agent: *\n" + "".join(f"Disallow: {pattern}\n" for pattern in patterns)).encode()


@pytest.mark.parametrize("large", [False, True])
def test_large_and_small_files_have_the_same_policy(large: bool) -> None:
    patterns = [f"/{number}*x$" for number in range(LARGE // (15 if large else 21))]
    policy = RobotsPolicy.from_response(200, robots_of([*patterns, "/private"]), url=f"{HOST}/robots.txt")
    assert policy.is_large is large
    assert not policy.allows(f"{HOST}/private/a", "webcrawl")
    assert not policy.allows(f"{HOST}/7/yx", "webcrawl")
    assert policy.allows(f"{HOST}/7/xy", "webcrawl")


def test_the_line_that_decides_is_told() -> None:
    rules = b"User-agent: *\nDisallow: /\nUser-agent: webcrawl\nDisallow: /private\nAllow: /private/*.html$"
    policy = RobotsPolicy.from_response(200, rules, url=f"{HOST}/robots.txt")
    told = {
        path: policy.deciding_line(f"{HOST}{path}", "webcrawl/1.0")
        for path in ("/private/x", "/private/x.html", "/open", "/robots.txt")
    }
    assert told == {
        "/private/x": "Disallow: /private",
        "/private/x.html": "Allow: /private/*.html$",
        "/open": "",
        "/robots.txt": "",
    }
    assert policy.deciding_line(f"{HOST}/open", "other") == "Disallow: /"


def test_a_url_is_compared_with_few_of_many_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protego compares it with all 25,000."""
    compared: list[str] = []
    matches = "webcrawl.hosts.robots_rules._matches"
    monkeypatch.setattr(matches, lambda pattern, path: compared.append(pattern))
    random.seed(1)
    rules = _PatternIndex([(f"/*{random.randrange(10**9)}*x", False) for _ in range(25_000)])
    for number in range(20):
        assert rules.allow(f"/page/{random.randrange(10**9)}/{number}.html")
    assert len(compared) < 20 * 1_000


def test_a_url_that_needs_too_many_comparisons_is_disallowed() -> None:
    patterns = ["/*" + "".join(letters) + "c" for letters in itertools.product("ab", repeat=14)]
    rules = _PatternIndex([(pattern, False) for pattern in patterns])
    assert len(patterns) > MOST_CHECKS
    assert rules.allow("/abcdefgh")
    assert not rules.allow("/" + "".join(random.Random(2).choices("ab", k=300)))


def test_a_prepared_file_sorts_no_rules_again(monkeypatch: pytest.MonkeyPatch) -> None:
    body = robots_of([f"/*{number:012}*" for number in range(3_000)])
    policy = RobotsPolicy.from_response(200, body, url=f"{HOST}/robots.txt").prepare("webcrawl")
    monkeypatch.setattr("webcrawl.hosts.robots_rules._PatternIndex", None)
    assert policy.is_large
    assert not policy.allows(f"{HOST}/a/000000000077/b", "webcrawl")


def test_the_largest_file_is_read() -> None:
    body = robots_of([f"/*{number:012}*" for number in range(30_000)])
    assert len(body) > MAX_BYTES
    policy = RobotsPolicy.from_response(200, body, url=f"{HOST}/robots.txt").prepare("webcrawl")
    assert not policy.allows(f"{HOST}/a/000000000077/b", "webcrawl")
    assert policy.allows(f"{HOST}/a/00000000007/b", "webcrawl")


def test_a_duty_cycle_lets_one_run_and_pauses() -> None:
    running, pauses = 0, []

    async def check() -> None:
        cycle, loop = DutyCycle(0.5), asyncio.get_running_loop()
        ended: float | None = None

        async def work() -> None:
            nonlocal running, ended
            async with cycle.turn():
                running += 1
                assert running == 1
                if ended is not None:
                    pauses.append(loop.time() - ended)
                await asyncio.sleep(0.02)
                running -= 1
                ended = loop.time()

        await asyncio.gather(*(work() for _ in range(4)))

    asyncio.run(check())
    assert len(pauses) == 3 and min(pauses) >= 0.02
