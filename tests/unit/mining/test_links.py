"""What links tell: boilerplate, the measures of link-uniq, index pages, hubs, anchors."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from math import log2
from pathlib import Path

import pytest

from tests.unit.links.rows import TIME
from tests.unit.mining.sites import HOST, Link, Site, stored, table, workspace_of
from webcrawl.errors import StoreError
from webcrawl.mining import patterns
from webcrawl.mining.pages import DAY, LEAST_PAGES, SAME, SHARED, collect_anchors, judge_pages, marks
from webcrawl.mining.patterns import measure, weights
from webcrawl.mining.workspace import TABLES, Workspace, write_tables
from webcrawl.policies.mined import Mined, mark
from webcrawl.policies.url_patterns import url_pattern
from webcrawl.stores.objects.store import open_store

MENU = [
    Link(f"{HOST}{path}", 1, text)
    for path, text in (("/", "Home"), ("/about", "About us"), ("/list/1", "News"))
]


def newspaper(seed: int) -> Site:
    """Lists of articles, which link to each other; all have a menu."""
    dice = random.Random(seed)
    articles = [f"{HOST}/article/{number}" for number in range(40)]
    site = {f"{HOST}/": [*MENU, *[Link(f"{HOST}/list/{number}", 2) for number in range(5)]]}
    for number in range(5):
        found = [Link(url, 3, f"Article {url[-2:]}") for url in articles[number * 8 :][:10]]
        site[f"{HOST}/list/{number}"] = [*MENU, *found]
    for url in articles:
        near = [Link(other, 4, "see also") for other in dice.sample(articles, 3)]
        site[url] = [*MENU, *near, Link(f"http://b.example/{dice.randrange(9)}", 4), Link(url, 9)]
    return site


def place(url: str) -> str:
    host, path = url[: url.index("/", 8)], url[url.index("/", 8) :]
    return host + url_pattern(path)


def expected_boilerplate(site: Site) -> set[tuple[str, int]]:
    """Which blocks are boilerplate, counted plainly."""
    pages = defaultdict(set)
    having = defaultdict(set)
    for url, links in site.items():
        for link in links:
            pages[place(url), link.block].add(url)
            having[place(url), link.block, link.to].add(url)
    same, total = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for (where, block, _), some in having.items():
        total[where, block] += len(some)
        if len(some) >= SHARED * len(pages[where, block]):
            same[where, block] += len(some)
    return {key for key in total if len(pages[key]) >= LEAST_PAGES and same[key] >= SAME * total[key]}


@pytest.mark.parametrize("seed", [1, 2])
def test_measures_are_those_of_a_plain_count(tmp_path: Path, seed: int) -> None:
    site = newspaper(seed)
    boilerplate = expected_boilerplate(site)
    assert boilerplate == {(f"{HOST}/{one}/#", 1) for one in ("article", "list")}
    known = {*site, *(link.to for links in site.values() for link in links)}
    known_of = Counter(map(place, known))
    pairs = defaultdict(set)
    for url, links in site.items():
        for link in links:
            if link.to != url and (place(url), link.block) not in boilerplate:
                pairs[place(url), place(link.to)].add((url, link.to))
    with workspace_of(tmp_path, site) as workspace:
        measure(workspace)
        marked = table(workspace, "SELECT from_place, block FROM blocks WHERE boilerplate")
        found = table(workspace, "FROM pairs")
        levels, uniqueness = (
            weights(workspace),
            dict(workspace.run("SELECT place, uniqueness FROM weights").fetchall()),
        )
    assert {(row["from_place"], row["block"]) for row in marked} == boilerplate
    assert {(row["from_place"], row["to_place"]) for row in found} == set(pairs)
    for row in found:
        some = pairs[row["from_place"], row["to_place"]]
        a, b = {one for one, _ in some}, {one for _, one in some}
        assert row["pairs"] == len(some)
        assert row["uniqueness"] == pytest.approx(len(b) / len(some))
        assert row["coverage"] == pytest.approx(len(b) / known_of[row["to_place"]])
        assert row["contribution"] == pytest.approx(len(b) / len(a))
        assert row["validity"] == pytest.approx(len(a) / known_of[row["from_place"]])
    article = f"{HOST}/article/#"
    # links to other hosts, of which no page was fetched, have no weight
    own = pairs[article, article]
    unique = len({target for _, target in own}) / len(own)
    assert uniqueness == {article: pytest.approx(unique)}, "other patterns have too few pages"
    assert levels == ({article: round(4 * (log2(unique) + 2)) / 16} if unique < 0.23 else {})


def test_low_uniqueness_costs_levels_where_validity_allows_it(tmp_path: Path) -> None:
    """Archives that all link to the same ten pages; of another pattern few pages are known to do so."""
    targets = [f"{HOST}/page{chr(97 + number)}" for number in range(10)]
    dice = random.Random(1)
    site = {
        f"{HOST}/archive/{number}": [Link(one, 5) for one in dice.sample(targets, 4)] for number in range(200)
    }
    site |= {
        f"{HOST}/tag/{number}": [Link(one, 5) for one in dice.sample(targets, 4)] for number in range(30)
    }
    site[f"{HOST}/"] = [Link(f"{HOST}/tag/{number}", 7) for number in range(300)]
    with workspace_of(tmp_path, site) as workspace:
        measure(workspace)
        found = weights(workspace)
    # 10 targets / 800 pairs, and 30 of 300 tags are less than an eighth
    assert found == {f"{HOST}/archive/#": round(4 * (log2(10 / 800) + 2)) / 16}
    assert patterns.LEAST_VALIDITY * 300 > 30


def test_boilerplate_is_marked_for_workers(tmp_path: Path) -> None:
    site = newspaper(1)
    with workspace_of(tmp_path, site) as workspace:
        found = marks(workspace)
    menu = frozenset(mark(link.to) for link in MENU)
    assert found == {f"{HOST}/article/#": menu, f"{HOST}/list/#": menu}
    mined = Mined.unpack(Mined("now", marks=found).pack())
    assert mined.marks == found
    links, credited = [*(link.to for link in MENU), f"{HOST}/article/7"], Counter[str]()
    for number in range(800):
        page = f"{HOST}/article/{number}"
        without = mined.uncredited(page, links)
        assert without <= {link.to for link in MENU} and without == mined.uncredited(page, links)
        credited.update(set(links) - without)
    assert credited.pop(links[-1]) == 800
    assert all(60 < number < 140 for number in credited.values()), "one page in eight"
    assert mined.uncredited(f"{HOST}/other", links) == set()


def test_indexes_are_pages_of_link_texts_outside_of_boilerplate(tmp_path: Path) -> None:
    site = newspaper(1)
    values: dict[str, tuple[int | None, float | None]] = dict.fromkeys(site, (2000, 1.0))
    values |= {f"{HOST}/list/{number}": (50, 1.0) for number in range(5)}
    values |= {f"{HOST}/about": (10, 1.0), f"{HOST}/article/3": (None, None)}
    with workspace_of(tmp_path, site, values, unsound=[f"{HOST}/article/9"]) as workspace:
        judge_pages(workspace)
        kinds = {row["url"]: row for row in table(workspace, "FROM page_kinds")}
    assert {url for url, row in kinds.items() if row["kind"] == "index"} == {
        f"{HOST}/list/{n}" for n in range(5)
    }
    listed = kinds[f"{HOST}/list/1"]
    assert (listed["links"], listed["area"], listed["link_text"], listed["share"]) == (10, 10, 100, 1.0)
    assert (kinds[f"{HOST}/article/3"]["kind"], kinds[f"{HOST}/about"]["kind"]) == (None, "content")
    assert kinds[f"{HOST}/article/9"]["kind"] is None, "an error page has no kind"
    assert kinds[f"{HOST}/article/5"]["links"] in (3, 4), "neither the menu nor itself"


def test_hubs_have_what_no_other_page_had_before(tmp_path: Path) -> None:
    good, late, bad = (f"{HOST}/{name}" for name in ("good", "late", "bad"))
    a, b, c = (f"{HOST}/hub{name}" for name in "abc")
    site = {
        a: [Link(good, 1), Link(late, 1), Link(f"{HOST}/never-fetched", 1), Link(f"{HOST}/gone", 1)],
        b: [Link(bad, 1), Link(good, 1), Link(b, 1)],
        c: [Link(late, 1)],
    }
    values = {
        good: (1, 9.0),
        late: (1, 5.0),
        bad: (1, 0.0),
        f"{HOST}/other": (1, 1.0),
        f"{HOST}/gone": (1, 0.0),
    }
    values |= dict.fromkeys((a, b, c), (1, None))
    with workspace_of(tmp_path, site, values, unsound=[f"{HOST}/gone"]) as workspace:
        judge_pages(workspace)
        (hub,) = table(workspace, "FROM hubs")
    second, third = 1e6 / (1e6 + DAY), 2e6 / (2e6 + DAY)
    assert (hub["url"], hub["new"], hub["unique_links"], hub["readings"]) == (a, 2, 0, 1)
    assert hub["better"] == pytest.approx((1 + 3 / 4) / 2)
    assert hub["sooner"] == pytest.approx((second + third) / 2)
    assert hub["score"] == pytest.approx((second + third * 3 / 4) ** 0.5)


def test_a_hub_with_news_at_each_reading_comes_before_a_long_list(tmp_path: Path) -> None:
    news, changelog, broken = (f"{HOST}/{name}" for name in ("news", "changelog", "broken"))
    articles = [f"{HOST}/article/{number}" for number in range(12)]
    versions = [f"{HOST}/version/{number}" for number in range(20)]
    for reading in range(3):
        links = [Link(url, 1) for url in articles[reading * 4 :][:4]]
        stored(tmp_path, {news: links}, start=TIME + reading * DAY)
    site = {
        changelog: [Link(url, 1) for url in versions],
        broken: [Link(f"{HOST}/{n}", 1) for n in range(50)],
    }
    pages = [news, changelog, broken, *articles, *versions, *(f"{HOST}/{number}" for number in range(50))]
    values = {url: (100, float(number % 2)) for number, url in enumerate(pages)}
    with workspace_of(tmp_path, site, values, unsound=[broken]) as workspace:
        judge_pages(workspace)
        hubs = table(workspace, "SELECT url, new, readings FROM hubs ORDER BY rank")
    assert [tuple(row.values()) for row in hubs] == [(news, 12, 3), (changelog, 20, 1)]


def test_anchors_are_the_texts_of_most_pages_first(tmp_path: Path) -> None:
    target = f"{HOST}/about"
    site = {
        f"{HOST}/page/{number}": [Link(target, 1, "About us"), Link(target, 2, text)]
        for number, text in enumerate(["the  team", "The team", "who we are", "", "who we are", "who we are"])
    }
    site["http://b.example/"] = [Link(target, 3, "who we are"), Link(f"{HOST}/page/1", 3, " ")]
    site[target] = [Link(target, 3, "this page")]
    with workspace_of(tmp_path, site) as workspace:
        collect_anchors(workspace)
        (found,) = table(workspace, "FROM anchors")
    lines = found.pop("anchors").split("\n")
    assert lines[0] == "who we are" and sorted(lines[1:3]) == ["About us", "the  team"], (
        "the menu counts once"
    )
    assert found == {"url": target, "pages": 7, "hosts": 2}


def test_tables_are_parquet_and_replaced(tmp_path: Path) -> None:
    store = open_store((tmp_path / "it's mined").as_uri(), "test")
    for seed in (1, 2):
        with workspace_of(tmp_path / str(seed), newspaper(seed)) as workspace:
            measure(workspace)
            judge_pages(workspace)
            collect_anchors(workspace)
            rows = write_tables(workspace, store)
    assert rows.keys() == TABLES.keys() and all(rows.values())
    assert {path.name for path in (tmp_path / "it's mined").iterdir()} == {
        f"{name}.parquet" for name in TABLES
    }
    with Workspace(tmp_path / "again") as workspace:
        for name, number in rows.items():
            query = f"SELECT count(*) FROM '{tmp_path}/it''s mined/{name}.parquet'"
            assert workspace.run(query).fetchone() == (number,)


def test_one_process_mines_at_a_time_and_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    with Workspace(tmp_path) as workspace:
        with pytest.raises(StoreError, match=f"another process mines in {tmp_path}: wait"):
            Workspace(tmp_path)
        assert workspace.run("SELECT 1").fetchone() == (1,)
    assert list(tmp_path.iterdir()) == []
    left = tmp_path / "mining.tmp"
    (left / "mining.duckdb.tmp").mkdir(parents=True)
    (left / "mining.duckdb").write_text("unfinished")
    with Workspace(tmp_path) as workspace:
        assert workspace.run("SELECT count(*) FROM links").fetchone() == (0,)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write to"):
        Workspace(tmp_path / "file")


def test_links_that_were_read_again_replace_those_before(tmp_path: Path) -> None:
    stored(tmp_path, {f"{HOST}/": [Link(f"{HOST}/again", 1)]}, read_at=TIME + 5)
    # an earlier fetch, of which the archived page was read again last
    stored(tmp_path, {f"{HOST}/": [Link(f"{HOST}/earlier", 1)]}, start=TIME - 9, read_at=TIME + 9)
    with workspace_of(tmp_path, {f"{HOST}/": [Link(f"{HOST}/before", 1)]}) as workspace:
        assert workspace.run("SELECT to_url FROM links").fetchall() == [(f"{HOST}/again",)]


def test_the_last_fetch_of_a_page_counts_but_its_first_links_stay_first(tmp_path: Path) -> None:
    stored(tmp_path, {f"{HOST}/": [Link(f"{HOST}/old", 1)]}, start=5)
    with workspace_of(tmp_path, {f"{HOST}/": [Link(f"{HOST}/new", 1)]}) as workspace:
        assert workspace.run("SELECT to_url FROM links").fetchall() == [(f"{HOST}/new",)]
        first = workspace.run("SELECT to_url, time FROM first_links ORDER BY time").fetchall()
    assert [url for url, _ in first] == [f"{HOST}/old", f"{HOST}/new"] and first[0][1] == 5
