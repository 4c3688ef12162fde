"""What of PostgreSQL's SQL the stores use, so that it stays what docs/scale.md says of other databases.

A server writes each statement into its log. All words of these statements are names of ours or listed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Table

from tests.metadata import NOW, at, row
from tests.postgres import PostgresServer
from webcrawl.alarms.outbox import Notice, Outbox
from webcrawl.alarms.stuck import StuckPage, StuckPages
from webcrawl.alarms.tables import ALARMS
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.tables import JOBS
from webcrawl.policies.crawl_value import Bounds
from webcrawl.policies.revisit_dates import RevisitDates
from webcrawl.stores.chosen_columns import ChosenColumns, ImportanceColumn
from webcrawl.stores.due_pages import DuePages
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.page_filter import PageFilter
from webcrawl.stores.page_list import ORDERS, PageList
from webcrawl.stores.page_statements import LEAST_COPIED
from webcrawl.stores.redirect_chains import RedirectChains
from webcrawl.stores.reread_rows import READ_FIELDS, RereadRows
from webcrawl.stores.schema import PAGES


def listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


SYNTAX = listed("""
    all and as asc at between by case close coalesce collate conflict cursor deallocate declare delete desc distinct do
    else end escape exists fetch for forward from group ilike in insert into is join last like limit locked lower not
    nothing null nulls offset on or order over recursive release returning rollback savepoint select set skip then true
    union update values when where with begin commit
""")
SCHEMA = listed("create table index primary key unique if temporary rows data no copy stdin")
TYPES = listed("text varchar integer bigint float boolean timestamp time zone jsonb serial")
FUNCTIONS = listed("""
    coalesce count current_database exists has_database_privilege jsonb_extract_path_text lower max min
    pg_advisory_xact_lock row_number sum to_char unnest
