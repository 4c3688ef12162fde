"""Sessions of Apache Spark: in this process, or on a standalone cluster."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from webcrawl.config.libraries import optional
from webcrawl.errors import ConfigurationError, StoreError, StoreUnavailable, brief

_LOCAL = re.compile(r"local(\[([1-9]\d{0,3}|\*)\])?")
_CLUSTER = re.compile(r"spark://([^\s:,/@]+:\d{1,5})(,[^\s:,/@]+:\d{1,5})*")
_LEAST_JAVA = 17
_SECONDS = 5.0
"""How long a master may take to accept a connection. Spark itself would try for a minute, and log pages of lines."""


def pyspark() -> ModuleType:
    """Returns pyspark with its SQL module loaded; raises LibraryMissing."""
    return optional("the engine Spark", "pyspark", "spark", "pyspark", "pyspark.sql", "pyspark.errors")


def check_master(master: str) -> None:
    """Raises ConfigurationError unless a session with this master can begin; the message names what is missing."""
    if not (_LOCAL.fullmatch(master) or _CLUSTER.fullmatch(master)):
        raise ConfigurationError(
            f"--engine {master}: it may be duckdb, local[2] with any number, or spark://host:port"
        )
    _check_java()
    if not is_local(master):
        _check_cluster(master)
    pyspark()


def is_local(master: str) -> bool:
    """Returns whether the master is this process."""
    return _LOCAL.fullmatch(master) is not None


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if path is None:
        where = f"JAVA_HOME is {home}, where bin/java is missing" if home else "there is no java in PATH"
        raise ConfigurationError(f"Spark needs Java {_LEAST_JAVA} or later, and {where}")
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"Spark needs Java, and {path} does not run: {brief(error)}") from error
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if done.returncode or version is None:
        raise ConfigurationError(f"Spark needs Java, and {path} does not run: {brief(done.stderr)}")
    if int(version[1]) < _LEAST_JAVA:
        raise ConfigurationError(f"Spark needs Java {_LEAST_JAVA} or later; {path} is Java {version[1]}")


def _check_cluster(master: str) -> None:
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _SECONDS).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(f"{address}: {brief(error)}")
    raise ConfigurationError(f"--engine {master}: no master can be reached: {'; '.join(reasons)}")


@contextmanager
def spark_session(master: str, memory: int | None) -> Iterator[Any]:
    """Yields a SparkSession, which ends with the block; errors of Spark become StoreError, or StoreUnavailable.

    memory  the bytes of memory of the driver, which in local mode does all of the work. Everything else comes from
            Spark's own configuration (SPARK_CONF_DIR)
    """
    check_master(master)
    if is_local(master):
        # where executors run functions of Python, it would be the python3 of PATH
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from py4j.protocol import Py4JError

    errors = (pyspark().errors.PySparkException, Py4JError)
    session, interrupt = None, signal.getsignal(signal.SIGINT)
    root = logging.getLogger()
    root.addFilter(_not_of_py4j)
    try:
        session = _builder(master, memory).getOrCreate()
        if threading.current_thread() is threading.main_thread():
            # the handler of pyspark calls Java amid another call, which fails
            signal.signal(signal.SIGINT, interrupt)
        if is_local(master):
            # of a cluster, the log says what it waits for, such as a worker
            session.sparkContext.setLogLevel("OFF")
        yield session
    except errors as error:
        raise _failed(master, error) from error
    finally:
        if session is not None:
            session.stop()
        root.removeFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Returns whether a record is of another library: py4j logs Ctrl-C with its traceback, by the root logger."""
    return record.module != "java_gateway"


def _builder(master: str, memory: int | None) -> Any:
    options = {
        "spark.app.name": "webcrawl",
        "spark.master": master,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # the files of earlier steps of an iteration
        "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
        # the names of all hosts come to the driver
        "spark.driver.maxResultSize": "0",
    }
    if memory is not None:
        options["spark.driver.memory"] = f"{memory >> 20}m"
    if is_local(master):
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        threads = re.sub(r"\D", "", master)
        number = int(threads) if threads else os.cpu_count() if "*" in master else 1
        options["spark.sql.shuffle.partitions"] = str(number)
    builder = pyspark().sql.SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder


def _failed(master: str, error: Exception) -> StoreError:
    """Returns the StoreError for an error of Spark: its first line, and the innermost cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    # py4j puts the exception of Java into the line after its own
    first = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), "".join(lines[:1]))
    if "stopped SparkContext" in first:
        first = "the master did not accept the application, or ended it"
    message = brief(f"{first} ({causes[-1]})" if causes and causes[-1] != first else first)
    kind = StoreUnavailable if "No space left" in str(error) else StoreError
    return kind(f"Spark ({master}): {message}")
