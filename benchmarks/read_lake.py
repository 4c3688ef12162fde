"""Reads the tables of Iceberg of two crawls in S3 with other programs only, beside what is true.

    make read-lake [ARGS="--pages 300"]

A site of known pages is crawled into an S3 server (SeaweedFS) with `LAKE`, then a tenth of its pages changes, and it is
crawled again. pyiceberg, DuckDB and Spark read the present tables and those after the first run, and join them. Spark
is left out without Java and Maven, which loads its files. The exit status is 1 if an answer is wrong.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from benchmarks.beside_truth import read_elsewhere, report
from benchmarks.command import ROOT, command_line
from benchmarks.known_site import COPIES, GONE, ODD, REDIRECTS, KnownSite
from tests.crawls import crawl_hosts
from tests.project.documentation import blocks
from tests.s3server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.stores.buckets import environment

TABLES = "pages", "texts", "links"
_JARS = (
    "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
    "org.xerial:sqlite-jdbc:3.53.4.0",
)
_REPOSITORY = Path.home() / ".m2" / "repository"
_WAREHOUSE = "s3://pages/crawl/lake"
_PRESENT = "WHERE position = 1"


def truth(site: KnownSite, data: Path) -> dict[str, Any]:
    """A second fetch of an unchanged page adds no text. The links are those that all readers have to agree on."""
    pages = 1 + site.pages + ODD + COPIES + GONE + REDIRECTS
    texts, changed = 1 + site.pages + ODD, len(range(0, site.pages, 10))
    with closing(sqlite3.connect(data / "metadata.db")) as database:
        ((simhashes,),) = database.execute("SELECT group_concat(simhash) FROM pages").fetchall()
    return {
        "rows of pages after the first run": pages,
        "rows of texts after the first run": texts + GONE,
        "rows of pages": pages,
        "rows of texts": texts + GONE + changed,
        "present texts": texts,
        "present texts that are new": changed,
        "sum of SimHashes": sum(map(int, simhashes.split(","))),
    }


def jars() -> list[str]:
    """The files of Iceberg for Spark, loaded by Maven; none without Java or Maven."""
    if not all(shutil.which(program) for program in ("java", "mvn")):
        print("Spark is left out: it needs java and mvn")
        return []
    found = []
    for artefact in _JARS:
        group, name, version = artefact.split(":")
        path = _REPOSITORY.joinpath(*group.split("."), name, version, f"{name}-{version}.jar")
        if not path.exists():
            words = ("mvn", "-q", "dependency:get", f"-Dartifact={artefact}", "-Dtransitive=false")
            subprocess.run(words, check=True)
        found.append(str(path))
    return found


def by_pyiceberg(catalogue: SqlCatalog) -> dict[str, Any]:
    tables = {name: catalogue.load_table(("webcrawl", name)) for name in TABLES}
    pages = tables["pages"].scan(selected_fields=("simhash",)).to_arrow()
    return {
        **{f"rows of {name} after the first run": _rows(table, 0) for name, table in tables.items()},
        **{f"rows of {name}": _rows(table, -1) for name, table in tables.items()},
        "sum of SimHashes": sum(value for value in pages["simhash"].to_pylist() if value is not None),
    }


def _rows(table: Any, number: int) -> int:
    return len(table.scan(snapshot_id=table.history()[number].snapshot_id).to_arrow())


def main() -> int:
    options = command_line(__doc__, pages=(300, "pages of the site")).parse_args()
    site = KnownSite(options.pages)
    (present,) = (text for text in blocks(ROOT / "docs" / "guide" / "lake.md", "sql") if _PRESENT in text)
    files = jars()
    with (
        tempfile.TemporaryDirectory() as name,
        tempfile.TemporaryDirectory() as s3,
        site.web,
        S3Server(Path(s3)) as server,
    ):
        server.client.create_bucket(Bucket="pages")
        os.environ.update(environment(server))
        settings = {"STORE_URI": "s3://pages/crawl", "LAKE": "iceberg", "TEXT": "parquet", "LINKS": True}
        for version, crawl in enumerate(("first", "second"), 1):
            site.version = version
            site.publish()
            data = crawl_hosts([site.home], Path(name), timeout=600, CRAWL_ID=crawl, **settings).data_dir
        endpoint = f"http://127.0.0.1:{server.port}"
        store = {"s3.endpoint": endpoint, "s3.region": "us-east-1"}
        keys = {"s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY}
        with closing(
            SqlCatalog("webcrawl", uri=f"sqlite:///{data}/metadata.db", **store, **keys)
        ) as catalogue:
            read = {"pyiceberg": by_pyiceberg(catalogue)}
            first = {
                table: catalogue.load_table(("webcrawl", table)).history()[0].snapshot_id for table in TABLES
            }
        asked = {
            **{"endpoint": endpoint, "region": "us-east-1", "key": ACCESS_KEY, "secret": SECRET_KEY},
            **{"catalogue": str(data / "metadata.db"), "warehouse": _WAREHOUSE, "first": first},
            **{"jars": files, "present": present.strip().rstrip(";")},
        }
        read |= read_elsewhere("readers_lake.py", asked)
        right = truth(site, data)
        # of links, which a fetch of an unchanged page may repeat, the readers have to agree
        right |= {question: answer for question, answer in read["DuckDB"].items() if "links" in question}
        return min(1, report(right, read))


if __name__ == "__main__":
    sys.exit(main())
