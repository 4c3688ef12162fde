"""The examples for language models: a crawl in pieces, and the pieces that are nearest to a question."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import CHECKOUT, CrawlResult
from tests.web import LocalWeb

EXAMPLES = CHECKOUT / "examples" / "language_model"
SITE = "127.0.1.1"
WORDS = ("owl", "night", "river", "salmon", "spring")
PROSE = "This sentence is here because a page of a few words has no main part. " * 6


class Vectors(BaseHTTPRequestHandler):
    """Returns how often each of a few words is in a text."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)  # type: ignore[attr-defined]
        vectors = [[len(re.findall(word, text.lower())) for word in WORDS] for text in asked["input"]]
        body = json.dumps({"data": [{"embedding": vector} for vector in vectors]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Vectors) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield server
        server.shutdown()


def run(example: str, *words: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_crawl_answers_a_question(
    local_web: Callable[..., LocalWeb], crawl: Callable[..., CrawlResult], server: Any, tmp_path: Path
) -> None:
    web = local_web(SITE)
    owls = f"<h1>Birds</h1><p>{PROSE}</p><h2>Owls</h2><p>An owl hunts at night. {PROSE}</p><pre># no heading</pre>"
    salmon = f"<h1>Fish</h1><p>In spring, salmon go up the river. {PROSE * 6}</p>"
    web.put(SITE, "/owls", f"<html lang=en><title>Owls</title><main>{owls}</main>")
    web.put(SITE, "/salmon", f"<html lang=en><title>Salmon</title><main>{salmon}</main>")
    web.put(SITE, "/gone", "<title>gone</title>")
    home = web.put(SITE, "/", "<a href=/owls>owls</a> <a href=/salmon>salmon</a> <a href=/none>none</a>")
    result = crawl([home], TEXT="parquet", TEXT_MARKDOWN=True)
    lines = run("chunks.py", str(result.data_dir), "--characters", "1000")
    pieces = [json.loads(line) for line in lines.splitlines()]
    assert {piece["url"] for piece in pieces} == {home, web.url(SITE, "/owls"), web.url(SITE, "/salmon")}
    assert max(len(piece["text"]) for piece in pieces) <= 1000
    of_owls = [piece for piece in pieces if piece["title"] == "Owls"]
    assert [piece["headings"] for piece in of_owls] == [["Birds"], ["Birds", "Owls"]]
    assert of_owls[0]["language"] == "en" and re.match(r"20\d\d-\d\d-\d\dT", of_owls[0]["fetched_at"])
    assert len([piece for piece in pieces if piece["title"] == "Salmon"]) > 2
    assert len({piece["id"] for piece in pieces}) == len(pieces)

    options = [
        "--server",
        f"http://127.0.0.1:{server.server_address[1]}/",
        "--file",
        str(tmp_path / "chunks.db"),
    ]
    run("ask.py", *options, "--add", given=lines)
    added = len(server.asked)
    run("ask.py", *options, "--add", given=lines)
    assert added and len(server.asked) == added, "what has not changed is not sent again"
    answer = run("ask.py", *options, "--most", "1", "Which owl hunts at night?")
    assert answer.startswith(f"[1] {web.url(SITE, '/owls')} (20") and "An owl hunts at night." in answer
    assert answer.endswith("Which owl hunts at night?\n") and "salmon" not in answer
