"""Measures `scrapy reparse` on real documentation: `python -m benchmarks.reparse [--copies 6] [FOLDER ...]`.

Needs, by default, Debian's packages python3-doc and postgresql-doc-15. Each folder is crawled from several addresses,
which add a line to each page, so that no page is an exact copy of another. Then the archive is read again, by one
process and by two. The times are those of the whole command, with its start.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

from tests.crawls import CHECKOUT, crawl_hosts
from tests.web import LocalWeb

FOLDERS = ["/usr/share/doc/python3-doc/html", "/usr/share/doc/postgresql-doc-15/html"]
PROCESSES = (1, 2)


def main() -> None:
    """Prints a line for each number of processes."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=6, help="addresses for each folder")
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    options = parser.parse_args()
    sites = {
        f"127.0.{number + 1}.{copy + 1}": Path(folder)
        for number, folder in enumerate(options.folders)
        for copy in range(options.copies)
    }
    with tempfile.TemporaryDirectory() as folder:
        with LocalWeb(*sites) as web:
            for site, home in sites.items():
                publish(web, site, home)
            result = crawl_hosts([web.url(site) for site in sites], Path(folder), timeout=1200)
            archive = sum(path.stat().st_size for path in Path(folder).rglob("*.warc.gz"))
            print(f"{len(result.rows()):,} rows, {archive / 1e6:,.0f} MB of WARC", flush=True)
        print("processes   pages  seconds  pages/s  CPU ms a page")
        for processes in PROCESSES:
            print(measured(result.data_dir, processes), flush=True)


def publish(web: LocalWeb, site: str, home: Path) -> None:
    """Publishes the pages of a folder, and a list of them."""
    names = sorted(str(path.relative_to(home)) for path in home.rglob("*.html"))
    for name in names:
        web.put(site, f"/{name}", (home / name).read_bytes() + f"\n<!-- {site} -->\n".encode())
    web.put(site, "/", "".join(f"<a href='/{name}'>{name}</a>" for name in names))


def measured(data_dir: Path, processes: int) -> str:
    """Reads all pages again."""
    options = [
        "--processes",
        str(processes),
        "--again",
        "--json",
        "-s",
        f"DATA_DIR={data_dir}",
        "-s",
        "PROGRESS=off",
    ]
    began, cpu = time.monotonic(), _cpu()
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "reparse", "broad", *options],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        check=True,
    )
    seconds, cpu, told = time.monotonic() - began, _cpu() - cpu, json.loads(done.stdout)
    pages = told["rows"]
    return (
        f"{processes:>9}  {pages:>6}  {seconds:>7.1f}  {pages / seconds:>7.0f}  {1000 * cpu / pages:>13.1f}"
    )


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
