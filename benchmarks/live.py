"""The live lane beside a broad crawl of the same 1,000 loopback hosts: from a message to its event, in seconds.

    make bench-live [ARGS="--seconds 600 --rate 200 --delay 1 --workers 2 --rows 5000000 --plot FILE.svg"]

Half of the URLs are short links of two to four hops. The broad crawl runs with `nice`, as
docs/howto/put-a-stream-in.md recommends. After half of the time the lane's worker is killed (-9) and
started again, after three quarters Valkey. The exit status is 1 if a message is lost. `--plot` draws median and 99th
percentile over the run. The row `by turns alone` has the times that a lane without any cost would need: a simulation
in which URLs and redirects only wait for the turns of their hosts, and the broad crawl asks hosts that nobody asks.
`--rows` adds a service with so many rows, and reads them: 10,000 URLs a second in batches of 20, 2,000 single ones.
The memory of the processes is that after a quarter of the run and at its end:
`--seconds 1200 --rate 72 --no-kill --no-crawl` is a day at a URL a second.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import subprocess
import tempfile
import time
from argparse import Namespace
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from runpy import run_path
from statistics import quantiles
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import RedisError

from benchmarks.chaos_engines import Server
from benchmarks.command import ROOT, broad, command_line, scrapy, table, write_figures
from benchmarks.measured import tree
from benchmarks.reads import fill, keep_in_memory, read_pages, reads_table
from benchmarks.servers import RULES, Names, RequestLog, answer, free_port, requests, serve_web, serving

PARTS = 40
"""The parts of a run in a plot."""
HOSTS, WORDS, ENDING_SECONDS = 1_000, " A word of a page." * 300, 90.0
HOPS = (0, 0, 0, 2, 3, 4)
STREAM, EVENTS = "live:urls", "wc:{c:live}:pages"
MEMORY = ("MB after a quarter", "MB at the end")


class Engine(Server):
    """A kill loses nothing that the system has, as in a default installation with `appendonly yes`."""

    fsync = "everysec"


def address(number: int) -> str:
    return f"127.1.{number // 250}.{number % 250 + 1}"


async def serve(port: int, log: Path, ready: Any) -> None:
    """Answers /live/ID/N by a redirect to N - 1 on another host; every other page links to 20 pages of its host."""
    hits = RequestLog(log)

    async def respond(authority: str, path: str, stream: Any) -> None:
        hits.write(f"{authority}{path}")
        kind, _, rest = path[1:].partition("/")
        name, _, hops = rest.partition("/")
        if kind == "live" and int(hops):
            to = f"http://{address(random.Random(path).randrange(HOSTS))}:{port}/live/{name}/{int(hops) - 1}"
            stream.write(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())
        elif path == "/robots.txt":
            stream.write(answer("200 OK", RULES, "text/plain"))
        else:
            links = "".join(f"<a href=/{kind}{n}>x</a>" for n in range(20)) if len(kind) < 4 else ""
            stream.write(answer("200 OK", f"<title>{path}</title><p>{WORDS}{links}".encode()))

    await serve_web(respond, port, Names(lambda _: None), 0, ready)


def put(engine: Redis, port: int, number: int) -> None:
    hops = random.choice(HOPS)
    url = f"http://{address(random.randrange(HOSTS))}:{port}/live/{number}/{hops}"
    engine.xadd(STREAM, {"url": url, "id": str(number), "max_age": "3600"})


class Uses:
    """Processor time and memory of a run's processes over time. `roots`: name -> the processes, some ended."""

    def __init__(self, roots: Mapping[str, Sequence[int]]) -> None:
        self._roots = roots
        self._spent: dict[int, float] = {}
        self.at: list[float] = []
        self.looks: list[dict[str, tuple[float, float]]] = []
        """By name: seconds of processor time so far, and MB now."""

    def look(self) -> None:
        look = {}
        for name, roots in self._roots.items():
            megabytes = 0.0
            for root in roots:
                if processes := tree(root).values():
                    self._spent[root] = sum(process.cpu for process in processes)
                    megabytes += sum(process.kib for process in processes) / 1024
            look[name] = sum(self._spent.get(root, 0.0) for root in roots), megabytes
        self.looks.append(look)
        self.at.append(time.monotonic())

    def figures(self) -> dict[str, dict[str, float]]:
        first, quarter, last = self.looks[0], self.looks[len(self.looks) // 4], self.looks[-1]
        seconds = self.at[-1] - self.at[0]
        return {
            name: {
                "core seconds": last[name][0] - first[name][0],
                "cores": (last[name][0] - first[name][0]) / seconds,
                "MB after a quarter": quarter[name][1],
                "MB at the end": last[name][1],
            }
            for name in first
        }


class Ran(NamedTuple):
    """When each message was put; how many seconds later its event came; the log of the web; the use of processes.

    since    the monotonic time of the first message
    waiting  messages that were not finished at the end
    """

    since: float
    waiting: set[int]
    put_at: dict[int, float]
    took: dict[int, float]
    log: Path
    uses: dict[str, dict[str, float]]


def run(options: Namespace, home: Path) -> Ran:
    port, log, engine = free_port("0.0.0.0"), home / "log", Engine(home, 16)
    (home / "seeds").write_text("\n".join(f"http://{address(n)}:{port}/" for n in range(HOSTS)))
    own = {**engine.settings, "DATA_DIR": home / "data", "DOWNLOAD_DELAY": options.delay}
    own |= {"ALLOWED_NETWORKS": "127.0.0.0/8", "DNS_SERVERS": "127.0.0.1:9", "FRONTIER_LEASE_SECONDS": 10}
    database = (options.database or home / "pages.db").absolute()
    own["METADATA_URI"] = f"sqlite:///{database}"
    if options.rows and not database.exists():
        fill(own["METADATA_URI"], options.rows)
    if options.rows:
        keep_in_memory(database)
    lane, serve_at = scrapy("crawl", "live", **own), free_port("127.0.0.1")
    client, put_at, took, last = Redis.from_url(engine.url), {}, dict[int, float](), b"0"
    commands = {}
    if options.crawl:
        commands["crawl"] = ["nice", "-n", str(options.nice), *broad(f"@{home}/seeds", "host", own)]
    if options.rows:
        commands["service"] = scrapy("serve", "--no-worker", "--port", str(serve_at), **own)
    with serving(serve, port, log), ExitStack() as reading:
        processes = {name: [subprocess.Popen(command, cwd=ROOT)] for name, command in commands.items()}
        processes["lane"] = [subprocess.Popen(lane, cwd=ROOT) for _ in range(options.workers)]
        roots = {name: [process.pid for process in each] for name, each in processes.items()}
        roots["engine"] = [client.info("server")["process_id"]]
        uses = Uses(roots)
        try:
            time.sleep(options.warm_up)
            if options.rows:
                reads = serving(read_pages, serve_at, options.rows, options.seconds, home / "reads.json")
                reading.enter_context(reads)
            began, kills = time.time(), [(0.75, engine.kill, engine.revive), (0.5, None, None)]
            while (now := time.time() - began) < options.seconds + ENDING_SECONDS:
                if now > len(uses.looks) * options.seconds / PARTS and now <= options.seconds:
                    uses.look()
                if kills and options.kill and now > kills[-1][0] * options.seconds:
                    _, kill, revive = kills.pop()
                    if kill:
                        kill(), revive()
                        roots["engine"].append(client.info("server")["process_id"])
                    else:
                        processes["lane"][0].kill()
                        processes["lane"].append(subprocess.Popen(lane, cwd=ROOT))
                        roots["lane"].append(processes["lane"][-1].pid)
                try:
                    while len(put_at) < min(now, options.seconds) * options.rate:
                        put(client, port, len(put_at))
                        put_at[len(put_at)] = time.time()
                    for _, entries in client.xread({EVENTS: last}, count=1000, block=20) or []:
                        for last, fields in entries:
                            (name,) = json.loads(fields[b"page"])["ids"]
                            took.setdefault(int(name), int(last.split(b"-")[0]) / 1000 - put_at[int(name)])
                except RedisError:
                    time.sleep(0.1)
                is_read = not options.rows or (home / "reads.json").exists()
                if now > options.seconds and len(took) == len(put_at) and is_read:
                    break
            uses.look()
            waiting = {int(fields[b"id"]) for _, fields in client.xrange(STREAM)}
        finally:
            for process in chain.from_iterable(processes.values()):
                process.kill()
            engine.end()
    return Ran(uses.at[0], waiting, put_at, took, log, uses.figures())


def by_turns_alone(rate: float, delay: float, others: float, seconds: float = 120.0) -> list[float]:
    """Returns the sorted seconds from messages to answers if nothing but the turns of hosts took time.

    `others`: requests a second of the broad crawl, each to a host whose turn it is.
    """
    chosen = random.Random(0)
    waiting: dict[int, deque[tuple[float, int]]] = defaultdict(deque)
    resting, took, numbers = set[int](), list[float](), itertools.count()
    events: list[tuple[float, int, int, float, int]] = []

    def later(at: float, host: int, put: float = 0.0, hops: int = -1) -> None:
        heapq.heappush(events, (at, next(numbers), host, put, hops))

    def ask(host: int, at: float) -> None:
        resting.add(host)
        later(at + delay, host)
        if waiting[host]:
            put, hops = waiting[host].popleft()
            if hops:
                later(at, chosen.randrange(HOSTS), put, hops - 1)
            else:
                took.append(at - put)

    for number in range(round(rate * seconds)):
        later(number / rate, chosen.randrange(HOSTS), number / rate, chosen.choice(HOPS))
    for number in range(round(others * seconds)):
        later(number / others, -1)
    while events:
        at, _, host, put, hops = heapq.heappop(events)
        if host < 0:
            host = next((host for host in chosen.choices(range(HOSTS), k=50) if host not in resting), -1)
            if host >= 0:
                ask(host, at)
        elif hops < 0:
            resting.discard(host)
            if waiting[host]:
                ask(host, at)
        else:
            waiting[host].append((put, hops))
            if host not in resting:
                ask(host, at)
    return sorted(took)


def over_time(put_at: dict[int, float], took: dict[int, float]) -> list[dict[str, float]]:
    """Returns median and 99th percentile of the messages that were put in each part of the run, and when it was."""
    first, last = min(put_at.values()), max(put_at.values())
    width = max(last - first, 1e-9) / PARTS
    parts: dict[int, list[float]] = {}
    for number, seconds in took.items():
        parts.setdefault(min(int((put_at[number] - first) / width), PARTS - 1), []).append(seconds)
    return [
        {
            "at": round((part + 0.5) * width, 3),
            "p50": sorted(times)[len(times) // 2],
            "p99": sorted(times)[min(int(0.99 * len(times)), len(times) - 1)],
        }
        for part, times in sorted(parts.items())
    ]


def plot(points: list[dict[str, float]], note: str) -> str:
    """Returns the plot of `over_time` as SVG."""
    lines = run_path(str(ROOT / "docs" / "site" / "plots.py"))["lines"]
    series = {
        name: [(point["at"], point[key]) for point in points]
        for name, key in (("median", "p50"), ("99 of 100", "p99"))
    }
    return str(lines("Seconds from message to event", note, series, "seconds of the run"))


def main() -> None:
    numbers: dict[str, Any] = {"seconds": 600, "rate": 200.0, "delay": 1.0, "warm_up": 20, "nice": 10}
    drawn = Path, "draw the times over the run into this file"
    numbers["workers"] = 1, "processes of the lane"
    numbers["rows"] = 0, "of metadata, which are read over HTTP; 0 reads nothing"
    numbers["database"] = Path, "the file with these rows, which a first run makes"
    options = command_line(
        __doc__,
        json=True,
        **numbers,
        kill=(True, "kill nothing"),
        crawl=(True, "no broad crawl beside it"),
        plot=drawn,
    ).parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-live-", ignore_cleanup_errors=True) as folder:
        since, waiting, put_at, took, log, uses = run(options, Path(folder))
        logged = requests(log)
        reads = reads_table(Path(folder) / "reads.json", options.seconds) if options.rows else ("", {})
    calm = min(put_at.values()) + options.seconds * (0.4 if options.kill else 1)
    rows, figures = [], {}
    for name, chosen in {"before the kills": lambda at: at <= calm, "all": lambda at: True}.items():
        times = sorted(seconds for number, seconds in took.items() if chosen(put_at[number]))
        cuts = quantiles(times, n=100)
        figures[name] = {"messages": len(times), "p50": cuts[49], "p99": cuts[98], "most": times[-1]}
        rows.append((name, len(times), *(f"{part:.2f}" for part in (cuts[49], cuts[98], times[-1]))))
    hits = Counter(what for _, what in logged)
    again = sum(number - 1 for what, number in hits.items() if "/live/" in what)
    others = sum(0 <= at - since <= options.seconds for at, what in logged if "/live/" not in what)
    unanswered = put_at.keys() - took.keys()
    lost = len(unanswered - waiting)
    least = by_turns_alone(options.rate, options.delay, others / options.seconds)
    cuts = quantiles(least, n=100)
    figures["by turns alone"] = {"messages": len(least), "p50": cuts[49], "p99": cuts[98], "most": least[-1]}
    rows.append(("by turns alone", len(least), *(f"{part:.2f}" for part in (cuts[49], cuts[98], least[-1]))))
    print(table("messages|number:|p50 s:|p99 s:|longest s:", rows))
    print(f"{lost} lost, {len(unanswered & waiting)} not answered in time")
    print(f"{again} requests repeated, {others / options.seconds:.0f} other requests a second")
    asked = sum(number for what, number in hits.items() if "/live/" in what)
    used = [
        (name, f"{each['cores']:.2f}", *(f"{each[when]:.0f}" for when in MEMORY))
        for name, each in uses.items()
    ]
    print(table(f"|cores:|{'|'.join(f'{when}:' for when in MEMORY)}", used))
    print(f"The lane used {1e3 * uses['lane']['core seconds'] / asked:.2f} ms of a core for a request")
    if options.rows:
        print(reads[0])
    points = over_time(put_at, took)
    write_figures(
        options.json, times=figures, over_time=points, lost=lost, again=again, uses=uses, reads=reads[1]
    )
    if options.plot:
        options.plot.write_text(
            plot(points, f"{options.rate:g} URLs a second, load {os.getloadavg()[0]:.1f}")
        )
    raise SystemExit(lost > 0)


if __name__ == "__main__":
    main()
