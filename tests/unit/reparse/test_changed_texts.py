"""Changed texts are kept until near-duplicates are marked again."""

from __future__ import annotations

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
