"""The page of dead letters: by reason, with samples, and an action that queues them again."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from webcrawl.documents.values import counted
from webcrawl.frontier.dead_letters import CrawlDeadLetters
from webcrawl.opened import host_named
from webcrawl.urls.canonical import normalize, split
from webcrawl.web.page import DashboardPage, View

page = DashboardPage("dead-letters", "Dead letters")

_MOST_REASONS = 100


@page.get()
async def reasons(view: View) -> Response:
    host, reason = view.query.get("host", "").strip(), view.query.get("reason", "").strip()
    host = host_named(host) if host else ""
    letters = await _letters(view).by_reason(host or None, reason)
    counts = await view.connection.frontier.counts()
    return view.render(
        "dead-letters.html",
        letters=letters,
        shown=letters.reasons[:_MOST_REASONS],
        total=counts.dead,
        chosen={"host": host, "reason": reason},
    )


@page.live("dead-letters")
async def parts(view: View) -> Mapping[str, str]:
    return {"@total": str((await view.connection.frontier.counts()).dead)}


@page.post("requeue")
async def requeue(view: View) -> Response:
    """Queues dead letters with a kind of reason again, restricted to the host and text of the page."""
    host = host_named(view.form["host"]) if view.form["host"] else None
    queued = await _letters(view).requeue(host, view.form["reason"], view.form["kind"])
    return view.done(_notice(queued))


@page.post("requeue-one")
async def requeue_url(view: View) -> Response:
    url = normalize(view.form["url"])
    queued = await view.connection.frontier.requeue([(split(url)[0], url)])
    if not queued:
        return view.done(
            f"{url} was not queued again: it is no dead letter any more, or it is in the store of long queues. "
            "Queue all of its reason again to reach it there."
        )
    return view.done(_notice(queued))


def _letters(view: View) -> CrawlDeadLetters:
    return CrawlDeadLetters(view.connection.frontier, view.connection.tails)


def _notice(queued: int) -> str:
    return f"{counted(queued, 'dead letter')} queued again." + (
        " They need a running worker." if queued else ""
    )
