"""Notices about cookies, and what forums tell about the authors of posts."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.unit.documents.html.test_main_part_rules import PROSE, STORY, found, words

NOTICE = f"<p>We and our partners use cookies to understand how you read. {PROSE}</p><p>Nothing is stored before.</p>"


@cases(
    "answer",
    [
        "<button>Accept</button>",
        "<a href=#>OK</a>",
        "<span role=button>No</span>",
        "<input value='Got it, ok'>",
    ],
)
@cases("page", ["{notice}{story}", "{story}{notice}"])
@cases("around", ["{}", "<div id=root>{}</div>", "<div id=root><div>{}</div></div>"])
def test_a_notice_about_cookies_is_left_out(around: str, page: str, answer: str) -> None:
    notice = f"<div class=x7><div>{NOTICE}{answer}</div></div>"
    assert found(around.format(page.format(story=f"<div>{STORY}</div>", notice=notice))) == words(STORY)


@cases(
    ("text", "answer"),
    [
        ("Wir verwenden Cookies, um Ihnen die Seite so gut wie möglich zu zeigen.", "Alle akzeptieren"),
        ("Nous utilisons des cookies pour mesurer combien de lecteurs viennent ici.", "Tout refuser"),
        ("Usamos cookies para saber cuántos lectores tiene cada una de las páginas.", "Aceptar"),
        ("Utilizziamo i cookie per capire quali pagine leggono i nostri visitatori.", "Rifiuta"),
        ("Vi använder kakor för att webbplatsen ska fungera så bra som möjligt här.", "Godkänn alla"),
        ("Ta strona używa ciasteczek, aby działać lepiej dla wszystkich czytelników.", "Zgadzam się"),
        ("Käytämme evästeitä, jotta sivusto toimisi mahdollisimman hyvin kaikille.", "Hyväksy"),
        ("Мы используем файлы куки, чтобы понять, как читатели находят этот сайт.", "Принять"),
        (
            "当サイトでは、利用者の皆さまにより良いサービスを提供するために、クッキーを使用しています。詳しくはこちらをご覧ください。",
            "同意する",
        ),
    ],
)
def test_a_notice_about_cookies_is_left_out_in_many_languages(text: str, answer: str) -> None:
    notice = f"<section><p>{text}</p><button type=button>{answer}</button></section>"
    assert found(f"<div id=app><div>{STORY}</div>{notice}</div>") == words(STORY)


@pytest.mark.parametrize("role", ["dialog", "alertdialog"])
def test_a_dialog_about_cookies_is_left_out(role: str) -> None:
    notice = f"<div><div><div role={role}>{NOTICE}<button>Accept</button></div></div></div>"
    assert found(f"<div><div><div>{STORY}</div>{notice}</div></div>") == words(STORY)


@cases(
    "part",
    [
        f"<p>{PROSE}</p>{NOTICE}<p>See <a href=/a>the rules</a> of the harbour.</p>",
        "<div class=section><h2>Cookies</h2><p>The class keeps the cookies of a session in a jar of its own.</p>"
        "<pre>jar = CookieJar()</pre><button>Copy</button></div>",
        "<div><p>The header Set-Cookie has the name and the value of the cookie.</p><a href=/rfc>RFC 6265</a></div>",
    ],
)
@cases("around", ["{}", "<div>{}</div>", "<div><div>{}</div></div>"])
def test_a_text_about_cookies_is_kept(around: str, part: str) -> None:
    story = f"{STORY}{part}{STORY}"
    assert found(around.format(f"<div>{story}</div>")) == words(story).replace("Copy ", "")


def test_a_short_page_with_a_notice_deep_in_it_is_kept() -> None:
    notice = "<div><div><div><p>We use cookies, and tell nobody about it.</p><button>Accept</button></div></div></div>"
    page = f"<div><div><h1>Ferry gone</h1><p>{PROSE} {PROSE}</p>{notice}</div></div>"
    assert f"{PROSE} {PROSE}" in found(page)


@cases("name", ["postprofile", "user-profile", "userinfo", "post_author", "userstats"])
def test_counters_of_the_author_of_a_post_are_left_out(name: str) -> None:
    stats = f"<dl class={name}><dt>Ada<dd>Posts: 12<dd>Joined: 2020</dl>"
    posts = "".join(f"<div class=post>{stats}<div class=body>{STORY}</div></div>" for _ in range(3))
    assert found(f"<div>{posts}</div>") == words(STORY * 3)


COUNTERS = [
    "<div>Posts: 12<br>Joined: 2020</div>",
    "<dl><dt>Messages<dd>1,204<dt>Location<dd>Kiel<dt>Likes<dd>7</dl>",
    "<ul><li>Join Date: Jan 2006<li>Location: Kiel<li>Posts: 1,204</ul>",
    "<div><div>Mitglied seit</div><div>28. Juni 2014</div><div>Beiträge</div><div>2.206</div></div>",
    "<div><span>Сообщения: 12</span><br><span>Регистрация: 2020</span></div>",
    "<section><p>Inscrit le : 3 mai</p><p>Messages : 40</p></section>",
]
POSTS = [
    "<div class=x1><div class=x2>{stats}</div><div class=x3>{story}</div></div>",
    "<article>{stats}{story}</article>",
    "<table class=x1><tr><td class=x2>{stats}</td><td>{story}</td></tr></table>",
    "<div class=x1><div><div class=x4>{stats}</div></div><div>{story}</div></div>",
]


@cases("stats", COUNTERS)
@cases("post", POSTS)
def test_counters_are_left_out_if_posts_repeat_them(post: str, stats: str) -> None:
    posts = "<hr>".join(post.format(stats=stats, story=STORY) for _ in range(3))
    assert found(f"<div>{posts}</div>") == words(STORY * 3)


@pytest.mark.parametrize("stats", [COUNTERS[1], COUNTERS[2], COUNTERS[5]])  # the others look like dates
def test_counters_of_a_single_text_are_kept(stats: str) -> None:
    story = f"{STORY}{stats}{STORY}"
    assert found(f"<div><div>{story}</div></div>") == words(story)


@pytest.mark.parametrize(
    "facts",
    [
        "<dl><dt>Length:<dd>12 m<dt>Beam:<dd>4 m<dt>Built:<dd>1931</dl>",
        "<div>Weight: 20 kg<br>Posts: 4</div>",
    ],
)
def test_repeated_facts_of_other_kinds_are_kept(facts: str) -> None:
    parts = "".join(f"<div class=ship>{facts}{STORY}</div>" for _ in range(3))
    assert found(f"<div>{parts}</div>") == words(parts)
