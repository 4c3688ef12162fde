"""What classes, ids and roles say of an element."""

from __future__ import annotations

import time

import pytest

from tests.cases import cases
from webcrawl.documents.html.names import (
    AUTHOR,
    BESIDE,
    COMMENTS,
    INVISIBLE,
    NOTE,
    TEXT,
    kind_of,
    names_main_part,
)


@cases(
    ("name", "kind"),
    [
        ("content", TEXT),
        ("x7f3a", TEXT),
        ("sidebar", BESIDE),
        ("page-sidebar left-8", BESIDE),
        ("has-sidebar", TEXT),
        ("one-sidebar", TEXT),
        ("sidebar-content", BESIDE),
        ("relatedPosts", BESIDE),
        ("related_posts", BESIDE),
        ("social-share", BESIDE),
        ("article-share", BESIDE),
        ("page-nav-content", TEXT),
        ("widget_text", BESIDE),
        ("builder-widget", TEXT),
        ("widget post", TEXT),
        ("comments-area", COMMENTS),
        ("post-author", AUTHOR),
        ("entry-meta", NOTE),
        ("tag-list", NOTE),
        ("post hentry tag-news", TEXT),
        ("a b c d e f sidebar", TEXT),
        ("SideBar", TEXT),
        ("-_- __", TEXT),
        ("sidebar " * 100, TEXT),
    ],
)
@cases("attribute", ["class", "id"])
def test_kind_of_names(attribute: str, name: str, kind: int) -> None:
    assert kind_of({attribute: name}) == kind


@cases(
    ("attributes", "kind"),
    [
        ({}, TEXT),
        ({"class": None, "id": ""}, TEXT),
        ({"hidden": None, "class": "content"}, INVISIBLE),
        ({"role": "navigation"}, BESIDE),
        ({"style": "color: red; display: none"}, BESIDE),
        ({"style": "color: red"}, TEXT),
        ({"class": "content", "id": "comments"}, COMMENTS),
    ],
)
def test_kind_of_other_attributes(attributes: dict[str, str | None], kind: int) -> None:
    assert kind_of(attributes) == kind


@cases("name", ["entry-content", "post", "articleBody", "story__body", "x article-text y"])
def test_names_of_main_parts(name: str) -> None:
    assert names_main_part({"class": name}) and names_main_part({"id": name})


@cases("name", ["", "content", "posts", "post-list", "article-list", "entry " * 200])
def test_other_names_are_not_those_of_main_parts(name: str) -> None:
    assert not names_main_part({"class": name})


@pytest.mark.parametrize("name", ["-_" * 10**6, "a " * 10**6, "post-" * 99, "content_" * 60, "A" * 499])
def test_long_names_take_bounded_time(name: str) -> None:
    begun = time.process_time()
    kind_of({"class": name, "style": name})
    names_main_part({"class": name})
    assert time.process_time() - begun < 1
