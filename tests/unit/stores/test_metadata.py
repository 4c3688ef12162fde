"""Page rows in SQLite and PostgreSQL: real files, a real server."""

from __future__ import annotations

import shutil
import sqlite3
from datetime import timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import text

from tests.metadata import NOW, at, row
from tests.postgres import PostgresServer
from webcrawl.documents.page import ROW_FIELDS
from webcrawl.documents.payload import StoredPayload
from webcrawl.errors import StoreError
from webcrawl.policies.crawl_value import Bounds
from webcrawl.policies.recrawl_weights import RecrawlWeights, number_of
from webcrawl.policies.revisit_dates import RevisitDates
from webcrawl.stores import metadata as module
from webcrawl.stores.columns import pages
from webcrawl.stores.due_pages import DuePages
from webcrawl.stores.history import follow
from webcrawl.stores.metadata import Metadata

RECRAWL_COLUMNS = {
    *("change_rate", "changes", "next_due", "fetch_class"),
    *(
        "change_evidence",
        "recrawl_request",
        "text_digest",
        "new_links",
        "link_rate",
        "is_date_set",
        "signals",
        "change_distance",
    ),
}


def test_row_is_read_back_unchanged(metadata: Metadata) -> None:
    given_row = row(
        status=200,
        depth=2,
        mime_type="text/html",
        title="Grüße 👋",
        length=2**40,
        simhash=2**64 - 1,
        warc_offset=2**33,
        latency=0.25,
        redirects=["http://example.org/"],
        published_at=NOW - timedelta(days=3),
        details={"entries": [{"title": "a", "n": 1.5}], "none": None},
    ) | {"crawl": "news"}
    metadata.upsert([given_row])
    stored = metadata.get("https://example.org/")
    kept = {"fetches": 1, "first_fetched_at": NOW, "tried_at": NOW, "changed_at": None, "state": "fetched"}
    unknown = dict.fromkeys(("queued_at", *RECRAWL_COLUMNS - {"changes"}))
    assert stored == given_row | kept | unknown | {"changes": 0}
    assert list(metadata.scan()) == [stored]
    assert metadata.get_many(["https://example.org/", "https://example.org/other"]) == {stored["url"]: stored}
    assert metadata.get("https://example.org/other") is None
    assert metadata.count() == 1


def test_every_page_field_has_a_column() -> None:
    kept = {"fetches", "first_fetched_at", "tried_at", "changed_at", "state", "crawl", "queued_at"}
    assert set(ROW_FIELDS) | kept | RECRAWL_COLUMNS == {column.name for column in pages.columns}


def test_sound_new_pages_are_credited_to_the_page_that_named_them(metadata: Metadata) -> None:
    hub = "https://example.org/"
    fresh = {"referrer": hub, "fetch_class": "freshness-get"}
    metadata.upsert([row(hub, status=200), row(f"{hub}old", status=200, referrer=hub)])
    assert metadata.get_many([hub])[hub]["new_links"] is None
    unsound = [
        row(f"{hub}gone", status=404) | fresh,
        row(f"{hub}copy", status=200, duplicate_of=f"{hub}old") | fresh,
        row(f"{hub}error", status=200, soft_404=True) | fresh,
        row(f"{hub}failed", status=None) | fresh,
    ]
    metadata.upsert([*unsound, *(row(f"{hub}{number}", status=200) | fresh for number in range(3))])
    metadata.upsert([row(f"{hub}3", status=200) | fresh, row(hub, status=200, fetched_at=at(60))])
    metadata.upsert([row(f"{hub}3", status=200, fetched_at=at(90)) | fresh])
    metadata.upsert([row(f"{hub}4", status=200) | fresh | {"referrer": f"{hub}unknown"}])
    assert metadata.get_many([hub])[hub]["new_links"] == 4


def test_refetch_overwrites_the_row_and_counts(metadata: Metadata) -> None:
    later = NOW + timedelta(days=1)
    metadata.upsert([row(title="first")])
    last = later + timedelta(days=1)
    metadata.upsert([row(title="second", fetched_at=later), row(title=None, status=404, fetched_at=last)])
    stored = metadata.get("https://example.org/")
    assert stored is not None
    assert (stored["title"], stored["status"], stored["fetches"]) == (None, 404, 3)
    assert (stored["first_fetched_at"], stored["fetched_at"], stored["state"]) == (NOW, last, "missing")
    assert metadata.count() == 1


