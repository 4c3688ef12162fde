"""File names of a mirror, and pages with rewritten URLs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.errors import InvalidURL
from webcrawl.results.mirror import local_path, paths
from webcrawl.results.rewriting import loaded, rewritten_page, rewritten_sheet, rewritten_style, source_set
from webcrawl.urls.canonical import Base, normalize

URL = "https://a.example/docs/page"
HTML = "text/html"


@cases(
    ("path", "mime_type", "file"),
    [
        ("/", HTML, "index.html"),
        ("/docs/", HTML, "docs/index.html"),
        ("/docs", HTML, "docs.html"),
        ("/a.htm", HTML, "a.htm"),
        ("/a.php", HTML, "a.php.html"),
        ("/list?page=2&x=a/b", HTML, "list@page=2&x=a_b.html"),
        ("/?q", HTML, "index@q.html"),
        ("/s.css?v=1", "text/css", "s.css@v=1.css"),
        ("/img.png", "image/png", "img.png"),
        ("/%E4%BD%A0/%2e%2e%2fx", "image/png", "你/_x"),
        ("/a%20b:c*d", "image/png", "a_b_c_d"),
        ("/con/nul.txt", "text/plain", "_con/_nul.txt"),
    ],
)
def test_file_name_follows_from_the_url(path: str, mime_type: str, file: str) -> None:
    assert local_path(f"https://a.example:8080{path}", mime_type) == f"a.example_8080/{file}"


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), max_size=6),
    st.sampled_from(["", HTML]),
)
def test_file_names_are_safe_bounded_and_unique(ends: list[str], mime_type: str) -> None:
    urls = {}
    for end in ends:
        try:
            urls[normalize(f"https://a.example/{end}")] = mime_type
        except InvalidURL:
            continue
    found = paths(urls.items())
    assert set(found) == set(urls)
    assert len({path.lower() for path in found.values()}) == len(urls)
    for path in found.values():
        parts = PurePosixPath(path).parts
        assert parts[0] == "a.example" and "/".join(parts) == path
        assert not {"..", "."} & set(parts)
        assert all(len(part.encode()) <= 160 and part == part.strip(". ") for part in parts)
        assert not set('\\:*?"<>|\0%#') & set(path)
        # no file has the path of another file's folder
        assert not any(other.lower().startswith(f"{path.lower()}/") for other in found.values())


def test_colliding_file_names_are_made_unique() -> None:
    urls = [f"https://a.example/{path}" for path in ("a", "A", "a/b", "a?x", "a@x")]
    found = paths((url, "") for url in urls)
    assert len(set(map(str.lower, found.values()))) == 5
    assert found["https://a.example/a/b"] == "a.example/a/b"
    assert found["https://a.example/a"].startswith("a.example/a~")


def known(url: str) -> str | None:
    return {"https://a.example/x": "../x.html", "https://cdn.example/i.png": "../../cdn/i.png"}.get(url)


def test_what_a_browser_would_compare_with_the_site_is_removed() -> None:
    page = """<base href=/docs/ target=_blank><meta http-equiv=" content-security-POLICY " content="default-src 'none'">
    <meta http-equiv=X-UA-Compatible content=IE=edge><link rel=stylesheet href=x crossorigin=use-credentials>
    <iframe src=x csp="script-src 'none'"></iframe><template shadowrootmode=open><img src=x crossorigin></template>"""
    text = rewritten_page(Document(page.encode(), HTML, "utf-8", URL), known).decode("utf-8-sig")
    assert not any(word in text.lower() for word in ("crossorigin", "csp", "policy", '/docs/" target'))
    assert '<base target="_blank">' in text and "X-UA-Compatible" in text


def test_links_point_to_mirrored_files_or_else_to_the_site() -> None:
    page = """<html><head><meta charset=latin1><base href=/docs/><link rel=stylesheet href=../x integrity=sha256-1>
    <meta http-equiv=refresh content="5; url=/x#z"><style>b{background:url("//cdn.example/i.png")}</style></head><body>
    <a href="../x#part">1</a><a href=other?a=1&amp;b=2>2</a><a href=#here>3</a><a href=mailto:a@b>4</a>
    <img src=//cdn.example/i.png srcset="//cdn.example/i.png 1x, /no.png 2x"><p style="background:url(/x)">Grüße</p>
    <script>if (1 < 2 && "</a>") {}</script><a href="javascript:x()">5</a></body></html>"""
    written = rewritten_page(Document(page.encode(), HTML, "utf-8", URL), known)
    text = written.decode("utf-8-sig")
    assert written.startswith(b"\xef\xbb\xbf")
    for expected in (
        '<link rel="stylesheet" href="../x.html">',
        'content="5; url=../x.html#z"',
        'b{background:url("../../cdn/i.png")}',
        '<a href="../x.html#part">1</a>',
        '<a href="https://a.example/docs/other?a=1&amp;b=2">2</a>',
        '<a href="mailto:a@b">4</a>',
        '<img src="../../cdn/i.png" srcset="../../cdn/i.png 1x, https://a.example/no.png 2x">',
        'style="background:url(../x.html)">Grüße',
        'if (1 < 2 && "</a>") {}',
        '<a href="javascript:x()">5</a>',
    ):
        assert expected in text
    assert "<base" not in text and "integrity" not in text


def test_loaded_lists_resources_but_not_links() -> None:
    page = """<base href=/docs/><a href=a>a</a><link rel=stylesheet href=s.css><link rel=canonical href=c>
    <img src=i srcset="j 2x">
    <style>@import "k.css"; b{background:url(l.png)}</style><p style="background:url('m.png')">p</p>
    <script src=n></script>"""
    found = loaded(Document(page.encode(), HTML, "utf-8", URL))
    names = [url.removeprefix("https://a.example/docs/") for url in found]
    assert sorted(names) == ["i", "j", "k.css", "l.png", "m.png", "n", "s.css"]
    style = Document(
        b"@import url(a.css);b{c:url( 'd.png' )} e{f:url(data:x)} g{h:url()}", "text/css", None, URL
    )
    assert loaded(style) == ["https://a.example/docs/a.css", "https://a.example/docs/d.png"]
    assert loaded(Document(b"<img src=x>", "text/plain", None, URL)) == []


def test_style_sheets_and_srcset_keep_unknown_urls() -> None:
    style = "a{b:url(/x)} c{d:url( \"/no\" )} @import '/x'; e{f:url(data:image/png;base64,x)}"
    assert rewritten_style(style, Base(URL), known) == style.replace("/x)", "../x.html)", 1).replace(
        "'/x'", "'../x.html'"
    )
    assert source_set("/x 100w,/no 2x , https://cdn.example/i.png", Base(URL), known) == (
        "../x.html 100w, /no 2x, ../../cdn/i.png"
    )


def test_rewritten_css_url_is_escaped() -> None:
    files = {"https://a.example/docs/u": "../u (1).png", "https://a.example/x%28%29": "../x().png"}
    style = """a{b:url(u)} c{d:URL( "u" )} @import "u"; e{f:url('/x%28%29')} g{h:url(/x%28%29)}"""
    written = rewritten_style(style, Base(URL), files.get)
    u, x = "../u%20%281%29.png", "../x%28%29.png"
    assert (
        written == f"""a{{b:url({u})}} c{{d:URL( "{u}" )}} @import "{u}"; e{{f:url('{x}')}} g{{h:url({x})}}"""
    )


@cases(
    ("style", "urls"),
    [
        ('a{b:url("a(1).png")}', ["a(1).png"]),
        ("a{b:url( 'a(1).png' )}", ["a(1).png"]),
        (r"a{b:url(a\(1\).png)}", ["a(1).png"]),
        (
            r'a{b:url("a\28 1\000029.png\
")}',
            ["a(1).png"],
        ),
        (
            "@import \"x.css\" screen; @import\turl(y.css) layer(z); @IMPORT'w.css';",
            ["x.css", "y.css", "w.css"],
        ),
        ("""/* url(no) " @import 'no' */ a{b:url(y)} /* url(no)""", ["y"]),
        ("""a{content:"url(no) /*"} b{c:url(y)} d{content:'\\' url(no)'}""", ["y"]),
        ('@namespace svg url(http://www.w3.org/2000/svg); a{b:url("y")}', ["y"]),
        ('a{content:"not ended\n} b{c:url(y)}', ["y"]),
        ('a{b:url("y)} c{d:url(no) url(z', []),
        ("""a{b:image-set("y" type("no") 1x, 'z' 2x, url(w) 3x)} c{d:"no"}""", ["y", "z", "w"]),
        ('a{b:-WEBKIT-image-set(url("y") 1x)} c{d:url(z)}', ["y", "z"]),
        ('a{b:image-set(linear-gradient(red, rgb(0 0 0)), "y" 2x, /* "no" */ "")} c{d:url(z)}', ["y", "z"]),
        ('a{b:image-set("y" 1x', ["y"]),
    ],
)
def test_css_urls_are_found_as_in_a_browser(style: str, urls: list[str]) -> None:
    found = loaded(Document(style.encode(), "text/css", "utf-8", URL))
    assert [url.removeprefix("https://a.example/docs/") for url in found] == urls
    assert rewritten_style(style, Base(URL), lambda url: None) == style
    written = rewritten_style(style, Base(URL), lambda url: "new")
    assert written.count("new") == len(urls)
    assert "(1)" not in written and "\\(1" not in written


