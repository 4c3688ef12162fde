"""The YAML of a job that the dashboard shows: the reader of job files reads the same values from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from webcrawl.jobs.files import read_jobs
from webcrawl.web.crawl_form import yaml_of

JOB: dict[str, Any] = {
    "name": "news",
    "cron": "*/5 6 * * 1-5",
    "spider": "broad",
    "seeds": ["https://example.org/", "https://example.org/?a=1#x", "https://example.org/a: b"],
    "arguments": {"scope": "host"},
    "settings": {
        "CRAWL_MAX_PAGES": 100,
        "LINKS": True,
        "DOWNLOAD_DELAY": 0.5,
        "DENIED_DOMAINS": ["a.test", "null"],
    },
    "keep": {"iterations": 3},
}


def read_back(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / "job.yaml"
    path.write_text(yaml_of(values), encoding="utf-8")
    (job,) = read_jobs(path)
    return job.values


def test_the_reader_of_job_files_reads_the_same(tmp_path: Path) -> None:
    assert read_back(JOB, tmp_path) == JOB
    text = yaml_of(JOB)
    assert "name: news\n" in text and "  - https://example.org/\n" in text and "  LINKS: true\n" in text


@pytest.mark.parametrize(
    "text", ["1", "null", "True", "no", "- a", "a: b", "a #b", "'", '"\\', "é\n\x85\ud7ff😀", ":", "~"]
)
def test_text_stays_text(text: str, tmp_path: Path) -> None:
    values = JOB | {"arguments": {"a": text}}
    assert read_back(values, tmp_path)["arguments"]["a"] == text


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_stays_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("yaml")
    assert read_back(JOB | {"settings": {"TEXT": [text]}}, folder)["settings"]["TEXT"] == [text]
