"""URLs: WHATWG cases, canonical forms compared with w3lib, fingerprints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given, strategies as st
from w3lib.url import canonicalize_url

from tests.cases import cases
from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.urls import canonical
from webcrawl.urls.canonical import Canonicalizer, normalize, registered_domain, resolve, resolve_location

BASE = "http://example.org/foo/bar"

# (as written, base, URL to fetch or None)
CASES: list[tuple[str, str | None, str | None]] = [
    ("http://example.org", None, "http://example.org/"),
    ("HTTP://EXAMPLE.org/A", None, "http://example.org/A"),
    ("  \t http://example.org/a \n", None, "http://example.org/a"),
    ("http://exa\nmple.org/a\tb", None, "http://example.org/ab"),
    ("http://example.org/a b", None, "http://example.org/a%20b"),
    ("http://example.org/a #b", None, "http://example.org/a%20"),
    ("http://example.org:80/", None, "http://example.org/"),
    ("https://example.org:443/", None, "https://example.org/"),
    ("https://example.org:80/", None, "https://example.org:80/"),
    ("http://example.org:/", None, "http://example.org/"),
    ("http://example.org:65536/", None, None),
    ("http://user:secret@example.org/a@b", None, "http://example.org/a@b"),
    ("http://a@b@example.org:8080/", None, "http://example.org:8080/"),
    ("http://@example.org/", None, "http://example.org/"),
    ("http://example.org/?q=a@b#c@d", None, "http://example.org/?q=a@b"),
    ("http://0x7f000001/", None, "http://127.0.0.1/"),
    ("http://2130706433/", None, "http://127.0.0.1/"),
    ("http://0177.1/", None, "http://127.0.0.1/"),
    ("http://256.1.1.1/", None, None),
    ("http://[0:0::1]:8080/", None, "http://[::1]:8080/"),
    ("http://[::FFFF:127.0.0.1]/", None, "http://[::ffff:7f00:1]/"),
    ("http://[::1/", None, None),
    ("http://Bücher.example/ü?ü", None, "http://xn--bcher-kva.example/%C3%BC?%C3%BC"),
    ("http://ｅxample。org/", None, "http://example.org/"),
    ("http://ex%41mple.org/", None, "http://example.org/"),
    ("http://exa mple.org/", None, None),
    ("http://Example.org./a./b", None, "http://example.org/a./b"),
    ("https://u@example.org.:8080", None, "https://example.org:8080/"),
    ("//example.org./a", BASE, "http://example.org/a"),
    ("http://intranet./", None, "http://intranet./"),
    ("http://example.org../", None, "http://example.org../"),
    ("http://", None, None),
    ("http://\ud800/", None, None),
    ("http:///example.org", None, "http://example.org/"),
    ("http:\\\\example.org\\a", None, "http://example.org/a"),
    ("http://example.org\\@evil.example/", None, "http://example.org/@evil.example/"),
    ("http://example.org/a/./b/../c/%2e%2E/d", None, "http://example.org/a/d"),
    ("http://example.org/../../a", None, "http://example.org/a"),
    ("http://example.org/%zz%7e", None, "http://example.org/%zz%7e"),
    ("http://example.org/?a='<b>\"", None, "http://example.org/?a=%27%3Cb%3E%22"),
    ("http://example.org?", None, "http://example.org/?"),
    ("example.org/a", None, None),
    ("", None, None),
    ("", BASE, BASE),
    ("#top", BASE, BASE),
    ("?q", BASE, "http://example.org/foo/bar?q"),
    ("..", BASE, "http://example.org/"),
    ("//other.example", BASE, "http://other.example/"),
    ("http:baz", BASE, "http://example.org/foo/baz"),
    ("https:baz", BASE, "https://baz/"),
    ("\\x", BASE, "http://example.org/x"),
    ("mailto:a@example.org", BASE, None),
    ("java\nscript:alert(1)", BASE, None),
    ("data:text/html,x", BASE, None),
    ("ftp://example.org:21/a", BASE, "ftp://example.org/a"),
    ("ftp://h/a", BASE, "ftp://h/a"),
    ("wais://example.org/", BASE, None),
    ("a", "mailto:a@example.org", None),
    ("a", "no base", None),
]


def standard_cases() -> list[tuple[str, str | None, str | None]]:
    """More cases from web-platform-tests, if they are next to the checkout."""
    file = Path(__file__).resolve().parents[4] / "shared" / "data" / "urls" / "urltestdata.json"
    if not file.exists():
        return []
    cases: list[tuple[str, str | None, str | None]] = []
    for case in json.loads(file.read_text(encoding="utf-8")):
        if isinstance(case, dict):
            href = None
            if case.get("protocol") in ("http:", "https:", "ftp:"):
                href = f"{case['protocol']}//{case['host']}{case['pathname']}{case['search']}"
                # `search` does not tell an empty query ("?") from none
                href += "?" if case["href"].partition("#")[0].endswith("?") else ""
            cases.append((case["input"], case["base"], href))
    return cases


@cases(("written", "base", "expected"), CASES + standard_cases())
def test_url_is_normalized_as_by_whatwg(written: str, base: str | None, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(InvalidURL) as error:
            normalize(written, base)
        assert repr(written) in str(error.value)
    else:
        assert normalize(written, base) == expected


def test_resolve_returns_none_for_other_schemes_and_raises_for_invalid_urls() -> None:
    assert resolve("mailto:a@example.org", BASE) is None
    with pytest.raises(InvalidURL):
        resolve("http://[", BASE)


hosts = st.one_of(
    st.from_regex(r"[a-z][a-z0-9-]{0,8}(\.[a-z][a-z0-9]{1,5}){0,2}", fullmatch=True),
    st.sampled_from(
        ["[::1]", "127.0.0.1", "bücher.example", "EXAMPLE.org.", "a_b.example", "user:pw@x.example"]
    ),
)
paths = st.lists(
    st.one_of(
        st.text("aB0-._~!$'()*+,=:@|[]\"^`{}<> \\é&", max_size=6),
        st.sampled_from(
            ["%41", "%e9", "%2f", "%2F", "%25", "%%341", "%zz", "%", ".", "..", "%2E", "%7c", "%20"]
        ),
        st.sampled_from(
            [";jsessionid=1", ";", ";%6Asessionid=1", "..;jsessionid=1", ";a=%2E", "/", "//", "%3b"]
        ),
    ),
    max_size=8,
).map("".join)
texts = st.text("aB0-._~+ /:;=%é?'[", max_size=6)
escapes = st.sampled_from(["%41", "%e9", "%26", "%3D", "%2B", "%%341", "%20", "%7e"])
fields = st.one_of(
    st.tuples(
        st.one_of(texts, st.just("utm_source"), st.just("gclid"), escapes), st.just("="), texts | escapes
    ),
    st.tuples(texts),
    st.tuples(st.sampled_from("abc"), st.just("="), st.sampled_from("123")),
).map("".join)


@st.composite
def written_urls(draw: st.DrawFn) -> str:
    port = draw(st.sampled_from(["", ":80", ":443", ":8080", ":0"]))
    query = draw(st.none() | st.lists(fields, max_size=5).map("&".join))
    path = draw(paths) + ("" if query is None else f"?{query}")
    scheme, fragment = draw(st.sampled_from(["http", "https", "HTTP"])), draw(st.sampled_from(["", "#f"]))
    return f"{scheme}://{draw(hosts)}{port}/{path}{fragment}"


def normalized(written: str) -> str:
    try:
        return normalize(written)
    except InvalidURL:
        assume(False)
        raise


@given(written_urls())
def test_normalize_is_idempotent(written: str) -> None:
    url = normalized(written)
    assert normalize(url) == url
    assert normalize("", url) == url


@given(st.text() | st.text().map("http://h/".__add__))
def test_normalize_returns_an_ascii_http_url_or_raises(written: str) -> None:
    url = normalized(written)
    assert url.startswith(("http://", "https://"))
    assert url.isascii()
    assert "#" not in url


@given(written_urls())
def test_split_returns_host_and_path(written: str) -> None:
    url = normalized(written)
    host, path = canonical.split(url)
    assert path.startswith("/")
    assert host + path == url
    assert canonical.split(host + "/")[0] == host
    assert canonical.port(host) == canonical.port(url)
    assert canonical.hostname(host) == canonical.hostname(url)


def test_split_rejects_a_relative_url() -> None:
    with pytest.raises(InvalidURL, match="'example.org'"):
        canonical.split("example.org")


@cases(
    ("url", "host", "authority", "hostname", "port"),
    [
        ("https://example.org/a?b", "https://example.org", "example.org", "example.org", 443),
        ("http://example.org/", "http://example.org", "example.org", "example.org", 80),
        ("http://127.0.1.1:8080/", "http://127.0.1.1:8080", "127.0.1.1:8080", "127.0.1.1", 8080),
        ("http://[::1]/", "http://[::1]", "[::1]", "::1", 80),
        ("https://[::1]:8443/x://y", "https://[::1]:8443", "[::1]:8443", "::1", 8443),
    ],
)
def test_parts_of_a_url_and_of_its_host_are_equal(
    url: str, host: str, authority: str, hostname: str, port: int
) -> None:
    assert canonical.split(url)[0] == host
    for either in (url, host):
        assert canonical.authority(either) == authority
        assert canonical.hostname(either) == hostname
        assert canonical.port(either) == port


@cases(
    ("hostname", "domain"),
    [
        ("www.example.org", "example.org"),
        ("example.org", "example.org"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("user.github.io", "user.github.io"),
        ("a.user.github.io", "user.github.io"),
        ("www.city.kawasaki.jp", "city.kawasaki.jp"),
        ("a.b.unlisted", "b.unlisted"),
        ("www.xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a.xn--55qx5d.cn", "a.xn--55qx5d.cn"),
        ("www.example.org.", "example.org"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("a..b", "a..b"),
    ],
)
def test_registered_domain_follows_the_public_suffix_list(hostname: str, domain: str) -> None:
    assert registered_domain(hostname) == domain


PLAIN = Canonicalizer(())


@given(written_urls())
@example("http://h/a?b=+&b=-&b")
@example("http://h/a?b-=1&b=2")
@example("http://h/%7c%5B;%7c")
def test_canonical_form_equals_that_of_w3lib(written: str) -> None:
    """Except for a stray "%" in the path, where w3lib is not idempotent."""
    url = normalized(written)
    assume(not re.search(r"%(?![0-9A-Fa-f]{2})", url.partition("?")[0]))
    assert PLAIN.canonical(url) == canonicalize_url(url)


@cases("escape", [f"%{byte:02X}" for byte in range(256)] + ["%aa", "%2c", "%2f", "%7E"])
def test_every_escape_is_normalized_as_by_w3lib(escape: str) -> None:
    for url in (f"http://h/a{escape}b", f"http://h/?a{escape}=b{escape}", f"http://h/{escape};{escape}"):
        assert PLAIN.canonical(url) == canonicalize_url(url)


@given(written_urls())
@example("http://h/%%341")
@example("http://h/..;%6Asessionid=1/b")
@example("http://h/a;jsessionid=1;")
def test_canonical_form_is_idempotent_and_normalized(written: str) -> None:
    url = normalized(written)
    for canonicalizer in (PLAIN, Canonicalizer()):
        form = canonicalizer.canonical(url)
        assert canonicalizer.canonical(form) == form
        assert normalize(form) == form


@given(written_urls(), st.randoms(use_true_random=False))
def test_fingerprint_ignores_the_order_of_parameters(written: str, random: Random) -> None:
    url = normalized(written)
    path, mark, query = url.partition("?")
    shuffled = query.split("&")
    random.shuffle(shuffled)
    other = path + mark + "&".join(shuffled)
    assert Canonicalizer().fingerprint(other) == Canonicalizer().fingerprint(url)


@cases(
    ("url", "form"),
    [
        ("http://h/a?b=2&a=1", "http://h/a?a=1&b=2"),
        ("http://h/a?", "http://h/a"),
        ("http://h/a?b&a=", "http://h/a?a=&b="),
        ("http://h/a?q=a%20b", "http://h/a?q=a+b"),
        ("http://h/%c3%bc%41", "http://h/%C3%BCA"),
        ("http://h/a?utm_source=x&id=1&UTM_Medium=y", "http://h/a?id=1"),
        ("http://h/a?utm%5Fsource=x", "http://h/a"),
        ("http://h/a?gclid", "http://h/a"),
        ("http://h/a?gclids=1&xgclid=1", "http://h/a?gclids=1&xgclid=1"),
        ("http://h/a?phpsessid=0&b=1%2C", "http://h/a?b=1%2C"),
        ("http://h/a;jsessionid=AB?x=1", "http://h/a?x=1"),
        ("http://h/a;JSESSIONID=AB/b;v=1;jsessionid=C", "http://h/a/b;v=1"),
        ("http://h/a;jsessionids=1", "http://h/a;jsessionids=1"),
        ("http://h/%%341", "http://h/%2541"),
        # of a page that is not in UTF-8
        ("http://h/%C4%E3?q=%C4%E3%95%5C&a=%26%23233%3B", "http://h/%C4%E3?a=%26%23233%3B&q=%C4%E3%95%5C"),
    ],
)
def test_url_has_its_canonical_form(url: str, form: str) -> None:
    assert Canonicalizer().canonical(url) == form


@cases(
    ("location", "target"),
    [
        ("/ü?ü".encode(), "http://example.org/%C3%BC?%C3%BC"),
        (b"/\xc4\xe3?q=\xc4\xe3", "http://example.org/%C4%E3?q=%C4%E3"),
        (b"/\xe9 x?q=\xe9#\xe9", "http://example.org/%E9%20x?q=%E9"),
        (b"x?a=b|c", "http://example.org/foo/x?a=b%7Cc"),
        (b"//h/%C4?%E3", "http://h/%C4?%E3"),
        (rb"\start", "http://example.org/start"),
        (rb"\\h\x", "http://h/x"),
        (rb"a\..\b?c\d#\e", r"http://example.org/foo/b?c%5Cd"),
        (rb"http:\\h\x", "http://h/x"),
        (rb"mailto:\x", None),
        (b"mailto:x", None),
    ],
)
def test_bytes_of_a_location_are_escaped_as_they_are(location: bytes, target: str | None) -> None:
    assert resolve_location(location, BASE) == target


@pytest.mark.parametrize("location", [b"http://[", b"http://h:x/", b"http://\xff\xfe/"])
def test_a_location_may_be_no_url(location: bytes) -> None:
    with pytest.raises(InvalidURL):
        resolve_location(location, BASE)


def test_ignored_parameters_can_be_configured() -> None:
    canonicalizer = Canonicalizer(frozenset({"a[b]", "s*"}))
    assert (
        canonicalizer.canonical("http://h/?a%5Bb%5D=1&sid=2&utm_source=3&t=4") == "http://h/?t=4&utm_source=3"
    )
    assert Canonicalizer(("*",)).canonical("http://h/?a=1&b=%20") == "http://h/"


@pytest.mark.parametrize("wrong", ["utm_*", ("",), ("a*b",)])
def test_invalid_ignored_parameters_are_rejected(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="ignored parameter"):
        Canonicalizer(wrong)


def test_fingerprints_are_signed_64_bit_and_stable() -> None:
    """If these values changed, running crawls would fetch seen URLs again."""
    canonicalizer = Canonicalizer()
    found = {n: canonicalizer.fingerprint(f"http://example.org/{n}") for n in range(1000)}
    assert len(set(found.values())) == 1000
    assert min(found.values()) < 0 < max(found.values())
    assert all(-(1 << 63) <= value < 1 << 63 for value in found.values())
    assert (found[0], found[1]) == (-1674452591778856339, 4328400075054213387)


def test_request_fingerprint_depends_on_method_and_body() -> None:
    canonicalizer = Canonicalizer()
    url = "http://example.org/?b=1&a=2"
    same = canonicalizer.fingerprint("http://example.org/?a=2&b=1")
    assert canonicalizer.request_fingerprint("GET", url, b"") == same
    assert canonicalizer.request_fingerprint("get", url) == same
    others = [("POST", b""), ("POST", b"a"), ("POST", b"b"), ("HEAD", b""), ("GET", b"a")]
    assert (
        len({canonicalizer.request_fingerprint(method, url, body) for method, body in others} | {same}) == 6
    )
