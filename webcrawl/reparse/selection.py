"""Selects the pages to read again by the options of the command line."""

from __future__ import annotations

import argparse
from typing import Any

from scrapy.settings import BaseSettings
from sqlalchemy import ColumnElement, or_

from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.errors import ConfigurationError
from webcrawl.pipelines.html import HtmlPipeline
from webcrawl.reparse.settings import pipeline_named
from webcrawl.stores.columns import pages
from webcrawl.stores.reread_rows import sql_condition
from webcrawl.stores.selection import of_type, since

OPTIONS = ("mime_type", "pipeline", "since", "where")
_UNTYPED = ("application/octet-stream", "binary/octet-stream")


def conditions(opts: argparse.Namespace, settings: BaseSettings) -> list[ColumnElement[bool]]:
    """Returns the conditions on table `pages` that the options set; all must hold. Raises ConfigurationError."""
    chosen = []
    if opts.mime_type:
        chosen.append(of_type(opts.mime_type))
    if opts.since:
        chosen.append(since(opts.since))
    if opts.pipeline:
        chosen.append(of_pipeline(pipeline_named(settings, opts.pipeline)))
    if opts.where:
        chosen.append(sql_condition(opts.where))
    return chosen


def of_pipeline(pipeline: type[Any]) -> ColumnElement[bool]:
    """Returns the condition for rows of pages that a pipeline reads now.

    A new pipeline may read types that were not recognized when the page was fetched. Rows with its file extensions
    match too, and if it has signatures, also rows without a type.
    """
    if issubclass(pipeline, HtmlPipeline):
        return of_type("text/html,application/xhtml+xml")
    if not issubclass(pipeline, MimePipeline) or not pipeline.types:
        raise ConfigurationError(
            f"--pipeline {pipeline.__name__} does not say which MIME types it reads: choose its pages by --mime-type"
        )
    chosen: list[ColumnElement[bool]] = [pages.c.mime_type.in_(sorted(pipeline.types))]
    for extension in sorted(pipeline.extensions):
        path = pages.c.final_url
        chosen += [path.endswith(extension, autoescape=True), path.contains(f"{extension}?", autoescape=True)]
    if pipeline.signatures:
        chosen.append(or_(pages.c.mime_type.in_(_UNTYPED), pages.c.mime_type.is_(None)))
    return or_(*chosen)
