"""Notices about cookies, and what forums tell about the authors of posts."""

from __future__ import annotations

import pytest

from tests.unit.documents.html.test_main_part_rules import PROSE, STORY, found, words

NOTICE = f"<p>We and our partners use cookies to understand how you read. {PROSE}</p><p>Nothing is stored before.</p>"


@pytest.mark.parametrize(
    "answer", ["<button>Accept</button>", "<a href=#>OK</a>", "<span role=button>No</span>"]
)
@pytest.mark.parametrize("place", ["{notice}{story}", "{story}{notice}"])
def test_a_notice_about_cookies_is_left_out(place: str, answer: str) -> None:
    notice = f"<div class=x7><div>{NOTICE}{answer}</div></div>"
    assert found(place.format(story=f"<div>{STORY}</div>", notice=notice)) == words(STORY)


def test_an_article_about_cookies_is_kept() -> None:
    story = f"{STORY}{NOTICE}<p>See <a href=/a>the rules</a> of the harbour.</p>{STORY}"
    assert found(f"<div>{story}</div>") == words(story)


@pytest.mark.parametrize("name", ["postprofile", "user-profile", "userinfo", "post_author", "userstats"])
def test_counters_of_the_author_of_a_post_are_left_out(name: str) -> None:
    stats = f"<dl class={name}><dt>Ada<dd>Posts: 12<dd>Joined: 2020</dl>"
    posts = "".join(f"<div class=post>{stats}<div class=body>{STORY}</div></div>" for _ in range(3))
    assert found(f"<div>{posts}</div>") == words(STORY * 3)
