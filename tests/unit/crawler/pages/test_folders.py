"""The folders above a URL."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.crawler.pages.outlinks import MOST_FOLDERS, folders_above, unknown_folders
from webcrawl.frontier import RecentCache
from webcrawl.urls.canonical import normalize, split

HOST = "https://example.org:8080"
paths = st.lists(st.sampled_from(["a", "b", "", "%2F", "ü", "a;p=1"]), max_size=6)
queries = st.sampled_from(["", "?", "?a=/b/c", "?https://other.example/x/"])


@cases(
    ("path", "folders"),
    [
        ("/a/b/page", ["/a/b/", "/a/", "/"]),
        ("/a/b/", ["/a/", "/"]),
        ("/a/?page=2", ["/a/", "/"]),
        ("/a?x=/b/c", ["/"]),
        ("/?x", ["/"]),
        ("/", []),
        ("/a//b", ["/a//", "/a/", "/"]),
    ],
)
def test_folders_are_found(path: str, folders: list[str]) -> None:
    assert list(folders_above(HOST + path)) == [HOST + folder for folder in folders]


def test_only_the_upper_folders_of_a_deep_path_are_found() -> None:
    folders = list(folders_above(f"{HOST}/{'a/' * 1000}"))
    assert len(folders) == MOST_FOLDERS
    assert folders[-1] == f"{HOST}/" and folders[0] == f"{HOST}/{'a/' * (MOST_FOLDERS - 1)}"


@given(paths, queries)
def test_folders_are_normalised_urls_that_contain_the_url(segments: list[str], query: str) -> None:
    url = normalize(f"{HOST}/{'/'.join(segments)}{query}")
    folders = list(folders_above(url))
    assert url not in folders and len(set(folders)) == len(folders)
    for folder in folders:
        assert normalize(folder) == folder and split(folder)[0] == HOST
        assert url.startswith(folder) and folder.endswith("/") and "?" not in folder


def found(urls: Iterable[str], known: RecentCache[str]) -> list[str]:
    """The paths of the new folders of some URLs, with /no/ and all below it forbidden."""
    return [
        split(folder)[1]
        for url in urls
        for folder in unknown_folders(HOST + url, known, lambda one: None if "/no/" in one else one)
    ]


def test_each_folder_is_found_once() -> None:
    known = RecentCache[str]()
    assert found(["/a/b/1", "/a/b/2", "/a/c/1", "/d"], known) == ["/a/b/", "/a/", "/", "/a/c/"]
    assert found(["/a/b/3"], known) == []
    known.clear()
    assert found(["/a/b/3"], known) == ["/a/b/", "/a/", "/"]


def test_folders_above_a_forbidden_one_are_found() -> None:
    known = RecentCache[str]()
    assert found(["/no/x/1", "/no/x/2"], known) == ["/"]
    # the operator or another worker may allow it later
    assert f"{HOST}/no/" not in known
