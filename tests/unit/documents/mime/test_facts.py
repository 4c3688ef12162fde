"""Facts sent between processes are bounded and valid JSON, whatever a reader returns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

from hypothesis import given, settings, strategies as st

from webcrawl.documents.mime.facts import (
    MAX_DETAILS,
    Facts,
    Link,
    absolute,
    collapsed,
    join,
    language,
    pack,
    trimmed,
    unpack,
)

TIMES = st.datetimes(timezones=st.one_of(st.none(), st.timezones()))
TEXTS = st.builds(str.__mul__, st.text(max_size=30), st.sampled_from([1, 1, 100]))
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        TEXTS,
        st.binary(),
        st.dates(),
        TIMES,
        st.just("\ud800"),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.none()), inner),
        st.tuples(inner, inner),
    ),
    max_leaves=10,
)


@settings(max_examples=30)
@given(st.dictionaries(st.text(), VALUES))
def test_trimmed_details_are_json_of_a_bounded_size(details: dict[str, object]) -> None:
    made = trimmed(details)
    text = json.dumps(made, allow_nan=False, ensure_ascii=False)
    assert "\0" not in text and text.encode() and len(text.encode()) <= MAX_DETAILS
    assert trimmed(made) == made


@settings(max_examples=30)
@given(
    title=st.one_of(st.none(), st.text()),
    text=st.one_of(st.none(), st.text()),
    published=st.one_of(st.none(), TIMES),
    links=st.lists(st.tuples(st.sampled_from(["http://a/", "ftp://b/"]), st.one_of(st.none(), TIMES))),
    details=st.dictionaries(st.text(), VALUES),
)
def test_unpacked_facts_equal_the_trimmed_ones(
    title: str | None,
    text: str | None,
    published: datetime | None,
    links: list[tuple[str, datetime | None]],
    details: dict[str, object],
) -> None:
    facts = Facts(title=title, text=text, published=published, links=[Link(*link) for link in links])
    facts.details = details  # type: ignore[assignment]
    arrived = unpack(pack(facts))
    assert arrived.details == trimmed(details)
    assert [link.url for link in arrived.links] == [url for url, _ in links]
    assert pack(arrived) == pack(unpack(pack(arrived)))
    if published is not None and published.tzinfo is UTC:
        assert arrived.published == published


def test_unrepresentable_times_become_none() -> None:
    from datetime import timedelta, timezone

    far = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    assert unpack(pack(Facts(published=far))).published is None
    assert unpack(pack(Facts(published=datetime.max.replace(tzinfo=UTC)))).published is not None
    assert trimmed({"on": date(2026, 11, 21)}) == {"on": "2026-11-21"}


def test_addresses_are_resolved_and_unique() -> None:
    base = "http://site.example/folder/file"
    addresses = [
        "a",
        " a ",
        "/b",
        "ftp://c.example/",
        "mailto:d",
        "http://[",
        "",
        "javascript:x",
        "//e.example",
    ]
    assert absolute(addresses, base) == [
        "http://site.example/folder/a",
        "http://site.example/b",
        "ftp://c.example/",
        base,
        "http://e.example/",
    ]
    assert join(base, "x" * 10_000) is None


def test_text_is_collapsed_and_language_tags_are_shortened() -> None:
    assert collapsed("  a \n b\0 ", 10) == "a b\ufffd"
    assert collapsed("\ud800", 10) == "?"
    assert (collapsed("   ", 10), collapsed(None, 10), collapsed("abc" * 10, 5)) == (None, None, "abcab")
    tags = {"en-GB": "en", "DE_at": "de", "x": None, "": None, "english": None, "日本": None}
    assert {tag: language(tag) for tag in tags} == tags
    assert language(None) is None
