"""The seeds of iterations: read once, from a list, a file or a web server."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.web import LocalWeb, Reply
from webcrawl.errors import StoreError
from webcrawl.jobs import seeds as seeds_module
from webcrawl.jobs.definition import Seeds
from webcrawl.jobs.seeds import seeds_argument, seeds_file
from webcrawl.urls.seeds import read_seeds

SITE = "127.0.1.1"
TEXT = "\ufeff# of today\r\nhttp://a.example/ # a\r\n\r\n  http://b.example/?q=1,2\r\n"
FOUND = ["http://a.example/", "http://b.example/?q=1,2"]


@pytest.fixture
def web(local_web: Callable[..., LocalWeb]) -> LocalWeb:
    return local_web(SITE)


def file_of(seeds: Seeds, folder: Path) -> list[str]:
    return list(read_seeds(f"@{asyncio.run(seeds_file(seeds, folder))}"))


def test_seeds_at_an_address_are_fetched_once(web: LocalWeb, tmp_path: Path) -> None:
    """A worker that is started again begins with the same, also when others are there by then."""
    web.put(SITE, "/lists/", TEXT)
    seeds = Seeds(url=web.url(SITE, "/lists/"))
    for _ in range(2):
        assert file_of(seeds, tmp_path / "one") == FOUND
        web.put(SITE, "/lists/", "http://c.example/")
    assert [hit.path for hit in web.hits] == ["/lists/"]
    assert file_of(seeds, tmp_path / "two") == ["http://c.example/"]


def test_seeds_for_nodes_are_those_of_the_file(web: LocalWeb, tmp_path: Path) -> None:
    web.put(SITE, "/seeds", TEXT)
    seeds = Seeds(url=web.url(SITE, "/seeds"))
    argument = asyncio.run(seeds_argument(seeds))
    assert [seed.replace("%2C", ",") for seed in read_seeds(argument)] == file_of(seeds, tmp_path) == FOUND
    assert asyncio.run(seeds_argument(Seeds(urls=("http://a.example/,", "b")))) == "http://a.example/%2C,b"
    web.put(SITE, "/seeds", "http://a.example/\n" * 6_000)
    with pytest.raises(StoreError, match="seeds for nodes must be less than 100,000 bytes in all"):
        asyncio.run(seeds_argument(seeds))


def test_a_redirect_is_followed_and_a_password_sent_and_not_shown(web: LocalWeb, tmp_path: Path) -> None:
    web.put(SITE, "/old", Reply(status=302, headers={"Location": "/new"}))
    web.put(SITE, "/new", TEXT)
    secret = web.url(SITE, "/old").replace("http://", "http://me:s3cret@")
    assert file_of(Seeds(url=secret), tmp_path / "one") == FOUND
    assert web.hits[0].headers["Authorization"] == f"Basic {b64encode(b'me:s3cret').decode()}"
    web.put(SITE, "/new", Reply("me:s3cret", status=403))
    with pytest.raises(
        StoreError, match=r"cannot read the seeds at http://\S+/old: the answer is 403"
    ) as told:
        file_of(Seeds(url=secret), tmp_path / "two")
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(status=404), "cannot read the seeds at http://127.*/seeds: the answer is 404"),
        (Reply(abort=True), "cannot read the seeds at http://127.*/seeds: Server disconnected"),
        (Reply(raw=b"nonsense\r\n\r\n"), "cannot read the seeds at http://127.*/seeds: .*[Bb]ad status line"),
        (Reply("late", delay=3), "cannot read the seeds at http://127.*/seeds: no answer in time"),
        (Reply("# none\n\n"), "there is no seed in http://127.*/seeds"),
        (Reply(b"http://a.example/caf\xe9\n"), "the seeds in http://127.*/seeds are no text in UTF-8"),
        (Reply("http://a.example/\n" * 600), "the seeds at http://127.*/seeds have more than 10,000 bytes"),
        (Reply(status=302, headers={"Location": "/seeds"}), "/seeds: too many redirects"),
    ],
    ids=["404", "abort", "nonsense", "late", "empty", "latin", "long", "loop"],
)
def test_seeds_that_cannot_be_read_are_refused_and_leave_no_file(
    web: LocalWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Reply, message: str
) -> None:
    monkeypatch.setattr(seeds_module, "_LARGEST", 10_000)
    monkeypatch.setattr(seeds_module, "_SECONDS", 1.0)
    web.put(SITE, "/seeds", reply)
    seeds = Seeds(url=web.url(SITE, "/seeds"))
    with pytest.raises(StoreError, match=message):
        asyncio.run(seeds_file(seeds, tmp_path))
    assert not (tmp_path / "seeds.txt").exists()
    web.put(SITE, "/seeds", TEXT)
    assert file_of(seeds, tmp_path) == FOUND, "the next attempt reads them"


def test_a_server_that_is_away_is_named(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with pytest.raises(
        StoreError, match=rf"cannot read the seeds at http://127\.0\.0\.1:{port}/seeds: cannot connect"
    ):
        asyncio.run(seeds_file(Seeds(url=f"http://127.0.0.1:{port}/seeds"), tmp_path))


def test_seeds_in_a_file_are_copied(tmp_path: Path) -> None:
    source = tmp_path / "seeds"
    source.write_text(TEXT, encoding="utf-8")
    for _ in range(2):
        assert file_of(Seeds(file=str(source)), tmp_path / "one") == FOUND
        source.unlink(missing_ok=True)
    with pytest.raises(StoreError, match="cannot read the seeds in .*/seeds: No such file"):
        file_of(Seeds(file=str(source)), tmp_path / "two")
    source.write_text("#\n")
    with pytest.raises(StoreError, match="there is no seed in .*/seeds"):
        file_of(Seeds(file=str(source)), tmp_path / "two")
