"""Definitions of jobs in YAML: what is read, and where a wrong one is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from webcrawl.errors import ConfigurationError
from webcrawl.jobs.definition import Checkpoints, Definition, Keep, Seeds
from webcrawl.jobs.files import read_jobs
from webcrawl.jobs.records import JobState
from webcrawl.jobs.schedule import Schedule

NEWS = """
name: news
cron: "30 6 * * MON-FRI"
timezone: Europe/Berlin
spider: broad
seeds:
  - https://news.example/
  - papers.example
arguments: {scope: host, pages: 3}
settings:
  CRAWL_MAX_PAGES: 1000
  ROBOTSTXT_OBEY: true
  USER_AGENT: no
state: OFF
owner: desk@news.example
notify: [mailto://desk:secret@news.example]
keep: {iterations: 30, days: 90}
missed: skip
overlap: replace
workers: 2
checkpoints: {to: s3://bucket/news, hours: 6, keep: 2}
---
name: weekly
cron: 0 6 * * SUN
spider: broad
"""
SHORT = "name: a\ncron: 0 6 * * *\nspider: s\n"


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(NEWS)
    news, weekly = (one.definition for one in read_jobs(path))
    assert news == Definition(
        name="news",
        spider="broad",
        schedule=Schedule("30 6 * * MON-FRI", "Europe/Berlin"),
        seeds=Seeds(urls=("https://news.example/", "https://papers.example/")),
        arguments={"scope": "host", "pages": "3"},
        settings={"CRAWL_MAX_PAGES": 1000, "ROBOTSTXT_OBEY": True, "USER_AGENT": "no"},
        state=JobState.OFF,
        owner="desk@news.example",
        notify=("mailto://desk:secret@news.example",),
        keep=Keep(30, 90),
        missed="skip",
        overlap="replace",
        workers=2,
        checkpoints=Checkpoints("s3://bucket/news", 6, 2),
    )
    assert weekly == Definition("weekly", "broad", Schedule("0 6 * * SUN"))


def test_what_is_stored_is_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(NEWS)
    assert all(Definition.of(one.values) == one.definition for one in read_jobs(path))


def test_a_file_with_seeds_is_relative_to_that_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("https://a.example/\n")
    (tmp_path / "a.yml").write_text(SHORT + "seeds: {file: seeds.txt}\n")
    (job,) = read_jobs(tmp_path)
    assert job.definition.seeds == Seeds(file=str(tmp_path / "seeds.txt"))
    (tmp_path / "a.yml").write_text(
        f"{SHORT}checkpoints: {{to: copies}}\n---\nname: b\ncron: 0 6 * * *\nspider: s\n"
        "checkpoints: {to: s3://bucket/copies}\n"
    )
    found = [job.definition.checkpoints for job in read_jobs(tmp_path)]
    assert found == [Checkpoints(str(tmp_path / "copies")), Checkpoints("s3://bucket/copies")]
    (tmp_path / "a.yml").write_text(SHORT + "seeds: {file: seeds.txt}\n")
    (tmp_path / "seeds.txt").unlink()
    with pytest.raises(ConfigurationError, match=r"a\.yml:4: seeds\.file: there is no file"):
        read_jobs(tmp_path)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("crom: 3", r":4: crom: there is no such key; did you mean 'cron'\?"),
        ("name: b", ":4: name: is there twice"),
        ("state: yes", ":4: state: must be ON, PAUSED or OFF, not 'yes'"),
        ("timezone: Mars", ":4: timezone: there is no 'Mars'"),
        ("seeds:\n- https://a.example/\n- mailto:x", r":6: seeds\.1: 'mailto:x' is not a URL"),
        ("seeds: []", ":4: seeds: must be a list that is not empty"),
        ("seeds: {}", r":4: seeds: must be a list of URLs, \{file: path\}"),
        ("seeds: {url: ftp://a.example}", r":4: seeds\.url: .* is not an address"),
        ("seeds: {url: 'http://[a'}", r":4: seeds\.url: 'http://\[a' is not an address"),
        ("seeds: {url: 'http://a:b@c:d/'}", r":4: seeds\.url: 'http://\.\.\.@c:d/' is not an address"),
        ("seeds: [a.example]\narguments: {seeds: b}", r":5: arguments\.seeds: seeds are given twice"),
        ("arguments: {pages: [1]}", r":4: arguments\.pages: must be text or a number"),
        ("settings:\n  CRAWL_ID: x", r":5: settings\.CRAWL_ID: cannot be set: each iteration"),
        ("settings:\n  DATA_DIR: x", r":5: settings\.DATA_DIR: cannot be set"),
        ("settings: {delay: 1}", r":4: settings\.delay: .* not the name of a setting"),
        ("keep:\n  days: 3\n  iterations: 0", r":6: keep\.iterations: must be a whole number of at least 1"),
        ("keep: {weeks: 1}", r":4: keep\.weeks: there is no such key; keys are iterations, days"),
        ("workers: true", ":4: workers: must be a whole number from 1 to 1,000, not True"),
        ("workers: 1001", ":4: workers: must be a whole number from 1 to 1,000"),
        ("missed: never", ":4: missed: must be late or skip"),
        ("overlap: both", ":4: overlap: must be wait, skip or replace"),
        ("nodes: [node1]", r":4: nodes\.0: 'node1' is not an address"),
        ("nodes: [{slots: 2}]", r":4: nodes\.0: url is missing"),
        ("nodes: [{url: 'http://a:1', slots: 0}]", r":4: nodes\.0\.slots: must be a whole number of"),
        ("nodes: [{url: 'http://a:1', max_proc: 3}]", r":4: nodes\.0\.max_proc: there is no such key"),
        ("notify: [desk]", r":4: notify\.0: is not an Apprise URL"),
        ("checkpoints: {hours: 1}", ":4: checkpoints: to is missing"),
        ("checkpoints: {to: ''}", r":4: checkpoints\.to: must be text, not ''"),
        ("checkpoints: {to: x, hours: 0}", r":4: checkpoints\.hours: must be a number of hours"),
        ("a: &x [1]\nb: *x", r":5: \*x: references are not supported"),
        ("a: !!python/object/apply:os.system [x]", ":4: a: the tag 'tag:yaml.org,2002:python/.* is not"),
        ("workers: !!int many", ":4: workers: 'many' is not of the type"),
        ("a: !secret x", ":4: a: the tag '!secret' is not supported"),
        ("- b", ":4: expected <block end>"),
        ("x: [", ":5: expected"),
        ("? [a]\n: b", r":4: \?: a key must be text"),
        pytest.param("x: " + "[" * 99_999, ":4: entries are nested too deeply", id="deep"),
        pytest.param("x: \0", "special characters are not allowed", id="NUL"),
        pytest.param("#" * 1_000_001, " has more than 1,000,000 bytes", id="long"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_reason(tmp_path: Path, more: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(SHORT + more + "\n")
    with pytest.raises(ConfigurationError, match=f"wrong.yaml.*{message}"):
        read_jobs(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cron: 0 6 * * *\nspider: s", ":1: name is missing"),
        ("name: a\nspider: s", ":1: cron is missing"),
        ("name: A B\ncron: 0 6 * * *\nspider: s", ":1: name: 'A B' must have 1 to 40 small letters"),
        ("name: a\ncron: 0 25 * * *\nspider: s", ":2: cron: .*bad hour"),
        (SHORT + "---\n" + SHORT, ":5: name: 'a' is also in .*wrong.yaml:1"),
        ("- a", ":1: must be a job"),
        ("", "there is no job in"),
        ("---\n---\n", "there is no job in"),
    ],
)
def test_a_file_needs_whole_jobs_with_different_names(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_jobs(path)


def test_all_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "name: A\ncron: 0 25 * * *\nseeds: [a.example, ftp//x]\nworkers: 0\nsettings: {a: 1, B: }\ncrom: x\n"
    )
    (tmp_path / "b.yaml").write_text("x: [")
    (tmp_path / "c.yaml").write_text(SHORT + "keep: {days: 0, weeks: 1}\n")
    with pytest.raises(ConfigurationError) as raised:
        read_jobs(tmp_path)
    told = [line.removeprefix(f"{tmp_path}/").split(" ")[:2] for line in str(raised.value).splitlines()]
    assert [" ".join(words) for words in told] == [
        "a.yaml:1: name:",
        "a.yaml:1: spider",
        "a.yaml:2: cron:",
        "a.yaml:3: seeds.1:",
        "a.yaml:4: workers:",
        "a.yaml:5: settings.B:",
        "a.yaml:5: settings.a:",
        "a.yaml:6: crom:",
        "b.yaml:1: expected",
        "c.yaml:4: keep.days:",
        "c.yaml:4: keep.weeks:",
    ]


def test_names_differ_in_all_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SHORT)
    (tmp_path / "b.yaml").write_text("\n" + SHORT)
    with pytest.raises(ConfigurationError, match=r"b\.yaml:2: name: 'a' is also in .*a\.yaml:1"):
        read_jobs(tmp_path)


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*none\.yaml"):
        read_jobs(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="there is no job in"):
        read_jobs(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(ConfigurationError, match=r"cannot read .*latin\.yaml: 'utf-8'"):
        read_jobs(tmp_path)


def test_a_device_is_read_up_to_the_limit() -> None:
    with pytest.raises(ConfigurationError, match="/dev/zero has more than 1,000,000 bytes"):
        read_jobs(Path("/dev/zero"))
