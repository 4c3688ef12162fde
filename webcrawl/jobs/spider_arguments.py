"""Checks whether a spider accepts the arguments of a job and has seeds."""

from __future__ import annotations

import inspect
from typing import Any

from scrapy import Spider

from webcrawl.errors import ConfigurationError, WrongJob
from webcrawl.jobs.definition import Definition
from webcrawl.spiders.base import BroadSpider

_KNOWN = ("scrapy", "scrapy_redis", "webcrawl")
"""Packages whose `from_crawler` passes the arguments on to `__init__`."""


def check_start(spider: type[Spider], definition: Definition) -> None:
    """Raises WrongJob, which names the entry, for a spider that certainly fails before its first request.

    Values of arguments that the `__init__` of a project's spider takes are not checked.
    """
    given = {**definition.arguments, **({} if definition.seeds is None else {"seeds": ""})}
    _check_names(spider, given, definition)
    if _package(spider.__init__) != "webcrawl":
        return
    try:
        spider(**definition.arguments)
    except ConfigurationError as error:
        named = [
            name
            for name in definition.arguments
            if name in str(error).replace("'", "").replace(":", "").split()
        ]
        raise WrongJob(str(error), "arguments", *named[:1]) from error
    if _begins_with_seeds(spider) and definition.seeds is None:
        if "seeds" not in definition.arguments:
            raise WrongJob(f"missing: spider {spider.name!r} has nothing to crawl without them", "seeds")
        if not definition.arguments["seeds"].strip(" ,\t\n"):
            raise WrongJob("there is no URL", "arguments", "seeds")


def _check_names(spider: type[Spider], given: dict[str, str], definition: Definition) -> None:
    """Raises WrongJob for an argument that `__init__` does not take, and for a missing required argument."""
    factories = [vars(base)["from_crawler"] for base in spider.__mro__ if "from_crawler" in vars(base)]
    if any(_package(factory) not in _KNOWN for factory in factories):
        return  # a factory of the project may add arguments, or leave some out
    parameters = list(inspect.signature(spider.__init__).parameters.values())[1:]
    named = {
        parameter.name: parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in given:
            raise WrongJob(f"{name} is missing: spider {spider.name!r} requires it", "arguments")
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    for name in given:
        if name not in named:
            entry = ("arguments", name) if name in definition.arguments else ("seeds",)
            takes = ", ".join(sorted(named)) or "no arguments"
            raise WrongJob(f"spider {spider.name!r} does not take {name!r}; it takes {takes}", *entry)


def _begins_with_seeds(spider: type[Spider]) -> bool:
    """Returns whether a spider starts like webcrawl's spiders, with seeds from its argument only."""
    if not issubclass(spider, BroadSpider):
        return False
    methods = (spider.start, spider.seed_urls, spider.from_crawler)
    return all(_package(method) == "webcrawl" for method in methods)


def _package(function: Any) -> str:
    """Returns the top-level package in which a function or method is defined."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    return str(function.__module__).partition(".")[0]
