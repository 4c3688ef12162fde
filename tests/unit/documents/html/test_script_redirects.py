"""Pages that are nothing but a script that goes elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.link_rows import ELEMENTS, unpack_rows
from webcrawl.documents.html.outline import link_rows_of, links_of
from webcrawl.documents.html.script_redirects import refreshes, script_cookies

SITE = "https://site.example"


def links(markup: str) -> list[str]:
    document = Document(markup.encode(), "text/html", "utf-8", f"{SITE}/folder/page")
    return [link.removeprefix(SITE) for link in links_of(document, texts=False, text_links=False).links]


@cases(
    ("script", "expected"),
    [
        ('location.href = "/start"', ["/start"]),
        ("location='start'", ["/folder/start"]),
        ("window.location = 'https://other.example/a?b=1&c=2#d';", ["https://other.example/a?b=1&c=2"]),
        ("window.top.location.href='/start'", ["/start"]),
        ("document.location.assign(`/start`)", ["/start"]),
        ("self.location . replace ( '/start' )", ["/start"]),
        ("setTimeout(\"location.href='/start'\", 500)", ["/start"]),
        ("setTimeout(() => { location = '/start' }, 0)", ["/start"]),
        (r'location.href="\/st\u0061rt\x3Fa\u{62}"', ["/start?ab"]),
        ("if (phone) location = '/m'; else { location = '/d' }", ["/m", "/d"]),
        ("location.href = ' /start '", ["/start"]),
        ("window['location'] = '/start'", ["/start"]),
        ("globalThis.location.href = '/start'", ["/start"]),
        ("location.pathname = '/start'", ["/start"]),
        ("window.open('/start', '_self')", ["/start"]),
        ("open('/start', \"_top\"); window.open('/a', '_blank'); window.open('/b')", ["/start"]),
        ("window.navigate('/start')", ["/start"]),
        ("var url = '/start'; location.href = url;", ["/start"]),
        ("const to = '/start'\nwindow.location.replace(to)", ["/start"]),
        ("location = '/st' + 'art'", ["/start"]),
        ("var a = '/st', b = 'art'; location = '' + a + b", ["/start"]),
        ("location.href = '/start' + window.location.search + location.hash", ["/start"]),
        ("var a = '/a'; if (b) a = '/c'; location = a", []),
        ("var a = '/a' + b; location = a", []),
        ("location = a.b; location = a('/b'); location = '/a'.b", []),
        ("location = cond ? '/a' : '/b'", []),
        ("location = '/a' + path", []),
        ("location.href = base + '/a'", []),
        ("location = `/a/${path}`", []),
        ("location.href == '/a'", []),
        ("if (location.pathname === '/a') {}", []),
        ("location.hash = '/a'", []),
        ("mylocation = '/a'; $location.replace('/b'); map.location = '/c'", []),
        ("// location = '/a'\n/* location = '/b' */", []),
        ("location = 'javascript:void(0)'", []),
        ("location = 'http://['", []),
        ("location = '/folder/page'; location = '#top'; location = ''", []),
        ("var text = 'location'", []),
    ],
)
def test_literal_addresses_are_links(script: str, expected: list[str]) -> None:
    assert links(f"<title>Moved</title><script>{script}</script><p>Redirecting ...") == expected


@pytest.mark.parametrize(
    "kind", ["", "text/javascript", "TEXT/JavaScript; charset=utf-8", "module", "application/x-javascript"]
)
def test_scripts_that_run_count(kind: str) -> None:
    assert links(f"<script type='{kind}'>location='/start'</script>") == ["/start"]


@pytest.mark.parametrize(
    "kind", ["application/json", "text/template", "text/x-handlebars", "speculationrules"]
)
def test_data_in_scripts_leads_nowhere(kind: str) -> None:
    assert links(f"<script type='{kind}'>location='/start'</script>") == []


def test_the_type_of_a_script_is_read_once() -> None:
    assert links(f"<script type='{' ' * 32_000}x'>location='/start'</script>") == []


def test_a_script_keeps_the_query_of_its_page() -> None:
    markup = b"<script>location.replace('/start' + location.search)</script>"
    document = Document(markup, "text/html", "utf-8", f"{SITE}/page?a=1")
    assert links_of(document, texts=False, text_links=False).links == [f"{SITE}/start?a=1"]


def test_other_places_of_scripts_and_a_base_count() -> None:
    assert links("<body onload=\"window.location='/start'\">") == ["/start"]
    assert links("<base href=/other/><script>location='start'</script>") == ["/other/start"]
    assert links("<script src=/lib.js></script><script>location='start'</script>") == ["/folder/start"]


@pytest.mark.parametrize(
    "rest",
    [
        "<p>" + "A page with a text of its own. " * 20,
        "".join(f"<a href={n}>{n}</a>" for n in range(9)),
        "<!--" + "x" * 40_000,
    ],
    ids=["text", "links", "size"],
)
def test_a_page_with_more_than_a_script_goes_nowhere(rest: str) -> None:
    assert "/start" not in links(f"<script>location = '/start'</script>{rest}")


def test_the_link_has_a_row_of_its_own() -> None:
    markup = b"<a href=/a>a</a><script>location = '/start'; location = '/a'</script>"
    rows = unpack_rows(link_rows_of(Document(markup, "text/html", "utf-8", f"{SITE}/"), text_links=True))
    elements = [ELEMENTS[code] for code in rows.elements]
    assert list(zip(rows.targets.decode().split(), elements, strict=True)) == [
        (f"{SITE}/a", "a"),
        (f"{SITE}/start", "script"),
    ]


@given(st.text(st.sampled_from(list("location.=('\"`\\/ax){};\n*ux{41}")), max_size=400))
def test_any_script_is_read_without_error(script: str) -> None:
    links(f"<script>location='{script}</script>")


GOES = "<script>location = '/a'</script>"


@cases("opener", ["<!--", "<script>", "<style media=all>", "<title>", "<TITLE ", "<p class='", "</div", "<"])
@cases("times", [1, 1000])
def test_what_is_not_closed_goes_on_to_the_end_of_the_page(opener: str, times: int) -> None:
    assert refreshes(GOES + opener * times + "word " * 200) == ["/a"]


@cases("markup", ["<!-->", "<!--->", "<!-- -->", "<p>", "<script>1</script>"])
def test_text_after_what_is_closed_makes_a_page_of_its_own(markup: str) -> None:
    assert refreshes(GOES + markup + "word " * 200) == []
    assert refreshes(GOES + markup + "word " * 20) == ["/a"]


OPENERS = (
    *("<!--", "<script>", "<script", "<style>", "<title>", "<", "/*", "<script>/*", "// ", "</script ", " "),
    *("<meta ", "<meta http-equiv=", "<meta http-equiv=refresh ", "<meta http-equiv=refresh content='"),
    *(
        "location",
        "location=",
        "location = '",
        "location.reload (",
        "open(",
        "open(a, '_",
        "window . ",
        "a = ",
        "a+",
    ),
)


@cases("opener", OPENERS)
def test_a_page_of_openers_is_read(opener: str) -> None:
    """The work on each byte must not depend on how many openers come before it; such pages took a second each."""
    page = opener * (32_000 // len(opener))
    for markup in (
        page + "refresh",
        "location = a" + page,
        "<meta http-equiv=" + page + "refresh content=0>",
    ):
        assert all(isinstance(address, str) for address in refreshes(markup))


@cases(
    ("code", "addresses"),
    [
        ("/* location = '/a' */ location = '/b'", ["/b"]),
        ("// location = '/a' */\nlocation = '/b'", ["/b"]),
        ("accept = '*/*'; location = '/b'", ["/b"]),
        ("location = '/b' /* never ends", ["/b"]),
    ],
)
def test_comments_of_scripts_are_left_out(code: str, addresses: list[str]) -> None:
    assert refreshes(f"<script>\n{code}</script>")[:1] == addresses


@cases(
    ("script", "cookies"),
    [
        ("document.cookie = 'a=b; path=/'; location.reload()", ["a=b; path=/"]),
        ("window.document['cookie']=`a=b`;document.cookie=\"c=\\x64\"", ["a=b", "c=d"]),
        ("document.cookie = 'a=' + \"b\" + '; path=/'\n\nlocation.reload()", ["a=b; path=/"]),
        ("if (navigator.cookieEnabled) { document.cookie = 'a=b' }", ["a=b"]),
        ("document.cookie = 'a=' + 'b' /* c */;", ["a=b"]),
        # computed
        ("document.cookie = 'a=' + token + '; path=/';", []),
        ("document.cookie = 'a=' + (1 + 2);", []),
        ("document.cookie = 'a=b'.replace('b', 'c');", []),
        ("document.cookie = 'a=b'\n.concat(c);", []),
        ("document.cookie = 'a=b'\n+ c;", []),
        ("document.cookie = 'a=b' ? c : d;", []),
        ("document.cookie = `a=${b}`;", []),
        ("document.cookie += 'a=b';", []),
        ("document.cookie == 'a=b';", []),
        ("mydocument.cookie = 'a=b'; settings.document.cookie = 'a=b';", []),
        ("var a = 'b'; a += 'c'; document.cookie = 'a=' + a;", []),
        # not for scripts, or no cookie at all
        ("document.cookie = 'a=b; HttpOnly';", []),
        ("document.cookie = 'a'; document.cookie = '=b'; document.cookie = 'a=\\n';", []),
        ("document.cookie = 'a=ü';", []),
        ("// document.cookie = 'a=b';", []),
        ("addEventListener('click', () => { document.cookie = 'a=b'; location.reload() })", []),
    ],
)
def test_literal_cookies_of_scripts_are_read(script: str, cookies: list[str]) -> None:
    assert script_cookies(f"<script>{script}</script>") == cookies


@cases(
    "page",
    [
        "<script type='application/json'>document.cookie = 'a=b'</script>",
        "<!-- <script>document.cookie = 'a=b'</script> -->",
        "<script>document.cookie = 'a=b'</script><button>I am of age</button>",
        "<script>document.cookie = 'a=b'</script>" + "word " * 200,
        "document.cookie = 'a=b'; location.reload()",
    ],
)
def test_a_page_that_does_not_go_on_by_itself_sets_no_cookies(page: str) -> None:
    assert script_cookies(page) == []


@cases("opener", [*OPENERS, "document.cookie = 'a=b' + ", "document.cookie\n", "document . cookie = 'a'\n"])
def test_cookies_on_a_page_of_openers_are_read(opener: str) -> None:
    page = opener * (32_000 // len(opener))
    for markup in (page + "document.cookie='a=b'", "<script>document.cookie = 'a=b'\n" + page):
        assert all(isinstance(cookie, str) for cookie in script_cookies(markup))


@given(st.text(st.sampled_from(list("cookie.=('\"`\\;\n +</script>")), max_size=400))
def test_any_script_is_read_for_cookies_without_error(script: str) -> None:
    script_cookies(f"<script>document.cookie='a=b'{script}</script>")
