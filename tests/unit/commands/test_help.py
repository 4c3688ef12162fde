"""The help texts of the commands."""

from __future__ import annotations

import argparse
import pkgutil
from importlib import import_module

import pytest
from scrapy.commands import ScrapyCommand
from scrapy.settings import Settings

import webcrawl.commands
from tests.cases import cases
from webcrawl.crawler.command import port_number
from webcrawl.documents.values import counted, without_class

NAMES = [module.name for module in pkgutil.iter_modules(webcrawl.commands.__path__)]


@cases("name", NAMES)
def test_no_line_of_help_looks_like_a_heading(name: str) -> None:
    """Scrapy's formatter prints a line that ends with a colon as a heading; any word may end a line."""
    command: ScrapyCommand = import_module(f"webcrawl.commands.{name}").Command()
    command.settings = Settings()
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    scrapys = argparse.ArgumentParser(conflict_handler="resolve")
    for base in type(command).__mro__:
        if base.__module__.startswith("scrapy.") and base is not ScrapyCommand:
            base.add_options(command, scrapys)  # type: ignore[attr-defined]
            break
    else:
        ScrapyCommand.add_options(command, scrapys)
    known = {action.help for action in scrapys._actions}
    own = [action.help for action in parser._actions if action.help and action.help not in known]
    assert not [
        text for text in [*own, command.long_desc()] if any(word.endswith(":") for word in text.split())
    ]


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(0, ("page",), "0 pages"), (1, ("page",), "1 page"), (2000, ("fetch", "fetches"), "2,000 fetches")],
)
def test_counted_agrees_with_its_number(number: int, noun: tuple[str, ...], text: str) -> None:
    assert counted(number, *noun) == text


@cases(
    ("reason", "text"),
    [
        ("IgnoreRequest: robots.txt disallows it", "robots.txt disallows it"),
        ("ConnectionRefusedError: refused", "refused"),
        ("KeptConnectionClosed: ServerDisconnectedError: Server disconnected", "Server disconnected"),
        ("KeyError: 'price'", "KeyError: 'price'"),
        ("HTTP status 503", "HTTP status 503"),
        ("too many redirects: 21", "too many redirects: 21"),
    ],
)
def test_reasons_for_people_have_no_class_but_those_of_programming_errors(reason: str, text: str) -> None:
    assert without_class(reason) == text


def test_a_port_is_a_number_that_sockets_keep() -> None:
    assert [port_number(text) for text in ("0", "8780", "65535")] == [0, 8780, 65535]
    for text in ("65536", "99999", "-1", "x", "", "1e3", "\u0663", "0" * 9):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a port: give a number from 0 to 65535"):
            port_number(text)
