"""Merges the files of links or texts on the executors of Spark, each group of files on one of them.

Executors run the function that a merge in one process runs, so they need Python with this package, and the merged files
are the same. A note about each merge is in the store, so the end of an executor loses no row and doubles none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from webcrawl.config import StoreConfig
from webcrawl.graph.spark.session import spark_session
from webcrawl.links.merging import merge_files
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.tables.merges import Merged, MergeJob, TableMerge, merge_job
from webcrawl.stores.tables.text_merges import merge_texts


def merge_by_spark(config: StoreConfig, table: str, master: str) -> Merged:
    """Merges small files of `table`, links or texts; raises StoreError, and ConfigurationError without Spark."""
    uri, merge = (config.links, merge_files) if table == "links" else (config.tables, merge_texts)
    with spark_session(master, None) as session:
        return merge(config, partial(_run, session, uri, dict(config.object_stores)))


def _run(
    session: Any, uri: str, classes: Mapping[str, str], jobs: Sequence[MergeJob], how: TableMerge
) -> None:
    if jobs:
        spread = session.sparkContext.parallelize(jobs, len(jobs))
        spread.foreach(partial(_merge_on_executor, uri, classes, how))


def _merge_on_executor(uri: str, classes: Mapping[str, str], how: TableMerge, job: tuple[Any, ...]) -> None:
    merge_job(open_store(uri, "STORE_URI", classes, check=False), MergeJob(*job), how)