def test_failed_fetch_keeps_the_fields_of_the_last_response(metadata: Metadata) -> None:
    failed = row(status=None, title=None, error="TimeoutError: too slow", attempts=2, fetched_at=at(1))
    metadata.upsert([row(status=200, title="a page"), failed])
    stored = metadata.get("https://example.org/")
    assert stored is not None
    assert (stored["status"], stored["title"], stored["fetches"]) == (200, "a page", 2)
    assert (stored["error"], stored["attempts"], stored["state"]) == ("TimeoutError: too slow", 2, "failed")
    assert (stored["fetched_at"], stored["tried_at"]) == (NOW, at(1))
    metadata.upsert([row(status=200, title="again", fetched_at=at(2))])
    stored = metadata.get("https://example.org/")
    assert stored is not None
    assert (stored["title"], stored["error"]) == ("again", None)


def test_repeated_upsert_of_a_fetch_counts_once(metadata: Metadata) -> None:
    """As after a lost connection: the transaction was committed, but its confirmation never arrived."""
    for title in ("first", "again"):
        metadata.upsert([row(status=200, title=title), row("https://example.org/2", status=None)])
    assert [(found["fetches"], found["title"]) for found in metadata.scan()] == [(1, "again"), (1, None)]
    assert [len(metadata.history(found["url"])) for found in metadata.scan()] == [1, 1]


def test_history_keeps_the_last_fetches_of_a_url(metadata: Metadata) -> None:
    url = "https://example.org/"
    answers = [
        row(status=None, error="DNS"),
        row(status=200, digest="A", length=1, warc_offset=11, fetched_at=at(1)),
        row(status=304, fetched_at=at(2), latency=0.5),
        row(status=None, error="TimeoutError", fetched_at=at(3)),
        row(status=200, digest="A", length=1, fetched_at=at(4)),
        row(status=200, digest="B", length=2, fetched_at=at(5)),
        row(status=404, digest="C", length=3, fetched_at=at(6)),
    ]
    expected = [
        (0, None, False),
        (1, 200, False),
        (2, 304, False),
        (3, None, False),
        (4, 200, False),
        (5, 200, True),
    ]
    expected.append((6, 404, True))
    for number, answer in enumerate(answers, 1):
        metadata.upsert([answer])
        history = metadata.history(url)
        # a later fetch has the payload that the fetch of minute 1 archived
        archived = [expected[1]] if number > 5 else []
        assert [(fetch.fetched_at, fetch.status, fetch.changed) for fetch in history] == [
            (at(minute), status, changed)
            for minute, status, changed in archived + expected[max(0, number - 4) : number]
        ]
    assert (history[1].error, history[2].error, history[2].length) == ("TimeoutError", None, 1)
    stored = metadata.get(url)
    assert stored is not None
    assert (stored["fetches"], stored["changed_at"], stored["first_fetched_at"]) == (7, at(6), NOW)


def test_a_page_has_changed_if_its_main_text_has(metadata: Metadata) -> None:
    answers: list[tuple[str, int | None, int, int | None]] = [
        ("A", 1, 0, None),
        ("B", 1, 0, None),
        ("C", 2, 1, 2),
        ("C", None, 1, 2),
        ("D", 2, 2, None),
        ("D", 3, 3, 61),
    ]
    simhashes = {None: None, 1: 0b001, 2: 0b111, 3: 2**64 - 1}
    for minute, (digest, text_digest, changes, distance) in enumerate(answers):
        texts = {"text_digest": text_digest, "simhash": simhashes[text_digest]}
        metadata.upsert([row(status=200, digest=digest, fetched_at=at(minute)) | texts])
        metadata.upsert([row(status=304, fetched_at=at(minute + 0.5))])
        stored = metadata.get("https://example.org/")
        assert stored is not None
        assert (stored["changes"], stored["text_digest"]) == (changes, text_digest)
        assert stored["change_distance"] == distance
    assert stored["changed_at"] == at(5)


