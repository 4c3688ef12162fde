"""Archived pages with their resources in them."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from urllib.parse import unquote

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.errors import StoreError
from webcrawl.results.replay import ArchivedFile, Replay, ReplayedResource

HOST = "http://a.example"
PNG = b"\x89PNG\r\n\x1a\n"
FILES = {
    "/s.css": (
        "text/css",
        b"@import 'n.css'; p { background: url(i.png#x) } @font-face { src: url(f.woff2) }",
    ),
    "/n.css": ("text/css", b"@import 's.css'; b { color: red }"),
    "/i.png": ("image/png", PNG),
    "/page": ("text/html", b"<p>within <img src=i.png><iframe src=page></iframe><a href=z>z</a>"),
}


def replay(
    page: str, *, most: int = 1_000_000, files: Mapping[str, tuple[str, bytes]] = FILES
) -> tuple[str, dict[str, str]]:
    """Returns the page with its resources, and the resources by path with their states."""

    def find(url: str) -> ArchivedFile | None:
        if (file := files.get(url.removeprefix(HOST))) is None:
            return None
        kind, body = file
        return ArchivedFile(kind, None, lambda: Document(body, kind, "utf-8", url))

    made = Replay(find, "/f?url=", most=most)
    text = made.page(Document(page.encode(), "text/html", "utf-8", f"{HOST}/")).decode("utf-8-sig")
    return text, {url.removeprefix(HOST): each.state for url, each in made.resources.items()}


def contents(text: str, kind: str) -> str:
    """The first data: URL of a type, decoded."""
    match = re.search(rf"data:{kind}(?:;charset=utf-8)?;base64,([^\"')]*)", text)
    assert match, text
    return b64decode(match[1]).decode("utf-8-sig", "replace")


def test_sheets_are_in_the_page_with_what_they_load_also_if_they_import_each_other() -> None:
    text, states = replay(
        '<link rel="Stylesheet" href=s.css media=print><link rel="alternate stylesheet" href=n.css>'
    )
    assert text.count("<style") == 1 and '<style media="print">' in text and "<link" not in text
    sheet = contents(text, "text/css")
    assert "url(data:image/png;base64," in sheet and "color: red" in contents(sheet, "text/css")
    assert states == {"/s.css": "shown", "/n.css": "shown", "/i.png": "shown", "/f.woff2": "missing"}


@cases(
    "markup",
    [
        "<img src=i.png>",
        "<img src=gone.png data-src=i.png>",
        "<img srcset='big.png 2x, i.png 1x'>",
        "<picture><source srcset='gone.webp, i.png 2x'><img src=gone.png></picture>",
        "<p style='background: url(i.png)'>",
        "<table background=i.png>",
        "<svg><image xlink:href=i.png></image></svg>",
        "<template shadowrootmode=open><img src=i.png></template>",
    ],
)
def test_an_image_is_that_of_its_sources_which_is_archived(markup: str) -> None:
    text, states = replay(markup)
    assert contents(text, "image/png") and "srcset" not in text and states["/i.png"] == "shown"


def test_a_missing_image_is_marked_and_names_its_url() -> None:
    text, states = replay("<img src=gone.png alt=tree><img src=data:image/gif;base64,R0 data-src=gone.png>")
    assert "pattern" in contents(text, r"image/svg\+xml") and f"Not in the archive: {HOST}/gone.png" in text
    assert text.count("data:image/svg+xml") == 1 and "data:image/gif;base64,R0" in text
    assert states == {"/gone.png": "missing"}


def test_frames_are_in_the_page_but_not_in_themselves() -> None:
    text, _ = replay('<iframe src=page title="a>b" onload=x srcdoc="<link href=//e>"></iframe>')
    assert 'title="a&gt;b"' in text and "srcdoc" not in text and "onload" not in text
    inner = contents(text, "text/html")
    assert "within" in inner and contents(inner, "image/png") and "This frame is not" in unquote(inner)
    text, _ = replay("<frameset><frame src=page name=n></frameset>")
    assert '<frame name="n" src="data:text/html' in text


def test_links_lead_to_archived_pages_and_nothing_leads_elsewhere() -> None:
    page = (
        "<base target=_top><a href='b/l?x=1&y#z' target=_blank ping=/p download>1</a><a href=#top>2</a>"
        "<a href='javascript:1'>3</a><a href='/f?url=x'>4</a><area href=//b.example/><svg><a xlink:href=b/q></a></svg>"
        "<form action=/send><button formaction=/other>5</button></form><a href=mailto:a@b.example>6</a>"
    )
    text, states = replay(page)
    targets = re.findall(r'href="([^"]*)"', text)
    assert targets == [
        "/f?url=http%3A%2F%2Fa.example%2Fb%2Fl%3Fx%3D1%26y#z",
        "#top",
        "/f?url=http%3A%2F%2Fa.example%2Ff%3Furl%3Dx",
        "/f?url=http%3A%2F%2Fb.example%2F",
        "/f?url=http%3A%2F%2Fa.example%2Fb%2Fq",
    ]
    assert not re.search("ping|target|download|action|<base|javascript", text) and not states


def test_what_runs_or_connects_by_itself_is_removed_also_if_only_a_browser_sees_it() -> None:
    page = (
        "<script>1</script><meta http-equiv=refresh content='0;url=/r'><link rel=preconnect href=//e.example>"
        "<body onload=x><svg><script>2</script></svg><embed src=e><object data=o>fallback</object>"
        "<style><!-- <link rel=preconnect href=//e.example> --></style><p oncopy=x>shown &lt;link&gt;"
    )
    text, _ = replay(page)
    assert not re.search(r"<(link|script|meta|embed|object)|\son|e\b:", text)
    assert "fallback" in text and "shown &lt;link&gt;" in text


def test_a_page_has_no_more_than_its_limit() -> None:
    many = {f"/{number}.png": ("image/png", bytes(30_000)) for number in range(10)}
    page = "".join(f"<img src={number}.png>" for number in range(10)) + "<img src=0.png><img src=0.png>"
    text, states = replay(page, most=100_000, files=many)
    assert list(states.values()).count("left out") >= 7 and len(text) < 110_000 + 12 * 700
    assert "shown" in states.values()


def test_a_damaged_file_is_missing() -> None:
    def broken() -> Document | None:
        raise StoreError("damaged")

    made = Replay(lambda url: ArchivedFile("image/png", 5, broken), "/f?url=")
    made.page(Document(b"<img src=i.png>", "text/html", "utf-8", f"{HOST}/"))
    assert made.resources == {f"{HOST}/i.png": ReplayedResource(f"{HOST}/i.png", "missing", "image/png")}


def test_marks_and_what_is_read_are_bounded_too() -> None:
    text, _ = replay("<img src=gone.png>" * 1_000, most=10_000)
    assert len(text) < 120_000 and text.count("data:image/svg+xml") < 30
    frames = {f"/{number}": ("text/html", b"<!--" + bytes(5_000) + b"-->") for number in range(20)}
    page = "".join(f"<iframe src={number}></iframe>" for number in range(20))
    _, states = replay(page, most=10_000, files=frames)
    assert list(states.values()).count("shown") < 10
