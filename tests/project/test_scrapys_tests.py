"""The verdict of `make scrapys-tests`, and what it says if the tests cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import scrapys_tests

REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_crawl.TestCrawl" name="test_delay" />
<testcase classname="tests.test_crawl.TestCrawl" name="test_seeds[a]"><failure /></testcase>
<testcase classname="tests.test_feed.TestFeed" name="test_seeds"><failure /></testcase>
<testcase classname="tests.test_feed" name="test_file"><error /></testcase>
<testcase classname="" name="tests.test_core"><error /></testcase>
<testcase classname="tests.test_feed" name="test_s3"><skipped /></testcase>
</testsuite></testsuites>"""


def test_failures_that_the_page_does_not_list_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (report := tmp_path / "report.xml").write_text(REPORT)
    known = {("test_crawl", "test_seeds"), ("test_feed", "test_file")}
    assert scrapys_tests.judge("scrapy==1", report, known) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "scrapy==1: 1 of 5 tests passed."
    assert [line.strip() for line in lines[2:]] == ["test_core::tests.test_core", "test_feed::test_seeds"]


def test_tests_that_cannot_be_had_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrapys_tests, "FOLDER", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert scrapys_tests.main(["--only", "scrapy-redis"]) == 0
    assert capsys.readouterr().out.startswith("Skipped the tests of scrapy-redis==")


def test_the_page_names_tests_by_module() -> None:
    section = scrapys_tests.PAGE.read_text().partition("\n## Scrapy's own tests\n")[2]
    listed = scrapys_tests._LISTED.findall(section)
    assert len(listed) == section.count("::") > 0
