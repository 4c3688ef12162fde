"""The summary of a crawl as text: its figures, where its results are, and the commands to look at them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.config import StoreConfig
from webcrawl.config.libraries import install_command, is_installed
from webcrawl.config.passwords import without_password, without_secret_options
from webcrawl.crawler.report.displays import http_errors
from webcrawl.documents.values import counted, size
from webcrawl.frontier.checkpoint.periodic import CheckpointState
from webcrawl.frontier.figures import CrawlFigures

_SHOWN_TYPES = 12
_NOTHING_LEFT = "Nothing was left to crawl. To start over, set SCHEDULER_FLUSH_ON_START=True. Earlier runs:"
_NONE_LOST: Mapping[str, int] = {}
REASONS = {
    "finished": "finished: there is nothing left to crawl",
    "shutdown": "stopped",
    "stopped": "stopped by an operator",
    "start_error": "finished, but start() of the spider raised an exception, so start requests may be missing",
    "max_pages": "stopped at CRAWL_MAX_PAGES",
    "max_bytes": "stopped at CRAWL_MAX_BYTES",
    "closespider_pagecount": "stopped at CLOSESPIDER_PAGECOUNT",
    "closespider_timeout": "stopped after its time (--for or CLOSESPIDER_TIMEOUT)",
}


def iteration_reason(reason: str | None, state: str) -> str:
    """Returns why an iteration of a job ended, in words; "" if its `state` says it."""
    if reason is None or reason == state.lower():
        return ""
    return REASONS.get(reason, reason)


NOT_NOW = "finished: what is left cannot be fetched now"
"""Says how a crawl finished whose queued URLs are of hosts that are blocked or at their limit."""

_UNREAD = {
    "images": ("image", "images"),
    "heif": ("HEIC image", "HEIC images"),
    "media": ("audio or video file", "audio and video files"),
    "documents": ("older Office document or RAR archive", "older Office documents and RAR archives"),
    "languages": ("page of unknown language", "pages of unknown language"),
}
"""Extra -> what the summary calls a document that was not read without it, and several."""
_REMARKS = {
    "cookies_refused": "redirected with a cookie that was not kept",
    "wants_cookies": "led back to where they came from until they get a cookie: set COOKIES_ENABLED=True",
    "redirects_to_itself": "redirect to themselves",
    "ai_opt_out": "without text, because the site says no to use by AI: see AI_OPT_OUTS",
    "bad_checksum": "decoded in full, but with a wrong checksum or length",
    "odd_status_line": "with a status line that is not as the standard says",
    "head_only": "of which only the head was asked for: see DEPTH_OF_COPY",
    "metadata_only": "kept out of the archive: see DEPTH_OF_COPY",
    "repeated_length": "with the same Content-Length more than once",
    "odd_length": "with a Content-Length that is no number",
}
"""Remark -> what the summary says after the number of pages."""


def result_locations(stores: StoreConfig, now: CrawlFigures) -> str:
    """Returns where the results are: files in DATA_DIR, then stores elsewhere, without passwords."""
    files, elsewhere = ["summary.json"], []
    if now.archived and stores.pages == (stores.data_dir / "warc").resolve().as_uri():
        files.append("warc/")
    elif now.archived:
        elsewhere.append(without_password(stores.pages))
    if now.stored and stores.metadata == f"sqlite:///{(stores.data_dir / 'metadata.db').resolve()}":
        files.append("metadata.db")
    elif now.stored:
        # imported only here, because it takes 0.1 s
        from sqlalchemy.engine import make_url

        shown = make_url(stores.metadata).render_as_string(hide_password=True)
        elsewhere.append(without_secret_options(shown))
    return "; ".join([f"{stores.data_dir}: {', '.join(files)}", *elsewhere])


def feed_lines(feeds: Mapping[str, int], failed: int) -> list[str]:
    """Returns a line for each feed, and a line if files of this run could not be stored."""
    lines = [f"{name}: {counted(number, 'item')}" for name, number in feeds.items()]
    lines += [f"{counted(failed, 'file')} could not be stored: see the log"] if failed else []
    return [f"  {'' if number else 'feeds':<10}  {line}" for number, line in enumerate(lines)]


def summary_text(
    now: CrawlFigures,
    reason: str,
    locations: str,
    *,
    idle: bool = False,
    lost: Mapping[str, int] = _NONE_LOST,
    job: str = "",
    crawl: str = "",
) -> str:
    """Returns the summary as text. `idle`: this run had nothing to do, so the figures are those of earlier runs.

    `lost`: callback -> requests that ended with this process, although their placeholders are still queued.
    `job`: the job of which the crawl is an iteration. `crawl`: its name, if the process runs several crawls.
    """
    left = now.queued + now.leased
    dropped = f", {now.dropped:,} dropped" if now.dropped else ""
    speed = f" in {now.seconds:,.1f} s ({now.pages_per_second:,.1f}/s)"
    lines = [
        _title(reason, crawl, idle=idle, is_left=bool(left)),
        f"  pages       {now.pages:,} from {counted(now.hosts, 'host')}{'' if idle else speed}",
        *([f"  resources   {now.resources:,}"] if now.resources else []),
        *_items(now.items),
        _responses(now),
        *_types(now.types),
        *_unread(now.unread),
        *_extracted(now),
        f"  duplicates  {now.exact_duplicates:,} exact, {now.near_duplicates:,} near",
        f"  URLs        {now.seen_urls:,} seen, {left:,} queued, {counted(now.dead_letters, 'dead letter')}{dropped}",
        *_recrawl(now),
        *_fetches(now),
        *([f"  rewritten   {counted(now.rewritten, 'URL')} by DUST rules"] if now.rewritten else []),
        *(
            [f"  lookups     {counted(now.looked_up, 'link')}, {now.cache_hit_ratio:.1%} known to a worker"]
            if now.looked_up
            else []
        ),
        f"  left out    {now.robots_denied:,} by robots.txt, {_ai_denied(now)}"
        f"{now.addresses_refused:,} by the address guard",
        *_withheld(now),
        *_remarks(now.remarks),
        *([f"  repaired    {counted(now.repaired, 'damaged document')}"] if now.repaired else []),
        _errors(now),
        *_stored(now),
        *_checkpoint(now.checkpoint),
        f"  results in  {locations}",
    ]
    lines += _losses(lost)
    lines += _how_to_continue(now, max(0, left - sum(lost.values())), reason, job)
    return "\n".join(lines)


def _recrawl(now: CrawlFigures) -> list[str]:
    """A line about the pages that were fetched again; none without RECRAWL, or REVISIT and an answer of 304."""
    if not now.checked:
        return []
    visits = sorted(now.revisits.items()) or [("unchanged", now.unchanged)]
    outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in visits)
    late = f"; {now.late:,} late" if now.late else ""
    fresh = "" if now.freshness is None else f"; {now.freshness:.0%} fresh"
    speed = f" ({now.checked / now.seconds:,.1f}/s)" if now.seconds else ""
    return [f"  again       {now.checked:,} checked{speed}: {outcomes}{late}{fresh}"]


def _fetches(now: CrawlFigures) -> list[str]:
    """A line about what fetches were for, and what they were to be for; none if all were for new pages."""
    shares = [
        f"{share:.1%} {name}{'' if wanted is None else f' of {wanted:.0%}'}"
        for name, (share, wanted) in now.fetch_shares().items()
    ]
    return [f"  fetches     {', '.join(shares)}"] if shares else []


def _title(reason: str, crawl: str, *, idle: bool, is_left: bool) -> str:
    if idle:
        return f"Crawl {crawl}: {_NOTHING_LEFT}" if crawl else _NOTHING_LEFT
    how = NOT_NOW if reason == "finished" and is_left else REASONS.get(reason, reason)
    return f"{'Crawl ' + crawl if crawl else 'Crawl'} {how}."


def _responses(now: CrawlFigures) -> str:
    statuses = ", ".join(f"{number:,} x {status}" for status, number in now.responses.items())
    total = f"{sum(now.responses.values()):,}" + (f" ({statuses})" if statuses else "")
    return f"  responses   {total}; {size(now.bytes)}"


def _stored(now: CrawlFigures) -> list[str]:
    """A line with what the stores have; none if nothing was stored."""
    numbers = {"row": now.stored, "exchange": now.archived}
    stored = ", ".join(counted(number, name) for name, number in numbers.items() if number)
    return [f"  stored      {stored}"] if stored else []


def _checkpoint(state: CheckpointState | None) -> list[str]:
    """A line about the last checkpoint of CHECKPOINT_EVERY; none for a crawl without any."""
    if state is None:
        return []
    failing = f"; since then: {state.error}" if state.failed else ""
    if not state.at:
        return [f"  checkpoint  none yet{failing}"]
    at = datetime.fromtimestamp(state.at, UTC).isoformat(timespec="seconds")
    return [f"  checkpoint  {state.uri} of {at}{failing}"]


def _ai_denied(now: CrawlFigures) -> str:
    return f"{now.ai_denied:,} by rules for AI (AI_OPT_OUTS), " if now.ai_denied else ""


def _unread(unread: Mapping[str, int]) -> list[str]:
    """Lines with the pages that were stored unread without a library, and the command that installs it; or none."""
    if not unread:
        return []
    numbers = ", ".join(
        counted(number, *_UNREAD.get(extra, (extra, extra))) for extra, number in unread.items()
    )
    return [f"  not read    {numbers}; to read them: {install_command(unread)}"]


def _extracted(now: CrawlFigures) -> list[str]:
    """A line about the pages with fields of EXTRACT, and what they lack; none without EXTRACT."""
    if not now.extracted:
        return []
    read = ", ".join(f"{number:,} {rule}" for rule, number in now.extracted.items())
    lacking = ", ".join(f"{name} in {number:,}" for name, number in now.missing_fields.items())
    return [f"  fields of   {read}" + (f"; missing: {lacking}" if lacking else "")]


def _withheld(now: CrawlFigures) -> list[str]:
    """A line with the pages of which a part was left out because a robots directive says so; none without any."""
    numbers = {"noindex": now.noindex, "noarchive": now.noarchive, "nofollow": now.nofollow}
    named = ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number)
    return [f"  directives  {named}: see ROBOTS_META_OBEY"] if named else []


def _remarks(remarks: Mapping[str, int]) -> list[str]:
    """A line for each remark about answers, with what can be done; none without any."""
    lines = [f"{counted(number, 'page')} {_REMARKS.get(name, name)}" for name, number in remarks.items()]
    return [f"  {'' if number else 'remarks':<10}  {line}" for number, line in enumerate(lines)]


def _errors(now: CrawlFigures) -> str:
    """Returns the line about answers and fetches that failed."""
    soft = f"{now.soft_404:,} soft 404, " if now.soft_404 else ""
    return (
        f"  errors      {counted(http_errors(now), 'HTTP error')}, {soft}"
        f"{now.failed:,} failed, {counted(now.retried, 'retry', 'retries')}, "
        f"{counted(now.unreachable, 'unreachable host')}"
    )


def _how_to_continue(now: CrawlFigures, left: int, reason: str, job: str) -> list[str]:
    """Returns a line that says what happens to the URLs that are left; no line if none are left."""
    if now.paused:
        return ["It is paused: `scrapy resume` continues it."]
    if not left:
        return []
    if left <= now.parked:
        return ["All queued URLs are of hosts that are blocked or at their limit: see `scrapy host`."]
    if job:
        return _how_to_run_again(reason, job)
    if reason == "max_pages":
        return ["Run the same command with a higher --max-pages (CRAWL_MAX_PAGES) to continue."]
    if reason == "max_bytes":
        return ["Run the same command with a higher CRAWL_MAX_BYTES to continue."]
    return ["Run the same command to continue."]


def _how_to_run_again(reason: str, job: str) -> list[str]:
    """Returns a line about the URLs that an iteration has left, which only a scheduler continues."""
    begin = f"scrapy jobs run {job}"
    if reason == "max_pages":
        return [
            f"For more, set a higher CRAWL_MAX_PAGES in the settings of the job, and run it again: {begin}"
        ]
    if reason == "shutdown":
        ends = "the job was switched off or another iteration replaced this one"
        return [f"The next scheduler goes on with it, unless {ends}. A new iteration: {begin}"]
    return [f"A new iteration begins with the seeds: {begin}"]


def _items(items: Mapping[str, int]) -> list[str]:
    """Returns a line with the items of each class; no line without items."""
    if not items:
        return []
    each = sorted(items.items(), key=lambda pair: (-pair[1], pair[0]))
    named = ", ".join(f"{number:,} {name}" for name, number in each[:_SHOWN_TYPES])
    return [f"  items       {sum(items.values()):,} ({named}{', ...' if len(each) > _SHOWN_TYPES else ''})"]


def _losses(lost: Mapping[str, int]) -> list[str]:
    if not lost:
        return []
    each = ", ".join(f"{number:,} for {callback}" for callback, number in lost.items())
    return [
        f"Lost with this process: requests that cannot be stored ({each}). The next run makes them dead letters; "
        "the log says what they carry."
    ]


def _types(types: dict[str, dict[str, int]]) -> list[str]:
    """Returns a line for each of the most frequent types; no line if all documents are HTML without errors."""
    if types.keys() <= {"text/html"} and not any(counts["errors"] for counts in types.values()):
        return []
    shown = list(types.items())[:_SHOWN_TYPES]
    width = max(len(name) for name, _ in shown)
    lines = [
        f"{name:<{width}}  {counts['pages']:>9,}  {size(counts['bytes']):>9}"
        + (f"  {counts['errors']:,} not readable" if counts["errors"] else "")
        for name, counts in shown
    ]
    if len(types) > len(shown):
        lines.append(f"and {len(types) - len(shown)} more: see summary.json")
    return [f"  {'' if number else 'documents':<10}  {line}" for number, line in enumerate(lines)]


_LOCATION_SETTINGS = ("METADATA_URI", "STORE_URI", "REDIS_URL")


class ResultCommand(NamedTuple):
    """A command for stored results: what it shows, and the extra with its libraries; "" if it needs none."""

    command: str
    what: str
    extra: str = ""

    @property
    def works(self) -> bool:
        """Whether its libraries are installed."""
        return not self.extra or is_installed(self.extra)


def result_commands(
    stores: StoreConfig, now: CrawlFigures, settings: BaseSettings, crawl: str = ""
) -> list[str]:
    """Returns lines with the commands for the stored results; no line if the crawl has stored no rows.

    `crawl`: its name, if the engine has other crawls too, so that commands must name this one. Commands whose
    libraries are not installed follow the others, with the command that installs these.
    """
    if not now.stored:
        return []
    commands = _commands(stores, now, f" --crawl {crawl}" if crawl else "")
    rows = [(command.command, command.what) for command in commands if command.works]
    width = max(len(command) for command, _ in rows)
    lines = [f"{command:<{width}}  {what}" for command, what in rows]
    if options := _options(settings):
        lines.append(f"each with: {options}")
    shown = [f"  {'' if number else 'look with':<10}  {line}" for number, line in enumerate(lines)]
    if missing := [command for command in commands if not command.works]:
        names = ", ".join(command.command for command in missing)
        shown.append(f"  {'more':<10}  {names}: {install_command(command.extra for command in missing)}")
    return shown


def _commands(stores: StoreConfig, now: CrawlFigures, of_crawl: str) -> list[ResultCommand]:
    """Returns the commands that show something of this crawl. `of_crawl`: the option of those that read the engine."""
    form = "Parquet" if is_installed("parquet") else "JSON Lines"
    commands = [
        ResultCommand("scrapy page URL", "a page as Markdown; --row: what is stored about it"),
        ResultCommand("scrapy pages", "all rows; --duplicates any: copies and near-duplicates"),
        ResultCommand(f"scrapy status{of_crawl}", "what is queued, and which hosts are over their budgets"),
        ResultCommand("scrapy export -o FOLDER", f"all rows as {form}"),
        ResultCommand("scrapy dashboard", "the crawl in a browser", "dashboard"),
    ]
    if now.dead_letters:
        commands.insert(3, ResultCommand(f"scrapy stuck{of_crawl}", "what was given up, and why"))
    if now.archived:
        commands.append(
            ResultCommand("scrapy search WORDS", "pages with these words in their text", "search")
        )
    if stores.keeps_links:
        commands.append(
            ResultCommand("scrapy links URL", "the links on a page; with --in those to it", "parquet")
        )
    return commands


def _options(settings: BaseSettings) -> str:
    """Returns the options that the commands need too, without URIs, which may contain passwords."""
    words = []
    if _is_option(settings, "DATA_DIR"):
        words.append(f"-d {shlex.quote(str(settings['DATA_DIR']))}")
    words += [f"-s {name}=..." for name in _LOCATION_SETTINGS if _is_option(settings, name)]
    return " ".join(words)


def _is_option(settings: BaseSettings, name: str) -> bool:
    return settings.getpriority(name) == SETTINGS_PRIORITIES["cmdline"]
