"""Reads tables of Iceberg in S3 with DuckDB and Spark: the present state, and that after the first run.

python readers_lake.py ASKED (JSON: "endpoint", "region", "key", "secret", "catalogue": a file of SQLite, "warehouse",
"first": ids of snapshots by table, "jars": files, empty without Java, "present": the query of present texts)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import duckdb
from duckdb_extensions import import_extension

asked = json.loads(sys.argv[1])
TABLES = "pages", "texts", "links"


def answers(value: Callable[[str], Any], first: Callable[[str], Any]) -> dict[str, Any]:
    """`value` answers a query on the views of the tables, `first` counts the rows of a table after the first run."""
    texts = f"SELECT text FROM ({asked['present']}) AS present"
    return {
        **{f"rows of {name} after the first run": first(name) for name in TABLES},
        **{f"rows of {name}": value(f"SELECT count(*) FROM {name}") for name in TABLES},
        "present texts": value(f"SELECT count(*) FROM ({texts}) AS t"),
        "present texts that are new": value(
            f"SELECT count(*) FROM ({texts}) AS t WHERE text LIKE '%version2%'"
        ),
        "sum of SimHashes": int(value("SELECT sum(CAST(simhash AS DECIMAL(38, 0))) FROM pages")),
        "links that join a page": value(
            "SELECT count(*) FROM links JOIN pages ON links.to_host = pages.host AND links.to_url = pages.url"
        ),
    }


def by_duckdb() -> dict[str, Any]:
    for name in ("avro", "httpfs", "iceberg"):
        import_extension(name)
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD {name}")
    secret = {
        **{"KEY_ID": asked["key"], "SECRET": asked["secret"], "REGION": asked["region"]},
        **{"ENDPOINT": asked["endpoint"].partition("://")[2], "URL_STYLE": "path"},
    }
    options = ", ".join(f"{name} '{value}'" for name, value in secret.items())
    connection.execute(f"CREATE SECRET (TYPE s3, {options}, USE_SSL false)")
    places = {name: f"{asked['warehouse']}/{name}" for name in TABLES}
    for name, place in places.items():
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM iceberg_scan('{place}')")

    def value(query: str) -> Any:
        return connection.execute(query).fetchall()[0][0]

    def first(name: str) -> Any:
        snapshot = asked["first"][name]
        return value(f"SELECT count(*) FROM iceberg_scan('{places[name]}', snapshot_from_id = {snapshot})")

    return answers(value, first)


def by_spark() -> dict[str, Any]:
    from pyspark.sql import SparkSession

    settings = {
        **{"spark.jars": ",".join(asked["jars"]), "spark.ui.enabled": "false"},
        **{"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"},
        "spark.sql.shuffle.partitions": "2",
    }
    catalogue = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{asked['catalogue']}",
        ".jdbc.schema-version": "V0",
        ".warehouse": asked["warehouse"],
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        ".s3.endpoint": asked["endpoint"],
        ".s3.path-style-access": "true",
        ".s3.access-key-id": asked["key"],
        ".s3.secret-access-key": asked["secret"],
        ".client.region": asked["region"],
    }
    builder = SparkSession.builder.master("local[2]")
    for name, setting in (
        settings | {f"spark.sql.catalog.webcrawl{key}": text for key, text in catalogue.items()}
    ).items():
        builder = builder.config(name, setting)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for name in TABLES:
        spark.sql(f"SELECT * FROM webcrawl.webcrawl.{name}").createOrReplaceTempView(name)

    def value(query: str) -> Any:
        return spark.sql(query).collect()[0][0]

    def first(name: str) -> Any:
        return value(f"SELECT count(*) FROM webcrawl.webcrawl.{name} VERSION AS OF {asked['first'][name]}")

    return answers(value, first)


read = {"DuckDB": by_duckdb()}
if asked["jars"]:
    read["Spark"] = by_spark()
print(json.dumps(read))
