"""Finds the pages to which no page links any more, from the link store.

A page that a run did not fetch is still linked if another page had the link in its last response, and the run tried
the other page or the other page is itself linked in this way. No page links to the remaining pages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from webcrawl.links.questions import Opener, links_known, pages_among
from webcrawl.results.monitor import MonitorRun, is_lost, is_not_fetched
from webcrawl.results.versions import UNREACHABLE, Versions
from webcrawl.stores.locations import Row


def unlinked(stored: Versions, run: MonitorRun, files: Sequence[Opener]) -> dict[str, list[str]]:
    """Returns the pages that were not fetched and are not linked any more, with the sorted pages that linked to them.

    Pages to which no link is known are left out. The result is empty if there may be another way to the pages: other
    settings, URLs that are still queued, or a page that could not be fetched and whose links are not stored.
    """
    if run.differing or run.lost is None:
        return {}
    missing: set[str] = set()
    answered: dict[str, datetime] = {}
    leads: defaultdict[str, set[str]] = defaultdict(set)
    lost = []
    for row in stored.rows():
        if not run.inside(row["url"]):
            continue
        answered[row["url"]] = _answered(stored, row, run.since)
        if is_not_fetched(row, run.since):
            missing.add(row["url"])
        elif is_lost(stored, row, run.since):
            lost.append(row["url"])
        if row["final_url"] != row["url"]:
            leads[row["url"]].add(row["final_url"])
    if len(pages_among(files, lost)) < len(lost):
        return {}
    before: defaultdict[str, set[str]] = defaultdict(set)
    for link in links_known(files, sorted(missing)):
        before[link.url].add(link.page)
        if link.time >= answered.get(link.page, run.since):
            leads[link.page].add(link.url)
    still = _reached(leads, leads.keys() - missing)
    return {url: sorted(before[url]) for url in missing - still if url in before}


def _answered(stored: Versions, row: Row, since: datetime) -> datetime:
    """Returns the time of a page's last response with links; an error does not mean that the links are gone."""
    answers = stored.answers(row["url"], since) if row["state"] in UNREACHABLE else []
    moment: datetime = answers[-1].fetched_at if answers else row["fetched_at"]
    return moment


def _reached(leads: dict[str, set[str]], starts: Iterable[str]) -> set[str]:
    """Returns the pages that can be reached from `starts`."""
    reached: set[str] = set()
    todo = list(starts)
    while todo:
        new = leads.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    return reached
