"""Every registered MIME-type pipeline can be used as it is declared, whoever added it."""

from __future__ import annotations

import re

import pytest
from scrapy.utils.misc import load_object

from settings import base
from tests.crawls import CHECKOUT
from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.documents.mime.reader import named

PIPELINES = {path: load_object(path) for path in base.ITEM_PIPELINES}
OF_MIME_TYPES = [path for path, pipeline in PIPELINES.items() if issubclass(pipeline, MimePipeline)]


@pytest.mark.parametrize("path", OF_MIME_TYPES)
def test_a_pipeline_is_registered_where_its_text_is_used(path: str) -> None:
    order = base.ITEM_PIPELINES
    assert order["pipelines.checksum.ChecksumPipeline"] < order[path], "copies must be known before"
    assert order[path] < order["pipelines.language.LanguagePipeline"], "the language is detected in its text"


@pytest.mark.parametrize("path", OF_MIME_TYPES)
def test_a_pipeline_names_a_reader_and_types(path: str) -> None:
    pipeline = PIPELINES[path]
    assert callable(named(pipeline.reader))
    types = {*pipeline.types, *pipeline.extensions.values(), *pipeline.signatures.values()}
    assert types or pipeline.takes is not MimePipeline.takes, "it takes no page"
    assert [one for one in types if not re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", one)] == []


def test_the_table_of_types_links_to_pipelines_that_are_registered() -> None:
    text = (CHECKOUT / "docs" / "mime-types.md").read_text()
    linked = set(re.findall(r"^\| \[[^\]]+\]\(\.\./pipelines/(\w+)\.py\)", text, re.MULTILINE))
    assert {"html", "pdf"} <= linked <= {path.split(".")[1] for path in PIPELINES}
