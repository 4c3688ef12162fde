"""Statements on pages are compiled when they are first used, once for all databases of a kind."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from tests.metadata import row
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.page_statements import PageStatements, page_statements


class Compiled(PageStatements):
    """Statements that list the names of those that were compiled."""

    @property
    def names(self) -> set[str]:
        return vars(self).keys() - {"_dialect"}


def test_databases_of_a_kind_share_their_statements() -> None:
    ours, theirs = SQLiteDialect_pysqlite(), SQLiteDialect_pysqlite()
    assert page_statements(ours).add is page_statements(theirs).add
    other = page_statements(PGDialect_psycopg())
    assert other.look.text != page_statements(ours).look.text


def test_only_statements_that_are_used_are_compiled(tmp_path: Path) -> None:
    with Metadata(f"sqlite:///{tmp_path}/pages.db") as metadata:
        metadata._statements = used = Compiled(SQLiteDialect_pysqlite())
        assert used.names == set()
        metadata.upsert([row(status=200)])
        assert used.names == {"look", "add"}
        metadata.get("https://example.org/")
        assert used.names == {"look", "add", "get"}