@pytest.mark.parametrize("status", [200, 304, None])
def test_a_row_keeps_when_its_crawl_queued_the_url_first(metadata: Metadata, status: int | None) -> None:
    def stored(minute: int, crawl: str, queued: int | None) -> int | None:
        at_once = {"crawl": crawl, "queued_at": None if queued is None else at(queued)}
        metadata.upsert([row(status=status if minute else 200, fetched_at=at(minute)) | at_once])
        found = metadata.get("https://example.org/")
        assert found is not None
        return found["queued_at"] and (found["queued_at"] - NOW).seconds // 60

    assert stored(10, "news-1", None) is None
    assert stored(20, "news-1", 12) == 12
    assert stored(30, "news-1", 25) == stored(31, "news-1", None) == 12
    assert stored(40, "news-2", 35) == 35
    assert stored(50, "news-3", None) is None


def test_a_row_that_two_workers_add_at_once_keeps_the_first_time(uri: str) -> None:
    """The statement that adds a row meets one that another process has just added."""
    with Metadata(uri) as one:
        statement = one._statements.add
        for crawl, queued, expected in (
            ("a", 1, 1),
            ("a", 2, 1),
            ("a", None, 1),
            ("b", 3, 3),
            ("c", None, None),
        ):
            given = row(status=200) | {"crawl": crawl, "queued_at": None if queued is None else at(queued)}
            kept = follow(given, None).kept
            one.database.write(
                lambda connection, values=given | kept: connection.exec_driver_sql(
                    statement.text, statement.parameters([values])
                )
            )
            found = one.get("https://example.org/")
            assert found is not None
            assert found["queued_at"] == (None if expected is None else at(expected))


def test_304_keeps_the_page_and_records_the_fetch(metadata: Metadata) -> None:
    metadata.upsert([row(status=200, title="a page", etag='"1"', digest="A", warc_file="w", length=7)])
    metadata.upsert([row(status=304, fetched_at=at(5), length=0, digest="E", warc_file="other")])
    stored = metadata.get("https://example.org/")
    assert stored is not None
    page = ("status", "title", "etag", "digest", "warc_file", "length", "fetched_at", "changed_at")
    assert [stored[name] for name in page] == [200, "a page", '"1"', "A", "w", 7, NOW, None]
    assert (stored["state"], stored["tried_at"], stored["fetches"]) == ("unchanged", at(5), 2)
    expected = [(fetch.status, fetch.warc_file) for fetch in metadata.history("https://example.org/")]
    assert expected == [(200, "w"), (304, "other")]


def test_304_with_the_same_digest_updates_the_validators(metadata: Metadata) -> None:
    metadata.upsert([row(status=200, etag='"1"', digest="A")])
    for minute, digest, etag in ((1, "A", '"2"'), (2, "B", '"3"')):
        metadata.upsert([row(status=304, fetched_at=at(minute), etag=etag, digest=digest)])
        stored = metadata.get("https://example.org/")
        assert stored is not None
        assert (stored["status"], stored["etag"]) == (200, '"2"')


def test_batch_may_contain_a_url_twice(metadata: Metadata) -> None:
    metadata.upsert([row(status=200, digest=str(minute), fetched_at=at(minute)) for minute in range(3)])
    assert [fetch.digest for fetch in metadata.history("https://example.org/")] == ["0", "1", "2"]
    assert [fetch.changed for fetch in metadata.history("https://example.org/")] == [False, True, True]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from([200, 304, 404, None]),
            st.sampled_from("AB"),
            st.booleans(),
        ),
        max_size=9,
    ),
    st.integers(1, 9),
)
def test_batch_equals_single_row_upserts(
    tmp_path_factory: pytest.TempPathFactory, tries: list[tuple[str, int | None, str, bool]], most: int
) -> None:
    """Covers known and new URLs, failures, repeated URLs and repeated fetches."""
    tries = [one for one in tries for _ in range(1 + one[3])]
    rows = [
        row(
            f"http://{name}/",
            status=status,
            digest=digest,
            error=None if status else "slow",
            fetched_at=at(number // 2),
        )
        for number, (name, status, digest, _) in enumerate(tries)
    ]
    stored = []
    for size in (1, most):
        folder = tmp_path_factory.mktemp("batches")
        with Metadata(f"sqlite:///{folder}/any.db", history=3) as it:
            for start in range(0, len(rows), size):
                it.upsert(rows[start : start + size])
            stored.append([(one, it.history(one["url"])) for one in it.scan()])
    assert stored[0] == stored[1]


def test_history_of_zero_keeps_only_the_last_fetch(uri: str) -> None:
    with Metadata(uri, history=0) as it:
        it.upsert([row(status=200, fetched_at=at(minute)) for minute in range(3)])
        assert [fetch.fetched_at for fetch in it.history("https://example.org/")] == [at(2)]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (200, "fetched"),
        (206, "fetched"),
        (301, "redirected"),
        (304, "unchanged"),
        (404, "missing"),
        (410, "missing"),
    ]
    + [(403, "refused"), (503, "broken"), (999, "refused"), (None, "failed")],
)
def test_state_follows_from_the_status(in_sqlite: Metadata, status: int | None, state: str) -> None:
    in_sqlite.upsert([row(status=status)])
    assert [found["state"] for found in in_sqlite.scan()] == [state]


