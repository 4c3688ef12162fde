"""nginx with the pages of the side-by-side benchmark, its certificates, and its log, which shows what was fetched."""

from __future__ import annotations

import datetime
import functools
import ipaddress
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from selectolax.lexbor import LexborHTMLParser

from benchmarks import shards
from benchmarks.servers import accepts, free_port, wait_until
from benchmarks.sites import MANY, THOUSAND, THOUSANDS, Site, available
from tests.crawls import CrawlResult, crawl_hosts

START_ADDRESS = "127.0.2.11"
"""A site of one page without links; crawling it costs as much as starting and ending all processes."""
_START_WORDS = 6_000
"""As long as other pages, so that processes start that are only started for large pages."""
_DAY = datetime.timedelta(days=1)
WEBS = {
    "http": "HTTP, a host for each site",
    "https": "HTTPS, a host for each site",
    "many": f"HTTPS, {len(MANY)} hosts, a handshake every four pages",
    "thousand": f"HTTP, {len(THOUSAND):,} hosts of {shards.A_HOST} pages, a second between requests to a host",
    "polite": f"HTTP, {len(THOUSANDS):,} hosts of {shards.A_HOST} pages, a second between requests to a host",
    "small": f"HTTP, {len(THOUSANDS):,} hosts of {shards.A_HOST} small pages: at most {shards.SMALL // 1000} KB",
}
_THOUSANDS = ("thousand", "polite", "small")
"""Kinds of webs of thousands of hosts."""


@dataclass(frozen=True, slots=True)
class Got:
    """What one crawl fetched, as the server logged it.

    pages        distinct HTML pages answered with 200
    again        repeated requests for pages
    other        other requests: robots.txt, missing pages, files other than HTML
    seconds      from the first answer to the last
    kilobytes    mean size of a page
    links        mean number of `a` elements with href of a page
    connections  TCP connections, each with a handshake over HTTPS
    gaps         seconds between two requests for pages of a host: the shortest, median, 95th percentile, longest
    hosts        mean number of hosts that are between their first and their last page
    """

    pages: int
    again: int
    other: int
    seconds: float
    kilobytes: float
    links: float
    connections: int
    gaps: list[float]
    hosts: int


def without_declarations(site: Site, folder: Path) -> Path:
    """Copies a site, without the XML declarations of its pages: spider-rs finds no links in a page that has one."""
    shutil.copytree(site.folder, folder, copy_function=shutil.copy)
    for page in folder.rglob("*.html"):
        text = page.read_bytes()
        if text.startswith(b"<?xml"):
            page.write_bytes(text.partition(b"?>")[2].lstrip())
    return folder