""")
"""Of these, the advisory lock and the right to temporary tables are asked once a process or connection."""

_ENTRY = re.compile(r"^\d{4}-\d\d-\d\d \S+ \S+ \[\d+\] LOG:  (?:statement|execute [^:]*): ", re.MULTILINE)
_LITERALS = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\$\d+|--[^\n]*")


def statements(log: Path, start: int) -> Iterator[str]:
    """The statements in a log after a position, each once, in lower case and without literals."""
    text = log.read_bytes()[start:].decode()
    entries = [part.split("\n2", 1)[0] for part in _ENTRY.split(text)[1:]]
    for statement in dict.fromkeys(_LITERALS.sub(" ", entry).lower() for entry in entries):
        # SQLAlchemy reads the catalogue when it opens or inspects a database, and the stores how many rows it has
        if not re.search(r"pg_catalog|pg_type|pg_class|^\s*(show|alter|select current_schema)\b", statement):
            yield statement


def words(statement: str) -> set[str]:
    """The words of a statement, without names that it gives: aliases, and what a recursive query is called."""
    given = set(re.findall(r"\bas (\w+)", statement)) | set(re.findall(r"(\w+)\.\w+", statement))
    for columns in re.findall(r"(?:recursive|as) \w+\(([\w, ]+)\)", statement):
        given |= set(columns.split(", "))
    return set(re.findall(r"[a-z_][a-z_0-9]*", statement)) - given


def names_of(*tables: Table) -> set[str]:
    """The names of tables, their columns and their indexes."""
    names = {
        name for table in tables for name in (table.name, f"webcrawl_{table.name}", *table.columns.keys())
    }
    return names | {str(index.name) for table in tables for index in table.indexes}


def use_pages(uri: str) -> None:
    urls = [f"https://a.example/{number}" for number in range(LEAST_COPIED)]
    dates = RevisitDates(Bounds())
    with Metadata(uri, history=1, dates=dates) as metadata:
        for minutes, status in enumerate((200, 200, 304, None, 404, 200)):
            for batch in (urls, urls[:1]):
                values = {"fetched_at": at(60 * minutes), "etag": f"{minutes}", "digest": f"sha1:{minutes}"}
                values |= {"referrer": urls[1], "simhash": 5, "mime_type": "text/html", "crawl": "news"}
                values |= {"warc_file": "a", "warc_offset": 1, "warc_length": 1}
                metadata.upsert([row(url, status=status) | values for url in batch])
        fresh = {"referrer": urls[1], "fetch_class": "freshness-get", "crawl": "news"}
        metadata.upsert([row(f"{urls[0]}/new", status=200) | fresh])
        metadata.get(urls[0])
        metadata.get_many(urls)
        metadata.last_visits(urls)
        metadata.lacking(urls, "news")
        metadata.payload_rows(urls)
        metadata.update(urls[0], lambda page: {"title": "new"})
        metadata.history(urls[0])
        metadata.signal_counts(["https://a.example"])
        list(metadata.scan("https://a.example"))
        list(metadata.contents())
        assert (metadata.count(), metadata.crawls()) == (LEAST_COPIED + 1, ["news"])
        RedirectChains(metadata.database).read(urls)
        RedirectChains(metadata.database).earlier(urls)
        for order in ORDERS:
            for chosen in ({}, {"crawl": "news"}, {"crawl": "news", "status": "4xx", "text": "a"}):
                list(PageList(metadata, PageFilter(**chosen), order).rows())
    plan = {"crawl": "news", "duplicates": "any", "language": "de", "depth": "0-2", "mime_type": "image/*"}
    with Metadata(uri) as metadata:
        list(PageList(metadata, PageFilter(**plan, since="2026-01-01", host="https://a.example")).rows())
    use_plan(uri, urls, dates)


def use_plan(uri: str, urls: list[str], dates: RevisitDates) -> None:
    later = NOW + timedelta(days=400)
    with DuePages(uri, "news", "details.weight") as due:
        claimed = due.claim(
            later, later, 10, after=NOW, fetch_class="coverage-chk", tried_before=later
        ) or due.claim(later, later, 10)
        assert claimed
        due.put_off([(page, later) for page in claimed])
        due.end_of(1, NOW, later)
        due.correct_visits(NOW - timedelta(days=9), 5)
        due.set_dates(dict.fromkeys(urls, later))
        due.announce(dates, "sitemap", urls[0], dict.fromkeys(urls, later), later)
        due.credit({urls[0]: 1})
        assert due.late(later).pages
        due.sample(5)
        due.sample(5, "https://a.example")
        due.look("", 5)
        due.adopt(dates, "", 5)
    with ImportanceColumn(uri) as importance:
        importance.write(dict.fromkeys(importance.read("news"), 1.5))
    with ChosenColumns(uri) as chosen:
        chosen.check_number("importance")
        list(chosen.scan(["title"], "news"))
        chosen.window(["title"], "", "https://", 5)
    with RereadRows(uri, "news") as reread:
        reread.count([])
        list(reread.locations([]))
        list(reread.texts())
        reread.mark(dict.fromkeys(urls))
        with Metadata(uri) as metadata:
            stored = list(metadata.scan())
        reread.rewrite([{**dict.fromkeys(READ_FIELDS), **page} for page in stored])


def use_jobs_and_alarms(uri: str) -> None:
    with StuckPages(uri) as stuck:
        stuck.add([StuckPage("news", "https://a.example/1", "DEAD_LETTER", "why", NOW, NOW)])
        stuck.pages("news", limit=5, prefix="https://")
        stuck.of("news", ["https://a.example/1"])
        stuck.count("news")
        stuck.count_urls("news")
        stuck.count_untold("news")
        stuck.untold("news", "DEAD_LETTER")
        stuck.mark_notified("news", "DEAD_LETTER", NOW, NOW)
        stuck.raw(["https://a.example/1"])
        stuck.remove("news")
    with Outbox(uri) as outbox:
        outbox.put(Notice("a", "WORKER", "title", "text", NOW), ["one", "two"])
        (claimed,) = outbox.due(NOW, ["one", "two"])
        outbox.sent(claimed.id, "one", at(1))
        outbox.failed(claimed.id, "why", at(1))
        outbox.notices(crawl="news", unsent=True)
        outbox.retry(at(2))
        outbox.forget(at(3))
    with JobStore(uri) as jobs:
        jobs.apply([{"name": "news", "cron": "0 6 * * *", "spider": "broad"}], NOW)
        jobs.run("news", NOW)
        jobs.jobs()
        jobs.iterations("news")
        jobs.active("news")


def test_the_stores_use_no_other_sql(postgres: PostgresServer) -> None:
    uri = postgres.new_database()
    name = uri.split("/")[3].partition("?")[0]
    log = postgres.folder / "log"
    start = log.stat().st_size
    postgres.execute(uri, f"ALTER DATABASE {name} SET log_statement = 'all'")
    use_pages(uri)
    use_jobs_and_alarms(uri)
    postgres.execute(uri, f"ALTER DATABASE {name} RESET log_statement")
    ours = set().union(*(names_of(*schema.tables, schema.versions) for schema in (PAGES, ALARMS, JOBS)))
    known = ours | SYNTAX | SCHEMA | TYPES | FUNCTIONS
    sent = list(statements(log, start))
    assert len(sent) > 100
    unknown = {word: statement for statement in sent for word in words(statement) - known}
    assert unknown == {}
    allowed, used = SYNTAX | SCHEMA | TYPES | FUNCTIONS, set().union(*map(words, sent))
    assert allowed - used == set()
