"""`scrapy crawl linkcheck` on a local web with all kinds of links."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply
from webcrawl.results.linkcheck import Problem, table

SITE, OTHER = "127.0.1.1", "127.0.1.2"
StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]
OPTIONS: dict[str, Any] = {
    "ALLOWED_NETWORKS": "127.0.0.0/8",
    "FRONTIER_RETRY_DELAY": 0,
    "POLITENESS_BACKOFF": 0,
}


def redirect(target: str, status: int = 301) -> Reply:
    return Reply("", status=status, headers={"Location": target})


def report(path: Path) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return {one["url"] + ("#" + one["anchor"] if "anchor" in one else ""): one for one in found}


def test_every_kind_of_broken_link_is_reported(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    other = web.host(OTHER)
    web.put(
        SITE,
        "/",
        f"""<link rel=stylesheet href=/style.css><img src=/no.png><img src=/yes.png>
        <script src={other}/gone.js></script>
        <a href=/page#here>1</a> <a href=/page#gr%C3%BC%C3%9Fe>2</a> <a href=/page#nowhere>3</a> <a href=#top>4</a>
        <a href=#bottom>5</a> <a href=/missing>6</a> <a href=/error>7</a> <a href=/old>8</a> <a href=/moved>9</a>
        <a href=/to-missing>10</a> <a href={other}/fine#any>11</a> <a href={other}/no>12</a> <a href={other}/way>13</a>
        <a href={other}/secret>14</a> <a href=/loop>15</a> <a href=mailto:a@b>16</a> <a href=http://127.0.1.3:1/>17</a>
        <a href=/page?utm_source=x>18</a> <a href=/app#/route>19</a> <a href="">20</a> <a href=/pass>21</a>""",
    )
    web.put(
        SITE,
        "/page",
        '<p id="here">x</p><a name="grüße"></a><a href=/missing>again</a><a href=/page>self</a>',
    )
    web.put(SITE, "/style.css", Reply("p {}", headers={"Content-Type": "text/css"}))
    web.put(SITE, "/yes.png", Reply(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"}))
    web.put(SITE, "/app", "an application")
    web.put(SITE, "/error", Reply("", status=500))
    web.put(SITE, "/old", redirect("/page"))
    web.put(SITE, "/moved", redirect("/page", 302))
    web.put(SITE, "/to-missing", redirect("/missing", 302))
    web.put(SITE, "/loop", redirect("/loop2", 302))
    web.put(SITE, "/loop2", redirect("/loop", 302))
    web.put(SITE, "/pass", redirect(f"{other}/fine", 302))
    web.put(OTHER, "/robots.txt", "User-agent: *\nDisallow: /secret")
    web.put(OTHER, "/fine", "<a href=/deeper>not ours</a>" + 100_000 * "x")
    web.put(OTHER, "/way", redirect("/way2", 308))
    web.put(OTHER, "/way2", redirect("/no"))
    result = run_crawl("linkcheck", [web.url(SITE)], timeout=60, **OPTIONS, status=3)
    site, home, page = web.host(SITE), web.url(SITE), web.url(SITE, "/page")
    found = report(result.data_dir / "linkcheck.jsonl")
    problems = {url.replace(site, "").replace(other, "other"): one["problem"] for url, one in found.items()}
    assert problems == {
        "/no.png": "missing",
        "other/gone.js": "missing",
        "/page#nowhere": "anchor",
        "/#bottom": "anchor",
        "/missing": "missing",
        "/error": "broken",
        "/old": "redirect",
        "/to-missing": "missing",
        "other/no": "missing",
        "other/way": "missing",
        "other/secret": "unchecked",
        "/loop": "broken",
        "http://127.0.1.3:1/": "failed",
    }
    assert found[f"{site}/missing"]["referrers"] == [home, page]
    assert (found[f"{site}/missing"]["links"], found[f"{site}/missing"]["status"]) == (2, 404)
    assert found[f"{site}/old"]["target"] == page
    assert found[f"{other}/way"]["target"] == f"{other}/no"
    assert "deeper" not in str(web.urls())
    assert f"missing   {site}/missing  (404)\n            on {home}\n            on {page}" in result.stdout
    assert "1 redirect" in result.stdout.splitlines()[-1]


def test_loaded_resources_and_fragments_are_checked_as_in_browsers(
    local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(
        SITE,
        "/",
        """<link rel=stylesheet href=/s.css><style>a{b:url(/1)} @import "/no"</style><p style="c:url(/2)">
        <img src=/good srcset="/3 1x, /4 2x"><video poster=/5></video><table><td background=/6></table>
        <form action=/form></form><template><img src=/template></template>
        <a href="/page#here:~:text=x">good</a><a href="/page#:~:text=x">good</a><a href="/page#TOP">good</a>
        <a href="/page#a%20b">good</a><a href="/page#a b">good</a><a href="/page#c%20d">good</a>
        <a href="/page#HERE">no</a><a href="/page#nowhere:~:text=x">no</a>
        <a href="/old#here">good</a><a href="/old#nope">no</a><a href="/own#nope">not used</a>""",
    )
    web.put(SITE, "/page", '<p id="here"><p id="a b"><p id="c%20d">')
    web.put(SITE, "/good", Reply(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"}))
    style = "a{b:url(/7)} @import '/8.css';"
    web.put(SITE, "/s.css", Reply(style, headers={"Content-Type": "text/css"}))
    web.put(SITE, "/old", redirect("/page", 302))
    web.put(SITE, "/own", redirect("/page#here", 302))
    result = run_crawl("linkcheck", [web.url(SITE)], timeout=60, **OPTIONS, status=3)
    site = web.host(SITE)
    found = report(result.data_dir / "linkcheck.jsonl")
    problems = {url.replace(site, ""): one["problem"] for url, one in found.items()}
    missing = ["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8.css", "/no"]
    assert problems == dict.fromkeys(missing, "missing") | dict.fromkeys(
        ("/page#HERE", "/page#nowhere", "/old#nope"), "anchor"
    )
    assert found[f"{site}/7"]["referrers"] == [f"{site}/s.css"]
    assert found[f"{site}/old#nope"]["target"] == f"{site}/page"
    assert not {"/form", "/template"} & {request.path for request in web.log(SITE)}


def test_urls_of_an_abandoned_host_are_reported_as_broken(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    dead = "http://127.0.1.3:1"
    web.put(SITE, "/", "".join(f"<a href={dead}/{i}>x</a>" for i in range(6)) + "<a href=/way>y</a>")
    web.put(SITE, "/way", redirect(f"{dead}/way"))
    result = run_crawl("linkcheck", [web.url(SITE)], timeout=60, **OPTIONS, status=3)
    found = report(result.data_dir / "linkcheck.jsonl")
    assert {one["problem"] for one in found.values()} == {"failed"}
    assert all(one["error"] for one in found.values())
    assert set(found) == {f"{dead}/{i}" for i in range(6)} | {web.url(SITE, "/way")}
    assert found[web.url(SITE, "/way")]["target"] == f"{dead}/way"


def test_links_of_unarchived_and_truncated_pages_are_checked(
    local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE, OTHER)
    robots = '<meta name=robots content="{}"><a href=/no-{}>x</a>'
    words = " ".join(f"word{number}" for number in range(400))
    web.put(
        SITE, "/", "<a href=/a>a</a><a href=/b>b</a><a href=/1>1</a><a href=/2>2</a><a href=/long#end>l</a>"
    )
    web.put(
        SITE, "/a", robots.format("noindex", 1) + f"<a href={web.url(OTHER, '/no-2')}>x</a><img src=/no-3>"
    )
    web.put(SITE, "/b", robots.format("noarchive", 1) + "<a href=/old>x</a><a href=/way>y</a>")
    web.put(SITE, "/1", f"<p>{words} one")
    web.put(SITE, "/2", f"<p>{words} <a href=/no-4>two</a><a href=/long#start>s</a>")
    web.put(
        SITE,
        "/long",
        Reply("<p id=start>" + 9_000 * "x " + "<p id=end>", headers={"Link": "</no-5>; rel=next"}),
    )
    web.put(SITE, "/old", redirect("/1"))
    web.put(SITE, "/way", redirect("/no-6", 302))
    options = {**OPTIONS, "NEAR_DUPLICATES": "drop", "DOCUMENT_MAXSIZE": '{"text/html": 9000}'}
    result = run_crawl("linkcheck", [web.url(SITE)], timeout=60, **options, status=3)
    site, other = web.host(SITE), web.host(OTHER)
    found = report(result.data_dir / "linkcheck.jsonl")
    problems = {url.replace(other, "").replace(site, ""): one["problem"] for url, one in found.items()}
    missing = [f"/no-{number}" for number in range(1, 6)]
    assert problems == dict.fromkeys([*missing, "/way"], "missing") | {"/old": "redirect"}
    assert found[f"{site}/no-1"]["referrers"][0] in (f"{site}/a", f"{site}/b")
    assert found[f"{other}/no-2"]["referrers"] == [f"{site}/a"]
    assert len(found[f"{site}/no-4"]["referrers"]) == 1
    assert found[f"{site}/no-5"]["referrers"] == [f"{site}/long"]
    assert found[f"{site}/way"]["target"] == f"{site}/no-6"


def test_a_damaged_archive_prevents_the_report(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/missing>x</a>")
    result = run_crawl("linkcheck", [web.url(SITE)], **OPTIONS, status=3)
    (archived,) = (result.data_dir / "warc").glob("*.warc.gz")
    archived.write_bytes(b"damaged")
    (result.data_dir / "linkcheck.jsonl").unlink()
    for spider in ("linkcheck", "mirror"):
        result = run_crawl(spider, [web.url(SITE)], **OPTIONS, CRAWL_ID="linkcheck", status=1)
        assert (result.returncode, result.stdout) == (1, ""), result.stderr
        assert f": {archived.name} at byte " in result.stderr and "Traceback" not in result.stderr
    assert not (result.data_dir / "linkcheck.jsonl").exists()


def test_external_links_are_unchecked_with_external_no(
    local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", f"<a href={web.host(OTHER)}/no>other</a> <a href=/old>old</a> <img src=/old>")
    web.put(SITE, "/old", redirect("/"))
    arguments = {"external": "no", "report": tmp_path / "mine.jsonl"}
    result = run_crawl("linkcheck", [web.url(SITE)], arguments=arguments, **OPTIONS)
    assert web.log(OTHER) == []
    assert {one["problem"] for one in report(tmp_path / "mine.jsonl").values()} == {"redirect", "unchecked"}
    assert result.stdout.splitlines()[-1] == "Links: 1 redirect, 1 unchecked."


def test_an_unreachable_site_and_an_unwritable_report_fail(run_crawl: RunCrawl, tmp_path: Path) -> None:
    arguments = {"report": tmp_path / "no" / "report.jsonl"}
    options = {**OPTIONS, "FRONTIER_MAX_ATTEMPTS": 1}
    result = run_crawl("linkcheck", ["http://127.0.1.3:1/"], arguments=arguments, **options, status=1)
    assert (result.returncode, result.stdout) == (1, "")
    assert "Cannot make the report: " in result.stderr and "Traceback" not in result.stderr
    result = run_crawl("linkcheck", ["http://127.0.1.3:1/"], **options, status=3)
    assert (result.returncode, result.stdout.splitlines()[-1]) == (3, "Links: 1 failed.")


def test_control_characters_are_escaped_in_the_output() -> None:
    printed = table(
        [Problem("http://a/", "failed", error="said \x1b[2J\n\x9b1m", referrers=["http://b/"], links=1)]
    )
    assert printed == (
        "failed    http://a/  (said \\u001b[2J\\u000a\\u009b1m)\n            on http://b/\nLinks: 1 failed."
    )


def test_with_stored_links_all_pages_and_texts_are_reported(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web, pages = local_web(SITE), range(60)
    web.put(SITE, "/", "".join(f"<a href=/{number}>{number}</a>" for number in pages))
    for number in pages:
        # what is not in the archive is in the link store
        robots = "<meta name=robots content=noarchive>" if number == 7 else ""
        link = f"<a href=/missing>old <b>text {number}</b></a><a href=/missing><img alt=again src=/i.png></a>"
        web.put(SITE, f"/{number}", f"{robots}<p>page {number}</p>{link}")
    web.put(SITE, "/i.png", Reply(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"}))
    result = run_crawl("linkcheck", [web.url(SITE)], timeout=60, LINKS=True, **OPTIONS, status=3)
    [problem] = report(result.data_dir / "linkcheck.jsonl").values()
    urls = [web.url(SITE, f"/{number}") for number in pages]
    assert sorted(problem["referrers"]) == sorted(urls) and problem["links"] == 60
    texts = sorted((one["page"], one["text"]) for one in problem["texts"])
    assert texts == sorted((url, text) for n, url in enumerate(urls) for text in (f"old text {n}", "again"))
    assert f"on {problem['referrers'][0]}  " in result.stdout