def test_update_that_raises_changes_nothing(metadata: Metadata) -> None:
    metadata.upsert([row(title="stays")])

    def fail(stored: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no")

    with pytest.raises(ValueError):
        metadata.update("https://example.org/", fail)
    metadata.update("https://example.org/", lambda stored: {"depth": 4})
    assert [(found["title"], found["depth"]) for found in metadata.scan()] == [("stays", 4)]


def test_batch_is_atomic(metadata: Metadata) -> None:
    with pytest.raises(StoreError):
        metadata.upsert([row("http://a/"), row("http://b/", final_url=None)])
    assert metadata.count() == 0
    metadata.upsert([])


@given(
    simhash=st.none() | st.integers(0, 2**64 - 1),
    title=st.none() | st.text(st.characters(exclude_categories=[])),
)
def test_any_simhash_and_any_title_are_stored(
    tmp_path_factory: pytest.TempPathFactory, simhash: int | None, title: str | None
) -> None:
    it = _opened(f"sqlite:///{tmp_path_factory.getbasetemp()}/any.db")
    it.upsert([row(simhash=simhash, title=title)])
    stored = it.get("https://example.org/")
    assert stored is not None
    assert stored["simhash"] == simhash
    clean = title and title.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    assert stored["title"] == clean


def test_sqlite_file_is_readable_by_other_programs(in_sqlite: Metadata, path: Path) -> None:
    east = NOW.astimezone(timezone(timedelta(hours=5)))
    in_sqlite.upsert(
        [row(simhash=2**64 - 1, fetched_at=east), row("http://naive/", fetched_at=NOW.replace(tzinfo=None))]
    )
    with sqlite3.connect(path) as connection:
        found = connection.execute(
            "SELECT fetched_at, simhash, strftime('%H:%M', fetched_at) FROM pages ORDER BY url"
        )
        assert found.fetchall() == [
            ("2026-02-03T04:05:06.000789+00:00", None, "04:05"),
            ("2026-02-03T04:05:06.000789+00:00", -1, "04:05"),
        ]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@settings(max_examples=30)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats(-1e9, 1e9)
        | st.integers()
        | st.text(st.characters(exclude_categories=[])),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_details_are_stored_alike_in_both_databases(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory, found: Any
) -> None:
    """SQLite and PostgreSQL return the same value for any input."""
    path = tmp_path_factory.getbasetemp() / "any.db"
    stored = []
    for uri in (f"sqlite:///{path}", _postgres_database(postgres)):
        it = _opened(uri)
        it.upsert([row(details={"found": found, "at": NOW, "raw": b"\xff", "other": {1}})])
        stored.append((it.get("https://example.org/") or {})["details"])
        assert [one["details"] for one in it.scan()] == stored[-1:]
    assert stored[0] == stored[1]
    assert stored[0]["at"] == NOW.isoformat()


@cache
def _postgres_database(server: PostgresServer) -> str:
    return server.new_database()


@cache
def _opened(uri: str) -> Metadata:
    return Metadata(uri)


def test_deeply_nested_details_are_stored(metadata: Metadata) -> None:
    found: list[Any] = []
    for _ in range(5_000):
        found = [found]
    metadata.upsert([row(details={"found": found})])
    stored = metadata.get("https://example.org/")
    assert stored is not None
    assert stored["details"] != {}


def test_scan_is_grouped_by_host_across_batches(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCAN_BATCH", 7)
    hosts = ["http://a.example", "http://a.example:81", "http://a.example.org", "https://a.example"]
    metadata.upsert([row(f"{host}/{number}") for number in range(7) for host in hosts])
    seen = [found["host"] for found in metadata.scan()]
    assert len(seen) == 28
    assert sum(before != after for before, after in zip(seen, seen[1:], strict=False)) == 3
    for host in hosts:
        assert [found["url"] for found in metadata.scan(host)] == [f"{host}/{number}" for number in range(7)]
    assert len(list(metadata.scan(hosts[0], after=f"{hosts[0]}/4"))) == 2
    monkeypatch.setattr(module, "SCAN_BATCH", 1_000)
    assert [found["host"] for found in metadata.scan()] == seen


def test_contents_of_pages_are_dated_by_their_payloads(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.stores.metadata._NARROW_BATCH", 2)
    payload = StoredPayload("https://example.org/same", at(1), "a.warc.gz", 0, 9).facts()
    pages: dict[str, dict[str, Any]] = {
        "copy": {"details": {"payload": payload}},
        "gone": {"status": 404},
        "new": {"details": {"payload": "none"}},
        "same": {"details": {"payload": payload, "title": "\u00e9"}},
        "soft": {"soft_404": True},
    }
    for name, facts in pages.items():
        metadata.upsert([row(f"https://example.org/{name}", **{"fetched_at": at(2), "status": 200, **facts})])
    metadata.upsert([row("https://example.org/new", fetched_at=at(3), status=304)])
    metadata.upsert([row("https://example.org/same", fetched_at=at(3), status=None, error="timeout")])
    contents = {page.url.rpartition("/")[2]: page[1:] for page in metadata.contents()}
    assert contents == {
        "copy": (at(2), at(2), True),
        "gone": (at(2), at(2), False),
        "new": (at(2), at(3), True),
        "same": (at(1), at(2), True),
        "soft": (at(2), at(2), False),
    }


def test_rows_persist_after_reopening(metadata: Metadata, uri: str) -> None:
    metadata.upsert([row()])
    metadata.close()
    assert metadata.get("https://example.org/") is not None
    with Metadata(uri) as again:
        assert again.count() == 1


def test_a_file_is_read_as_it_is_also_beside_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "a & b?.db"
    uri = f"sqlite:///{path}".replace("?", "%3F")
    with Metadata(uri) as writer:
        writer.upsert([row(title="while it is written")])
        with Metadata(uri, read_only=True) as reader:
            assert [one["title"] for one in reader.scan()] == ["while it is written"]
        copy = tmp_path / "copy.db"
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{copy}{end}")
        with pytest.raises(StoreError, match=r"without the rows in .*/copy\.db-wal, .* copy both files"):
            Metadata(f"sqlite:///{copy}", read_only=True)
        for end in ("", "-wal"):
            Path(f"{copy}{end}").unlink()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    with Metadata(uri, read_only=True) as reader:
        assert reader.count() == 1
        with pytest.raises(StoreError, match="readonly"):
            reader.upsert([row(title="new")])
        assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("column", ["clicks", "details.clicks"])
def test_pages_with_a_greater_weight_are_due_sooner(metadata: Metadata, uri: str, column: str) -> None:
    dates = RevisitDates(Bounds(), weights=RecrawlWeights(column))
    metadata.database.write(
        lambda connection: connection.execute(text("ALTER TABLE pages ADD clicks INTEGER"))
    )
    urls = {f"https://example.org/{weight}": weight for weight in (0, 1, 20)}

    def rows(time: int) -> list[dict[str, Any]]:
        details = {url: {"clicks": weight} for url, weight in urls.items() if column != "clicks"}
        return [
            row(url, fetched_at=at(time), status=200, details=details.get(url)) | {"crawl": "news"}
            for url in urls
        ]

    with Metadata(uri, dates=dates) as weighed:
        weighed.upsert(rows(0))
        metadata.database.write(
            lambda connection: [
                connection.execute(text(f"UPDATE pages SET clicks = {weight} WHERE url = '{url}'"))
                for url, weight in urls.items()
            ]
        )
        weighed.upsert(rows(30_000))
        weighed.upsert([page | {"status": 304, "details": None} for page in rows(60_000)])
        waits = [weighed.get(url)["next_due"] - at(60_000) for url in urls]
        assert waits[0] > waits[1] > 2 * waits[2]
    with DuePages(uri, "news", column) as due_pages:
        assert [number_of(page.weight) for page in due_pages.look("", 10)[0]] == [0, 1, 20]