@cases(
    "part",
    [
        "/*",
        "url(",
        'url("',
        "url(   ",
        "url(\\a",
        "url('\\",
        '"',
        '@import "',
        "@namespace ",
        "@import  ",
        "image-set(",
        'image-set("',
        "image-set(type()",
        "image-set(/*",
        "image-set(a url(",
        ",",
        "a,",
        "a ,",
        ", a",
    ],
)
def test_css_and_srcset_are_rewritten_in_linear_time(part: str) -> None:
    """A quadratic scan of these 100 KB would take three minutes."""
    text = part * (100_000 // len(part)) + " " * 10_000
    assert rewritten_style(text, Base(URL), lambda url: None) == text
    source_set(f"x{text}", Base(URL), lambda url: None)


def test_srcset_is_split_as_in_the_standard() -> None:
    value = " ,/x 1x,/x,  data:image/png;base64,AAA= 2x ,, c(1) calc(3x) , /x"
    assert source_set(value, Base(URL), known) == (
        "../x.html 1x, ../x.html, data:image/png;base64,AAA= 2x, c(1) calc(3x), ../x.html"
    )
    assert source_set(" , ", Base(URL), known) == ""


def test_preloads_media_and_svg_images_are_resources() -> None:
    page = """<base target=_blank href=/docs/><link rel=preload as=image imagesrcset="a 1x, b 2x">
    <video src=c poster=d></video><svg><image href=e /><image xlink:href=f /></svg><img src=""><img src="#">
    <p style='background:url("g(1)")'>p</p>"""
    document = Document(page.encode(), HTML, "utf-8", URL)
    found = loaded(document)
    assert sorted(url.removeprefix("https://a.example/docs/") for url in found) == [*"abcdef", "g(1)"]
    written = rewritten_page(document, lambda url: f"new-{url[23:]}").decode("utf-8-sig")
    for expected in (
        'imagesrcset="new-a 1x, new-b 2x"',
        'poster="new-d"',
        '<image href="new-e">',
        '<image xlink:href="new-f">',
        'style="background:url(&quot;new-g%281%29&quot;)"',
        # the target of <base> is kept
        '<base target="_blank">',
    ):
        assert expected in written


def test_urls_missing_from_the_mirror_point_to_the_site() -> None:
    page = """<meta http-equiv=Content-Type content="text/html; charset=latin1"><meta charset=latin1>
    <link rel=search href=/o.xml><body background=/b.png><form action=/x><button formaction="go"></form>
    <svg><use href="/s.svg#a"/></svg><table><td background=/t.png></table><q cite=/x>q</q>
    <template><img src=/in.png srcset="/x 2x"><img src="/{{name}}.png"><a href=y>y</a>
    <template><i style="c:url(/x)"></template></template><a href="y#a,b&amp;c=%20:~:text=d">y</a>"""
    document = Document(page.encode(), HTML, "utf-8", URL)
    site = "https://a.example"
    found = loaded(document, templates=True)
    assert sorted(found) == [f"{site}/{name}" for name in ("b.png", "in.png", "s.svg", "t.png", "x")]
    assert sorted(loaded(document)) == [f"{site}/{name}" for name in ("b.png", "s.svg", "t.png")]
    written = rewritten_page(document, known).decode("utf-8-sig")
    for expected in (
        'content="text/html; charset=utf-8"',
        '<meta charset="utf-8">',
        f'<link rel="search" href="{site}/o.xml">',
        f'<body background="{site}/b.png">',
        # responses to forms are not in the mirror
        f'<form action="{site}/x"><button formaction="{site}/docs/go">',
        f'<use href="{site}/s.svg#a">',
        f'<td background="{site}/t.png">',
        f'<q cite="{site}/x">',
        f'<img src="{site}/in.png" srcset="../x.html 2x"><img src="/{{{{name}}}}.png">',
        f'<a href="{site}/docs/y">y</a>',
        '<i style="c:url(../x.html)">',
        f'<a href="{site}/docs/y#a,b&amp;c=%20:~:text=d">y</a>',
    ):
        assert expected in written


LAZY = """<img src=data:x data-src=a data-srcset="b 1x, c 2x"><img data-original=d><img data-lazy-src=e>
<iframe data-src=f></iframe><picture><source data-srcset=g></picture><video data-poster=h data-src=i></video>
<i style='background:image-set("j" 1x)'></i><img data-src="{k}" data-srcset="l_{w} 1x"><p data-src=m></p>
<iframe src=about:blank data-lazy-src=n></iframe><div data-bg="/docs/o" data-background="url('./p')"></div>
<b data-background-image="./q" data-bg=dark></b>
<b data-background="#fff" data-bg="{r}.png" data-background-image=1.5></b>"""
SHADOW = """<x-a><template shadowrootmode=open><link rel=stylesheet href=a integrity=sha256-1>
<style>b{background:url(b)}</style><img src=c srcset="d 2x"><slot></slot><i style="background:url({e})"></i>
<x-b><template shadowrootmode=closed><img src=f></template></x-b></template><img src=g></x-a>"""


@pytest.mark.parametrize(
    ("markup", "names"),
    [
        pytest.param(LAZY, "abcdefghijnopq", id="lazy"),
        pytest.param(SHADOW, ["{e}", *"abcdfg"], id="shadow roots"),
    ],
)
def test_resources_of_lazy_images_and_shadow_roots(markup: str, names: Sequence[str]) -> None:
    document = Document(markup.encode(), HTML, "utf-8", URL)
    site = URL.removesuffix("page")
    expected = {f"{site}{name}" for name in names}
    assert {url.replace("%7B", "{").replace("%7D", "}") for url in loaded(document)} == expected
    copy = rewritten_page(document, lambda url: f"./new-{url[-1]}").decode("utf-8-sig")
    # the copy has the elements of the page, its templates too
    assert copy.count("<template") == markup.count("<template")
    rewritten = Document(copy.encode(), HTML, "utf-8", URL)
    assert len(loaded(rewritten)) == len(names)
    assert all(url.startswith(f"{site}new-") for url in loaded(rewritten))
    assert "integrity" not in copy


def test_rewritten_style_sheet_declares_utf_8() -> None:
    style = '@charset "iso-8859-1";\na:before{content:"é"} b{c:url(/x)} d{e:url(f)}'
    document = Document(style.encode("latin-1"), "text/css", None, URL)
    written = style.replace("iso-8859-1", "utf-8").replace("/x", "../x.html")
    written = written.replace("url(f)", "url(https://a.example/docs/f)")
    assert rewritten_sheet(document, known) == written.encode()