class Web:
    """One of WEBS. `seeds` and `start` are where crawls begin; `authority` is the file of the CA or None.

    `per_host` is the number of concurrent requests to a host: one if there are many hosts, as is usual on the real web.
    `delay` is the number of seconds between two of them.
    """

    def __init__(self, kind: str, sites: list[Site], home: Path) -> None:
        self._home = home
        self._port = free_port(START_ADDRESS)
        self.per_host = 1 if kind in ("many", *_THOUSANDS) else 16
        self.delay = 1.0 if kind in _THOUSANDS else 0.0
        self._keepalive = 4 if kind == "many" else 100_000
        self._folders = {START_ADDRESS: home / "start"}
        self.authority = None if kind in ("http", *_THOUSANDS) else home / "ca.pem"
        base = f"{'https' if self.authority else 'http'}://{{}}:{self._port}"
        self.start = base.format(START_ADDRESS) + "/index.html"
        home.chmod(0o755)  # nginx reads files as the user nobody
        (home / "start").mkdir()
        start = "<title>Start</title><p>One page without a link." + " A word." * _START_WORDS
        (home / "start" / "index.html").write_text(start)
        if kind == "many":
            self.seeds = shards.deal(sites, MANY, base, home / "shards")
            self._folders |= {address: home / "shards" / address for address in MANY}
        elif kind in _THOUSANDS:
            most = shards.SMALL if kind == "small" else None
            addresses = THOUSAND if kind == "thousand" else THOUSANDS
            self.seeds = shards.repeat(sites, addresses, base, home / "shards", most)
            self._folders |= {address: home / "shards" / address.rpartition(".")[2] for address in addresses}
        else:
            self.seeds = [base.format(site.address) + "/index.html" for site in sites]
            self._folders |= {site.address: without_declarations(site, home / site.address) for site in sites}
        if self.authority:
            issue_certificates(home, self._folders)

    @contextmanager
    def served(self) -> Iterator[None]:
        """Runs nginx."""
        if not shutil.which("nginx"):
            raise SystemExit("The benchmark needs nginx: apt install nginx")
        (self._home / "nginx.conf").write_text(self._configuration())
        server = subprocess.Popen(["nginx", "-c", str(self._home / "nginx.conf")])
        try:
            wait_until(partial(accepts, START_ADDRESS, self._port), server, self._home / "error.log")
            yield
        finally:
            server.terminate()
            server.wait()

    def forget(self) -> None:
        """Empties the log."""
        (self._home / "access.log").write_bytes(b"")

    def got(self) -> Got:
        """What was fetched since the log was emptied."""
        times: list[float] = []
        began: dict[str, list[float]] = {}
        hits: dict[tuple[str, str], int] = {}
        connections = set()
        other = size = links = 0
        for line in (self._home / "access.log").read_text().splitlines():
            moment, took, status, sent, kind, address, connection, path = line.split(maxsplit=7)
            times.append(float(moment))
            connections.add(connection)
            if status != "200" or not kind.startswith("text/html"):
                other += 1
                continue
            page = address, path
            hits[page] = hits.get(page, 0) + 1
            began.setdefault(address, []).append(float(moment) - float(took))
            if hits[page] == 1:
                size += int(sent)
                links += _links(self._folders[address] / unquote(path.lstrip("/")))
        pages, seconds = max(len(hits), 1), max(times, default=0.0) - min(times, default=0.0)
        return Got(
            len(hits),
            sum(hits.values()) - len(hits),
            other,
            round(seconds, 3),
            round(size / pages / 1000, 1),
            round(links / pages, 1),
            len(connections),
            _gaps(began.values()),
            round(sum(max(of_host) - min(of_host) for of_host in began.values()) / max(seconds, 1)),
        )

    def _configuration(self) -> str:
        servers = self._one_server() if self.delay else self._servers()
        line = "'$msec $request_time $status $body_bytes_sent $sent_http_content_type $server_addr $connection $uri';\n"
        return (
            f"daemon off; worker_processes 1; pid {self._home}/nginx.pid; error_log {self._home}/error.log;\n"
            "events { worker_connections 8192; }\n"
            f"http {{ include /etc/nginx/mime.types; keepalive_requests {self._keepalive};\n"
            f"log_format direct {line}access_log {self._home}/access.log direct;\n{servers}}}\n"
        )

    def _servers(self) -> str:
        return "".join(
            f"server {{ listen {address}:{self._port}{self._secure(address)} root {folder}; index index.html; }}\n"
            for address, folder in self._folders.items()
        )

    def _one_server(self) -> str:
        """Hosts that share the last byte of their address share a folder; thousands of servers would start slowly."""
        return (
            "map $server_addr $last { ~\\.(?<byte>\\d+)$ $byte; }\n"
            f"server {{ listen {START_ADDRESS}:{self._port}; root {self._home}/start; index index.html; }}\n"
            f"server {{ listen 0.0.0.0:{self._port}; root {self._home}/shards/$last; }}\n"
        )

    def _secure(self, address: str) -> str:
        if self.authority is None:
            return ";"
        return f" ssl http2; ssl_certificate {self._home}/{address}.pem; ssl_certificate_key {self._home}/key.pem;"


def crawl_documentation(home: Path, **settings: object) -> CrawlResult:
    """Crawls all sites from nginx, with the data in a folder."""
    web = Web("http", available(), home)
    with web.served():
        return crawl_hosts(web.seeds, home, timeout=800, ALLOWED_NETWORKS="127.0.0.0/8", **settings)


@functools.lru_cache(maxsize=10_000)
def _links(page: Path) -> int:
    return len(LexborHTMLParser(page.read_bytes()).css("a[href]"))


def _gaps(began: Iterable[list[float]]) -> list[float]:
    """The shortest, median, 95th percentile and longest of the seconds between two requests to a host."""
    gaps = sorted(after - before for of_host in began for before, after in pairwise(sorted(of_host)))
    last = len(gaps) - 1
    return [round(gaps[round(part * last)], 3) for part in (0, 0.5, 0.95, 1)] if gaps else []


def issue_certificates(folder: Path, addresses: Iterable[str]) -> None:
    """Writes ca.pem, key.pem and an ADDRESS.pem for each address. Keys are ECDSA, like most on the web."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, now = "webcrawl benchmark CA", datetime.datetime.now(datetime.UTC)

    def write(file: str, subject: str, of: ec.EllipticCurvePrivateKey, *more: x509.ExtensionType) -> None:
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
        made = x509.CertificateBuilder(names[1], names[0], of.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - _DAY).not_valid_after(now + 7 * _DAY)
        constraints = x509.BasicConstraints(ca=of is authority, path_length=None)
        for extension in (constraints, *more):
            made = made.add_extension(extension, critical=extension is constraints)
        pem = made.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        (folder / file).write_bytes(pem)

    write("ca.pem", issuer, authority)
    for address in addresses:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        write(f"{address}.pem", address, key, names)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
