"""Changed texts are kept until near-duplicates are marked again."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

from webcrawl.reparse.near_duplicates import ChangedTexts


def test_changed_texts_of_a_crawl_are_kept_until_they_are_cleared(tmp_path: Path) -> None:
    with ChangedTexts(tmp_path, "one") as one, ChangedTexts(tmp_path, "two") as two:
        one.add(["a", "b"])
        one.add(["b", "c"])
        two.add(["a"])
    with ChangedTexts(tmp_path, "one") as one, ChangedTexts(tmp_path, "two") as two:
        assert (one.urls(), two.urls()) == ({"a", "b", "c"}, {"a"})
        one.clear()
        assert (one.urls(), two.urls()) == (set(), {"a"})


def test_a_new_file_is_opened_while_another_process_writes_it(tmp_path: Path) -> None:
    # so it is for a moment when two processes of a reparse begin
    with (
        closing(sqlite3.connect(tmp_path / "changed.db", isolation_level=None)) as other,
        ThreadPoolExecutor(1) as own,
    ):
        other.execute("BEGIN IMMEDIATE")
        opening = own.submit(ChangedTexts, tmp_path, "a crawl")
        assert not wait([opening], 0.05).done, "it waits for the other process"
        other.execute("ROLLBACK")
        with opening.result(60) as changed:
            changed.add(["a"])
            assert changed.urls() == {"a"}
